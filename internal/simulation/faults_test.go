package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// fault is something that goes wrong and ends. While it lasts, and for a while after it, its
// scopes are in trouble; N among them is the node that was drawn, A the account.
type fault struct {
	name   string
	scopes string
	begin  func(d *draw) (end func())
}

// draw is one fault or deed, drawn with all that it may need.
type draw struct {
	w       *world
	rng     *rand.Rand
	client  *http.Client // of the operator
	node    *node
	account string
}

// faults are drawn one to three at a time.
func faults() []fault {
	return []fault{
		{"redis dies", "shared fleet redis auth", (*draw).redisDies},
		{"redis forgets", "fleet auth", (*draw).redisForgets},
		{"redis stalls", "shared fleet redis", func(d *draw) func() { return d.w.redis.stall() }},
		{"redis is slow or refuses", "shared fleet redis", (*draw).redisIsBad},
		{"messages are lost", "fleet", (*draw).messagesAreLost},
		{"entries are damaged", "fleet", (*draw).damage},
		{"the way to redis is bad", "shared fleet redis:N", func(d *draw) func() { return d.badWay("redis") }},
		{"the way to the legacy is bad", "shared fleet way", func(d *draw) func() { return d.badWay("legacy") }},
		{"the legacy is down", "shared fleet", (*draw).legacyIsDown},
		{"the legacy fails", "shared fleet", (*draw).legacyFails},
		{"the lists of one account fail", "account:A", (*draw).oneAccountFails},
		{"a node crashes", "fleet N", (*draw).nodeCrashes},
		{"a node restarts", "fleet N", (*draw).nodeRestarts},
	}
}

// deed is what operators and callers do, in calm or beside faults.
type deed struct {
	name   string
	scopes string
	do     func(d *draw)
}

func deeds() []deed {
	return []deed{
		{"purges", "", (*draw).purges},
		{"purges during fills", "shared fleet way", (*draw).purgesDuringFills},
		{"purges that redis forgets", "shared fleet redis:N auth", (*draw).purgesForgotten},
		{"a key is revoked", "", (*draw).revoke},
		{"the policy changes", "", (*draw).policyChanges},
		{"the mapping changes", "shared fleet", (*draw).mappingChanges},
		{"a configuration is broken", "", (*draw).brokenConfiguration},
		{"a storm on a cold list", "", (*draw).storm},
		{"a rush on one node", "shared fleet", (*draw).rush},
	}
}

// event is a fault or a deed.
type event struct {
	name string
	run  func(d *draw, lasts time.Duration)
}

// events are all whose names the flag selects.
func events(faultsToo bool) (all []event) {
	selected := regexp.MustCompile(*only)
	add := func(name, scopes string, run func(d *draw, lasts time.Duration)) {
		if !selected.MatchString(name) {
			return
		}
		all = append(all, event{name, func(d *draw, lasts time.Duration) {
			d.w.log("%s: node %s, account %s, for %v", name, d.node.scope(), d.account, lasts)
			d.w.reach(name)
			defer d.w.checks.begin(strings.Fields(strings.NewReplacer("N", d.node.scope(), "A", d.account).Replace(scopes))...)()
			run(d, lasts)
		}})
	}
	if !faultsToo {
		for _, deed := range deeds() {
			add(deed.name, deed.scopes, func(d *draw, _ time.Duration) { deed.do(d) })
		}
		return all
	}
	for _, f := range faults() {
		add(f.name, f.scopes, func(d *draw, lasts time.Duration) {
			end := f.begin(d)
			time.Sleep(lasts)
			end()
		})
	}
	return all
}

// draw draws a node and an account.
func (w *world) draw(rng *rand.Rand, client *http.Client) *draw {
	return &draw{w, rand.New(rand.NewPCG(rng.Uint64(), 0)), client, w.nodes[rng.IntN(len(w.nodes))], accounts()[rng.IntN(len(accounts()))]}
}

// happen lets faults and deeds happen until then, and ends in calm: one to three faults at
// a time, each at its own moment and for its own time, with up to two deeds beside them.
func (w *world) happen(until time.Time) {
	rng, client := rngOf(w.seed, "events"), w.operator()
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	for time.Now().Before(until) && !w.over() {
		for _, some := range []struct {
			of   []event
			most int
		}{{events(true), 1 + rng.IntN(3)}, {events(false), rng.IntN(3)}} {
			for _, i := range rng.Perm(len(some.of))[:min(some.most, len(some.of))] {
				d := w.draw(rng, client)
				after, lasts := d.between(0, 6), time.Duration(rng.Float64()*float64(d.between(0.2, 15)))
				running.Go(func() {
					time.Sleep(after)
					some.of[i].run(d, lasts)
				})
			}
		}
		running.Wait()
		w.calm(d0(rng))
	}
}

// all lets one event happen after the other.
func (w *world) all(events []event) {
	rng, client := rngOf(w.seed, "events"), w.operator()
	defer client.CloseIdleConnections()
	for _, e := range events {
		if !w.over() {
			e.run(w.draw(rng, client), d0(rng))
			w.calm(d0(rng))
		}
	}
}

// d0 is how long a fault lasts that comes alone, and how long calm is watched.
func d0(rng *rand.Rand) time.Duration {
	return time.Duration((4 + 8*rng.Float64()) * float64(time.Second))
}

func (w *world) operator() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: w.net.dialer("operator")}}
}

// neverCalm is longer than any trouble takes.
const neverCalm = 10 * time.Minute

// calm lets the fleet recover, and then be watched.
func (w *world) calm(watched time.Duration) {
	for begun := time.Now(); !w.over() && !w.checks.settled(time.Now()); time.Sleep(time.Second) {
		if time.Since(begun) > neverCalm {
			w.checks.fail("not well again after %v: %s", neverCalm, w.checks.troubled(time.Now()))
		}
	}
	w.log("all is well")
	time.Sleep(watched)
}

func (d *draw) between(low, high float64) time.Duration {
	return time.Duration((low + d.rng.Float64()*(high-low)) * float64(time.Second))
}

// one of several, at random.
func one[T any](d *draw, of ...T) T { return of[d.rng.IntN(len(of))] }

func (d *draw) buyer() string { return one(d, buyers()...) }

// redisDies comes back with its data, without it, or as a replica that lags.
func (d *draw) redisDies() func() {
	w := d.w
	w.net.crash("redis", d.rng.IntN(2) == 0)
	w.redis.disconnect()
	return func() {
		lost := d.rng.IntN(3) > 0 && d.forget()
		w.redis.serve(w.net.listen("redis", redisAddress))
		d.restoreKeys(lost)
	}
}

// forget has Redis lose all of its memory, or what is younger than a moment.
func (d *draw) forget() bool {
	d.w.redis.with(func() {
		if d.rng.IntN(2) == 0 {
			d.w.redis.store.clear()
		} else {
			d.w.redis.store.rollBack(d.between(0.5, 3))
		}
		d.w.checks.lost()
	})
	return true
}

func (d *draw) redisForgets() func() {
	d.forget()
	return func() { d.restoreKeys(true) }
}

// restoreKeys is what an operator does some time after Redis has lost its keys.
func (d *draw) restoreKeys(lost bool) {
	if lost && d.w.keys.inRedis {
		time.Sleep(d.between(0, 3))
		d.w.redis.with(d.w.keys.restore)
		d.w.checks.keysRestored()
	}
}

func (d *draw) redisIsBad() func() {
	slow, text := d.between(0, 0.15), ""
	if d.rng.IntN(2) == 0 {
		slow, text = 0, one(d, "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
			"OOM command not allowed when used memory > 'maxmemory'.", "NOPERM this user has no permissions")
	}
	d.w.redis.with(func() { d.w.redis.slow, d.w.redis.refuse = slow, text })
	return func() { d.w.redis.with(func() { d.w.redis.slow, d.w.redis.refuse = 0, "" }) }
}

func (d *draw) messagesAreLost() func() {
	d.mute(0.3 + 0.7*d.rng.Float64())
	d.purge(d.node, d.account)
	return func() {
		d.purge(d.node, d.buyer())
		d.mute(0)
	}
}

func (d *draw) mute(share float64) { d.w.redis.with(func() { d.w.redis.mute = share }) }

// damage changes bytes of the lists in Redis.
func (d *draw) damage() func() {
	d.w.redis.with(func() {
		for key, v := range d.w.redis.store.values {
			if b := []byte(v.text); strings.Contains(key, "{") && len(b) > 50 {
				b[d.rng.IntN(len(b))] ^= 1 << d.rng.IntN(8)
				v.text = string(b)
				d.w.redis.store.values[key] = v
			}
		}
	})
	return func() {}
}

// badWay cuts the way of the node to a host, in one direction or both, or makes it slow.
func (d *draw) badWay(host string) func() {
	var there, back condition
	switch d.rng.IntN(4) {
	case 0:
		there.cut = true
	case 1:
		back.cut = true
	case 2:
		there.cut, back.cut = true, true
	default:
		there.slow = d.between(0, 0.4)
	}
	return d.way(host, there, back)
}

func (d *draw) way(host string, there, back condition) (heal func()) {
	r := d.node.current()
	if r == nil {
		return func() {}
	}
	set := func(there, back condition) {
		if d.node.current() == r {
			d.w.net.set(way{r.name, host}, there)
			d.w.net.set(way{host, r.name}, back)
		}
	}
	set(there, back)
	return func() { set(condition{}, condition{}) }
}

func (d *draw) legacyIsDown() func() {
	d.w.net.crash("legacy", d.rng.IntN(2) == 0)
	return func() { d.w.legacy.serve(d.w.net.listen("legacy", legacyAddress)) }
}

func (d *draw) legacyFails() func() {
	m := misbehaviour{name: one(d, "500", "502", "503", "429", "cut", "slow", "garbage", "foreign", "part"), rate: 0.2 + 0.8*d.rng.Float64(), delay: d.between(0, 0.2)}
	if m.name == "slow" {
		m.rate, m.delay = 1, d.between(0.2, 2)
	}
	return d.w.legacy.misbehave(m)
}

// oneAccountFails must be nobody else's trouble, however often its lists are asked for. Mostly
// an outage of all ends meanwhile, so that probes meet these lists.
func (d *draw) oneAccountFails() func() {
	end := d.w.legacy.misbehave(misbehaviour{name: one(d, "404", "404", "404", "garbage", "foreign", "part"), account: d.account, rate: 1}) // 429 is for the whole fleet
	outage, most := d.rng.IntN(4) > 0, 20
	if outage {
		endOutage, well := d.w.legacy.misbehave(misbehaviour{name: "500", rate: 1}), d.w.checks.begin("shared", "fleet")
		d.purge(d.node, d.account) // nothing is left to be served stale
		time.Sleep(d.between(4, 6))
		endOutage()
		well()
		most = 120
	}
	for range most {
		want := listKey{kind: kindOf(d.account), account: d.account, status: one(d, "", "pending", "answered"), inquiryType: one(d, "", "delivery", "refund", "product")}
		d.w.askOnce(fmt.Sprintf("of one account %d", d.rng.Uint32()), d.w.nodes[d.rng.IntN(nodeCount)], want)()
		time.Sleep(d.between(0, 0.4))
	}
	return end
}

func (d *draw) nodeCrashes() func() {
	d.node.crash(d.rng.IntN(2) == 0)
	return d.startNode
}

func (d *draw) startNode() {
	if d.node.current() == nil {
		d.node.start()
	}
}

func (d *draw) nodeRestarts() func() {
	d.node.stop()
	d.startNode()
	return func() {}
}

func (d *draw) purges() {
	for range 1 + d.rng.IntN(5) {
		if d.rng.IntN(4) == 0 {
			d.purgeKind(d.w.nodes[d.rng.IntN(nodeCount)], kindOf(d.account))
		} else {
			d.purge(d.w.nodes[d.rng.IntN(nodeCount)], one(d, accounts()...))
		}
		time.Sleep(d.between(0, 2))
	}
}

func (d *draw) purge(n *node, account string) {
	if d.rng.IntN(5) == 0 { // the legacy does it, by a hint
		d.post(&purge{node: n, account: account}, "/ops/changed", fmt.Sprintf(`{"accounts":[%q],"hard":true}`, account))
		return
	}
	d.post(&purge{node: n, account: account}, "/ops/purge", fmt.Sprintf(`{"account":%q}`, account))
}

func (d *draw) purgeKind(n *node, kind string) {
	d.post(&purge{node: n, kind: kind}, "/ops/purge", fmt.Sprintf(`{"kind":%q}`, kind))
}

func (d *draw) post(p *purge, path, body string) {
	if p.run, p.begin = p.node.current(), time.Now(); p.run == nil {
		return
	}
	c := d.w.checks
	c.mu.Lock()
	c.purges = append(c.purges, p)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status := 0
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.node.address("9090")+path, strings.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		r.Host = "127.0.0.1:9090"
		var res *http.Response
		if res, err = d.client.Do(r); err == nil {
			status, err = res.StatusCode, res.Body.Close()
		}
	}
	d.w.log("%s %s by %s: %d %v", path, body, p.run.name, status, err)
	d.w.reach(fmt.Sprintf("%s %d", path, status))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		p.end, p.ok = time.Now(), status == http.StatusOK
	}
}

// ask has a caller of its own ask for a list.
func (d *draw) ask(n *node, account string) (wait func()) {
	return d.w.askOnce(fmt.Sprintf("asked %d", d.rng.Uint32()), n, listKey{kind: kindOf(account), account: account})
}

// purgesDuringFills has answers on their way while their lists are purged.
func (d *draw) purgesDuringFills() {
	defer d.way("legacy", condition{}, condition{slow: 200 * time.Millisecond})()
	for range 4 {
		account := d.buyer()
		d.purge(d.node, account)
		wait := d.ask(d.node, account)
		time.Sleep(d.between(0.02, 0.25))
		d.purge(d.node, account)
		wait()
	}
}

// purgesForgotten has Redis lose a purge that the node has not seen, and mostly has another
// one come before anybody can notice. The node has the purged list, and is asked for it
// afterwards. What comes of it depends on moments, so it is done more than once.
func (d *draw) purgesForgotten() {
	by, other := d.w.nodes[(d.node.index+1)%nodeCount], d.w.nodes[(d.node.index+2)%nodeCount]
	for range 6 {
		account := d.buyer()
		d.ask(d.node, account)()
		end := d.w.checks.begin("redis:" + d.node.scope())
		heal := d.way("redis", condition{cut: true}, condition{cut: d.rng.IntN(2) == 0})
		time.Sleep(d.between(0.1, 0.3))
		d.mute(1) // else the message arrives late
		d.purge(by, account)
		time.Sleep(d.between(0, 0.3))
		d.forget()
		if d.rng.IntN(3) > 0 {
			d.purge(other, sellers()[0])
		}
		d.mute(0)
		time.Sleep(d.between(0, 0.3))
		heal()
		d.restoreKeys(true)
		end()
		for time.Sleep(purgeBound + slack); d.rng.IntN(8) > 0; time.Sleep(d.between(0, 0.5)) {
			d.ask(d.node, account)()
		}
	}
}

func (d *draw) revoke() {
	if k := d.w.keys.pick(d.account, 1+d.rng.IntN(keysOfAccount-1)); d.w.keys.revokedAt(k).IsZero() {
		d.w.keys.revoke(k)
	}
}

func (d *draw) policyChanges() {
	for range 1 + d.rng.IntN(3) {
		p := formOf(d.rng.Uint64()).policy
		for _, n := range d.w.nodes {
			p.mapping = n.last().mapping
			n.reload(p)
			time.Sleep(d.between(0, 2))
		}
	}
}

// mappingChanges rolls another mapping out, node by node, while fills of one list are under
// way.
func (d *draw) mappingChanges() {
	defer d.w.legacy.misbehave(misbehaviour{name: "slow", rate: 1, delay: d.between(0, 0.5)})()
	for range 1 + d.rng.IntN(4) {
		for _, n := range d.w.nodes {
			p := n.last()
			p.mapping = map[string]string{"m1": "m2", "m2": "m1"}[p.mapping]
			n.reload(p)
			account := d.buyer()
			for i := range 20 { // about as long as a reload takes
				if i%7 == 0 {
					d.purge(n, account)
				}
				defer d.ask(n, account)()
				time.Sleep(d.between(0.02, 0.07))
			}
		}
		time.Sleep(d.between(1, 3))
	}
}

func (d *draw) brokenConfiguration() {
	for _, text := range []string{"\nno_such_key: 1\n", ""} {
		d.node.mu.Lock()
		if !d.node.waiting {
			d.node.write(d.node.policies[len(d.node.policies)-1].policy, text)
		}
		d.node.mu.Unlock()
		time.Sleep(d.between(1, 3))
	}
}

// storm has many callers ask for one list at once, after a purge.
func (d *draw) storm() {
	d.purge(d.node, d.account)
	time.Sleep(purgeBound)
	for i := range 24 {
		defer d.ask(d.w.nodes[i%nodeCount], d.account)()
	}
}

// rush has one node asked for many lists at once, again and again, so that it needs what the
// other nodes may send.
func (d *draw) rush() {
	for range 3 + d.rng.IntN(4) {
		d.purgeKind(d.node, kindBuyer)
		var waits []func()
		for _, account := range buyers() {
			for _, status := range []string{"", "pending", "answered"} {
				for _, inquiryType := range []string{"", "delivery"} {
					waits = append(waits, d.w.askOnce(fmt.Sprintf("rush %d", d.rng.Uint32()), d.node, listKey{kindBuyer, account, status, inquiryType}))
				}
			}
		}
		for _, wait := range waits {
			wait()
		}
	}
}
