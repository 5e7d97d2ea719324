package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// director makes things happen, one story after the other. Between two stories all
// is well for as long as the fleet may need to be so again, and a little longer.
type director struct {
	w      *world
	rng    *rand.Rand
	client *http.Client
}

// story is something that goes wrong and ends.
type story struct {
	name string
	tell func(d *director)
}

// stories are all faults. TestEveryFault tells each once.
func stories() []story {
	return []story{
		{"redis is killed", func(d *director) { d.redisRestarts(keepsData) }},
		{"redis loses its memory", func(d *director) { d.redisRestarts(losesData) }},
		{"redis fails over", func(d *director) { d.redisRestarts(failsOver) }},
		{"redis is flushed", (*director).flush},
		{"redis stalls", (*director).redisStalls},
		{"redis is slow", (*director).redisIsSlow},
		{"redis refuses", (*director).redisRefuses},
		{"entries are damaged", (*director).damage},
		{"messages are lost", (*director).messagesAreLost},
		{"a node is cut off from redis", (*director).cutFromRedis},
		{"a way is slow", (*director).slowWay},
		{"a node is cut off from the legacy", (*director).cutFromLegacy},
		{"the legacy fails", (*director).legacyFails},
		{"the legacy is overloaded", (*director).legacyIsOverloaded},
		{"the legacy is down", (*director).legacyIsDown},
		{"the legacy sends nonsense", (*director).legacyNonsense},
		{"the lists of one account fail", (*director).oneAccountFails},
		{"one account fails after an outage", (*director).oneAccountFailsAfterAnOutage},
		{"a node crashes", (*director).nodeCrashes},
		{"a node restarts", (*director).nodeRestarts},
		{"policies change", (*director).reloads},
		{"the mapping changes", (*director).mappingChanges},
		{"a configuration is broken", (*director).brokenConfiguration},
		{"purges", (*director).purges},
		{"hints", (*director).hints},
		{"a purge during a failure", (*director).purgeUnseen},
		{"a purge that redis forgets", (*director).purgeForgotten},
		{"purges during fills", (*director).purgesDuringFills},
		{"a key is revoked", (*director).revocation},
		{"the key store fails", (*director).keyStoreFails},
		{"a storm on a cold list", (*director).storm},
		{"a rush on one node", (*director).rush},
	}
}

// run tells stories until the time is over, and ends in calm: what a story that is
// told beside others has opened is given back first.
func (d *director) run(until time.Time) {
	defer d.client.CloseIdleConnections()
	var told sync.WaitGroup
	all := slices.DeleteFunc(stories(), func(s story) bool { return !regexp.MustCompile(*tell).MatchString(s.name) })
	for time.Now().Before(until) && !d.w.over() {
		for range 1 + d.rng.IntN(2) { // two at a time now and then
			s := all[d.rng.IntN(len(all))]
			d.w.log("story: %s", s.name)
			d.w.reach(s.name)
			done := make(chan struct{})
			part := &director{d.w, rngOf(d.rng.Uint64(), s.name), d.client}
			told.Go(func() {
				defer close(done)
				s.tell(part)
			})
			if d.rng.IntN(3) > 0 {
				<-done
			}
		}
		d.calm()
	}
	told.Wait()
	d.calm()
}

// all tells stories one by one.
func (d *director) all(stories []story) {
	defer d.client.CloseIdleConnections()
	for _, s := range stories {
		if d.w.over() {
			return
		}
		d.w.log("story: %s", s.name)
		d.w.reach(s.name)
		s.tell(d)
		d.calm()
	}
}

// neverCalm is longer than any story takes.
const neverCalm = 10 * time.Minute

// calm lets the fleet recover, and then be watched.
func (d *director) calm() {
	for begun := time.Now(); !d.w.over() && !d.w.checks.settled(time.Now(), d.w.checks.scopes()...); time.Sleep(time.Second) {
		if time.Since(begun) > neverCalm {
			d.w.checks.fail("not well again after %v: %s", neverCalm, d.w.checks.troubled())
		}
	}
	d.w.log("all is well")
	time.Sleep(d.between(5, 15))
}

func (d *director) between(low, high float64) time.Duration {
	return time.Duration((low + d.rng.Float64()*(high-low)) * float64(time.Second))
}

func (d *director) node() *node { return d.w.nodes[d.rng.IntN(len(d.w.nodes))] }

func (d *director) account() (kind, account string) {
	if d.rng.IntN(3) == 0 {
		return kindSeller, sellers()[d.rng.IntN(len(sellers()))]
	}
	return kindBuyer, buyers()[d.rng.IntN(len(buyers()))]
}

// What becomes of Redis' data when it starts again.
const (
	keepsData = iota
	losesData
	failsOver
)

func (d *director) redisRestarts(how int) {
	w := d.w
	end := w.checks.begin("shared", "fleet", "redis")
	w.net.crash("redis", d.rng.IntN(2) == 0)
	w.redis.disconnect()
	time.Sleep(d.between(0, 12))
	w.redis.with(func() {
		switch how {
		case losesData:
			w.redis.store.clear()
			w.checks.lost()
		case failsOver:
			w.redis.store.rollBack(d.between(0, 3))
			w.checks.lost()
		}
	})
	w.redis.serve(w.net.listen("redis", redisAddress))
	d.restoreKeys(how != keepsData)
	end()
}

// restoreKeys is what an operator does some time after Redis has lost its keys.
func (d *director) restoreKeys(lost bool) {
	if !lost || d.w.auth != "redis" {
		return
	}
	end := d.w.checks.begin("auth")
	time.Sleep(d.between(0, 3))
	d.w.redis.with(d.w.keys.restore)
	d.w.checks.keysRestored()
	end()
}

func (d *director) flush() {
	end := d.w.checks.begin("fleet")
	d.w.redis.with(func() {
		d.w.redis.store.clear()
		d.w.checks.lost()
	})
	d.restoreKeys(true)
	end()
}

func (d *director) redisStalls() {
	end := d.w.checks.begin("shared", "fleet", "redis")
	stopped := make(chan struct{})
	d.w.redis.stop(stopped)
	time.Sleep(d.between(0.05, 10))
	d.w.redis.resume(stopped)
	end()
}

func (d *director) redisIsSlow() {
	end := d.w.checks.begin("shared", "fleet", "redis")
	delay := time.Duration(d.rng.IntN(int(150 * time.Millisecond)))
	d.w.redis.with(func() { d.w.redis.faults.slow = delay })
	time.Sleep(d.between(1, 15))
	d.w.redis.with(func() { d.w.redis.faults.slow = 0 })
	end()
}

func (d *director) redisRefuses() {
	end := d.w.checks.begin("shared", "fleet", "redis")
	text := []string{
		"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.", "NOPERM this user has no permissions",
	}[d.rng.IntN(4)]
	d.w.redis.with(func() { d.w.redis.faults.refuse = text })
	time.Sleep(d.between(1, 15))
	d.w.redis.with(func() { d.w.redis.faults.refuse = "" })
	end()
}

// damage changes bytes of the lists in Redis.
func (d *director) damage() {
	end := d.w.checks.begin("fleet")
	d.w.redis.with(func() {
		for key, v := range d.w.redis.store.values {
			if b := []byte(v.text); strings.Contains(key, "{") && len(b) > 50 {
				b[d.rng.IntN(len(b))] ^= 1 << d.rng.IntN(8)
				v.text = string(b)
				d.w.redis.store.values[key] = v
			}
		}
	})
	end()
}

func (d *director) messagesAreLost() {
	end := d.w.checks.begin("fleet")
	d.w.redis.with(func() { d.w.redis.faults.lossOfSubs = 0.3 + 0.7*d.rng.Float64() })
	for range 1 + d.rng.IntN(4) {
		time.Sleep(d.between(0.5, 4))
		d.purge()
	}
	d.w.redis.with(func() { d.w.redis.faults.lossOfSubs = 0 })
	end()
}

// cut cuts the way of a node to a host, in one direction or both.
func (d *director) cut(n *node, host string) (heal func()) {
	r := n.current()
	if r == nil {
		return func() {}
	}
	there, back := d.rng.IntN(3) > 0, d.rng.IntN(3) > 0
	d.w.net.set(way{r.name, host}, condition{cut: there || !back})
	d.w.net.set(way{host, r.name}, condition{cut: back})
	return func() {
		if n.current() == r {
			d.w.net.set(way{r.name, host}, condition{})
			d.w.net.set(way{host, r.name}, condition{})
		}
	}
}

func (d *director) cutFromRedis() {
	n := d.node()
	end := d.w.checks.begin("shared", "fleet", "redis:"+n.scope())
	heal := d.cut(n, "redis")
	time.Sleep(d.between(0.2, 15))
	heal()
	end()
}

func (d *director) slowWay() {
	n := d.node()
	host := []string{"redis", "legacy"}[d.rng.IntN(2)]
	end := d.w.checks.begin("shared", "fleet", "redis:"+n.scope(), "way to the legacy")
	if r := n.current(); r != nil {
		slow := time.Duration(d.rng.IntN(int(400 * time.Millisecond)))
		d.w.net.set(way{r.name, host}, condition{slow: slow})
		time.Sleep(d.between(1, 15))
		if n.current() == r {
			d.w.net.set(way{r.name, host}, condition{})
		}
	}
	end()
}

func (d *director) cutFromLegacy() {
	n := d.node()
	end := d.w.checks.begin("shared", "fleet", "way to the legacy")
	heal := d.cut(n, "legacy")
	time.Sleep(d.between(0.2, 15))
	heal()
	end()
}

func (d *director) legacyFails() {
	end := d.w.checks.begin("shared", "fleet")
	name := []string{"500", "502", "503", "cut", "slow", "429"}[d.rng.IntN(6)]
	d.w.legacy.setFaults(legacyFault{name: name, rate: 0.2 + 0.8*d.rng.Float64(), delay: d.between(0, 0.2)})
	if name == "slow" {
		d.w.legacy.setFaults(legacyFault{name: name, delay: d.between(0.2, 2)})
		d.w.reach("legacy slow")
	}
	time.Sleep(d.between(2, 25))
	d.w.legacy.setFaults()
	end()
}

// legacyIsOverloaded is what repeats are for.
func (d *director) legacyIsOverloaded() {
	end := d.w.checks.begin("shared", "fleet")
	d.w.legacy.setFaults(legacyFault{name: []string{"502", "503"}[d.rng.IntN(2)], rate: 0.1 + 0.5*d.rng.Float64()})
	time.Sleep(d.between(5, 30))
	d.w.legacy.setFaults()
	end()
}

func (d *director) legacyIsDown() {
	end := d.w.checks.begin("shared", "fleet")
	d.w.net.crash("legacy", d.rng.IntN(2) == 0)
	time.Sleep(d.between(1, 25))
	d.w.legacy.serve(d.w.net.listen("legacy", legacyAddress))
	end()
}

func (d *director) legacyNonsense() {
	end := d.w.checks.begin("shared", "fleet")
	name := []string{"garbage", "foreign", "part"}[d.rng.IntN(3)]
	d.w.legacy.setFaults(legacyFault{name: name, rate: 0.3 + 0.7*d.rng.Float64()})
	time.Sleep(d.between(2, 20))
	d.w.legacy.setFaults()
	end()
}

// oneAccountFails must be nobody else's trouble.
func (d *director) oneAccountFails() {
	_, account := d.account()
	end := d.w.checks.begin("account:" + account)
	name := []string{"404", "garbage", "foreign", "part"}[d.rng.IntN(4)] // 429 is for the whole fleet: it is told to wait
	d.w.log("of %s: %s", account, name)
	d.w.legacy.setFaults(legacyFault{name: name, account: account})
	time.Sleep(d.between(5, 25))
	d.w.legacy.setFaults()
	end()
}

// oneAccountFailsAfterAnOutage has the probes after an outage meet the one list
// that fails by itself.
func (d *director) oneAccountFailsAfterAnOutage() {
	account := d.rng.IntN(len(buyers()))
	k, id := d.w.keys.pick(3 * account)
	end, endAll := d.w.checks.begin("account:"+k.account), d.w.checks.begin("shared", "fleet")
	own := legacyFault{name: "404", account: k.account}
	d.w.legacy.setFaults(own, legacyFault{name: "500"})
	time.Sleep(d.between(5, 10))
	d.w.legacy.setFaults(own)
	endAll()
	for range 60 {
		d.askFor(d.node(), k, id, fmt.Sprintf("after an outage %d", d.rng.Uint32()), 1)()
		time.Sleep(d.between(0, 1))
	}
	d.w.legacy.setFaults()
	end()
}

func (d *director) nodeCrashes() {
	n := d.node()
	endAll, end := d.w.checks.begin("fleet"), d.w.checks.begin(n.scope())
	n.crash(d.rng.IntN(2) == 0)
	time.Sleep(d.between(0, 2))
	endAll()
	time.Sleep(d.between(0, 8))
	if n.current() == nil {
		n.start()
	}
	end()
}

func (d *director) nodeRestarts() {
	n := d.node()
	end := d.w.checks.begin("fleet", n.scope())
	n.stop()
	if n.current() == nil {
		n.start()
	}
	end()
}

func (d *director) reloads() {
	for range 1 + d.rng.IntN(3) {
		p := d.node().last()
		p.ttl, p.swr, p.sie = pick(d.rng, 2, 5, 10), pick(d.rng, 0, 3, 10), pick(d.rng, 0, 20, 60)
		for _, n := range d.w.nodes {
			n.reload(policy{mapping: n.last().mapping, ttl: p.ttl, swr: p.swr, sie: p.sie})
			time.Sleep(d.between(0, 2))
		}
		time.Sleep(d.between(1, 5))
	}
}

// mappingChanges rolls another mapping out, node by node.
func (d *director) mappingChanges() {
	end := d.w.checks.begin("shared", "fleet")
	d.w.legacy.setFaults(legacyFault{name: "slow", delay: d.between(0, 0.5)}) // so that fills are under way
	defer end()
	defer d.w.legacy.setFaults()
	for range 1 + d.rng.IntN(4) {
		for _, n := range d.w.nodes {
			p := n.last()
			p.mapping = map[string]string{"m1": "m2", "m2": "m1"}[p.mapping]
			n.reload(p)
			d.pester(n)
		}
		time.Sleep(d.between(1, 3))
	}
}

// pester keeps a fill of one list under way for about as long as a reload takes.
func (d *director) pester(n *node) {
	k, id := d.w.keys.pick(3 * d.rng.IntN(len(buyers())))
	var waits []func()
	for i := range 20 {
		if i%7 == 0 {
			d.purgeAccount(n, k.account)
		}
		waits = append(waits, d.askFor(n, k, id, fmt.Sprintf("during a reload %d", d.rng.Uint32()), 1))
		time.Sleep(d.between(0.02, 0.07))
	}
	for _, wait := range waits {
		wait()
	}
}

func (d *director) brokenConfiguration() {
	n := d.node()
	n.mu.Lock()
	if !n.waiting {
		n.write(n.policies[len(n.policies)-1].policy, "\nno_such_key: 1\n")
	}
	n.mu.Unlock()
	time.Sleep(d.between(1, 4))
	n.mu.Lock()
	if !n.waiting {
		n.write(n.policies[len(n.policies)-1].policy, "") // which another story may have changed
	}
	n.mu.Unlock()
}

func (d *director) purges() {
	for range 1 + d.rng.IntN(5) {
		d.purge()
		time.Sleep(d.between(0, 2))
	}
}

// purgeUnseen has a node learn of a purge when it is back.
func (d *director) purgeUnseen() {
	n := d.node()
	end := d.w.checks.begin("shared", "fleet", "redis:"+n.scope())
	heal := d.cut(n, "redis")
	time.Sleep(d.between(0.3, 2))
	for range 1 + d.rng.IntN(3) {
		d.purge()
	}
	time.Sleep(d.between(0, 2))
	heal()
	end()
}

// purgeForgotten has Redis lose a purge that a node has not seen, and mostly has
// another one come before anybody can notice. The node has the purged list, and is
// asked for it afterwards. What comes of it depends on moments, so it is done more
// than once.
func (d *director) purgeForgotten() {
	for range 6 {
		d.purgeForgottenOnce()
	}
}

func (d *director) purgeForgottenOnce() {
	n, w := d.node(), d.w
	by, other := w.nodes[(n.index+1)%nodeCount], w.nodes[(n.index+2)%nodeCount]
	i := d.rng.IntN(len(buyers()))
	k, id := w.keys.pick(3 * i)
	d.askFor(n, k, id, fmt.Sprintf("before a purge %d", d.rng.Uint32()), 1)()
	end := w.checks.begin("shared", "fleet", "redis:"+n.scope())
	heal := d.cut(n, "redis")
	time.Sleep(d.between(0.1, 0.3))
	w.redis.with(func() { w.redis.faults.lossOfSubs = 1 }) // else the message arrives late
	d.purgeAccount(by, k.account)
	time.Sleep(d.between(0, 0.3))
	w.redis.with(func() {
		if d.rng.IntN(2) == 0 {
			w.redis.store.clear()
		} else {
			w.redis.store.rollBack(d.between(0.7, 3))
		}
		w.checks.lost()
	})
	if d.rng.IntN(3) > 0 {
		d.purgeAccount(other, sellers()[0])
	}
	w.redis.with(func() { w.redis.faults.lossOfSubs = 0 })
	time.Sleep(d.between(0, 0.3))
	heal()
	d.restoreKeys(true)
	end()
	for time.Sleep(purgeBound + slack); d.rng.IntN(8) > 0; time.Sleep(d.between(0, 0.5)) {
		d.askFor(n, k, id, fmt.Sprintf("after a purge %d", d.rng.Uint32()), 1)()
	}
}

// purgesDuringFills has answers on their way while their lists are purged.
func (d *director) purgesDuringFills() {
	n := d.node()
	end := d.w.checks.begin("shared", "fleet")
	r := n.current()
	if r == nil {
		end()
		return
	}
	d.w.net.set(way{"legacy", r.name}, condition{slow: 200 * time.Millisecond})
	for i := range 4 {
		d.purgeBy(n)
		k, id := d.w.keys.pick(d.rng.IntN(64))
		wait := d.askFor(n, k, id, fmt.Sprintf("during purge %d", i), 1)
		time.Sleep(d.between(0.02, 0.25))
		d.purgeAccount(n, k.account)
		wait()
	}
	if n.current() == r {
		d.w.net.set(way{"legacy", r.name}, condition{})
	}
	end()
}

func (d *director) purge() { d.purgeBy(d.node()) }

// purgeBy asks a node for a purge.
func (d *director) purgeBy(n *node) {
	if kind, account := d.account(); d.rng.IntN(4) == 0 {
		d.ask(&purge{node: n, kind: kind}, fmt.Sprintf(`{"kind":%q}`, kind))
	} else {
		d.purgeAccount(n, account)
	}
}

// hints tells nodes that lists have changed, as the legacy system would.
func (d *director) hints() {
	for range 3 + d.rng.IntN(5) {
		kind, account := d.account()
		soft := d.rng.IntN(3) > 0
		d.w.legacy.change(account)
		p := &purge{node: d.node(), account: account, hint: true, soft: soft}
		body := fmt.Sprintf(`{"accounts":[%q],"hard":%t}`, account, !soft)
		if d.rng.IntN(5) == 0 {
			p.kind, p.account = kind, ""
			body = fmt.Sprintf(`{"kinds":[%q],"hard":%t}`, kind, !soft)
		}
		d.ask(p, body)
		time.Sleep(d.between(0, 4))
	}
}

func (d *director) purgeAccount(n *node, account string) {
	d.ask(&purge{node: n, account: account}, fmt.Sprintf(`{"account":%q}`, account))
}

func (d *director) ask(p *purge, body string) {
	n := p.node
	if p.run, p.begin = n.current(), time.Now(); p.run == nil {
		return
	}
	d.w.checks.mu.Lock()
	d.w.checks.purges = append(d.w.checks.purges, p)
	d.w.checks.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	path := "/ops/purge"
	if p.hint {
		path = "/ops/changed"
	}
	status, err := d.post(ctx, "http://"+n.address("9090")+path, body)
	d.w.checks.mu.Lock()
	defer d.w.checks.mu.Unlock()
	d.w.log("%s of %s%s by %s: %s %d %v", path, p.kind, p.account, p.run.name, body, status, err)
	if err == nil {
		p.end, p.ok = time.Now(), status == http.StatusOK
	}
	d.w.reach(fmt.Sprintf("%s %d", map[bool]string{true: "hint", false: "purge"}[p.hint], status))
}

func (d *director) post(ctx context.Context, address string, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Host = "127.0.0.1:9090"
	res, err := d.client.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func (d *director) revocation() {
	for range 1 + d.rng.IntN(2) {
		account := d.rng.IntN(len(buyers()) + len(sellers()))
		if k, id := d.w.keys.pick(3*account + 1 + d.rng.IntN(2)); k.revokedAt.IsZero() { // each account keeps its first key
			d.w.keys.revoke(id)
		}
		time.Sleep(d.between(0, 3))
	}
}

func (d *director) keyStoreFails() {
	if d.w.auth != "introspection" {
		return
	}
	end := d.w.checks.begin("auth")
	d.w.keys.setFault([]string{"500", "garbage", "slow"}[d.rng.IntN(3)])
	time.Sleep(d.between(1, 20))
	d.w.keys.setFault("")
	end()
}

// stormy is how many callers a storm has.
const stormy = 24

// storm has many callers ask for one list at once, after a purge.
func (d *director) storm() {
	d.purge()
	time.Sleep(purgeBound)
	k, id := d.w.keys.pick(d.rng.IntN(64))
	if !k.revokedAt.IsZero() {
		return
	}
	name := fmt.Sprintf("storm %d", d.rng.Uint32())
	var waits []func()
	for _, n := range d.w.nodes {
		waits = append(waits, d.askFor(n, k, id, name, stormy/nodeCount))
	}
	for _, wait := range waits {
		wait()
	}
}

// rush has one node asked for many lists at once, again and again, so that it needs
// what the other nodes may send.
func (d *director) rush() {
	end := d.w.checks.begin("shared", "fleet")
	defer end()
	n := d.node()
	for range 3 + d.rng.IntN(4) {
		d.ask(&purge{node: n, kind: kindBuyer}, `{"kind":"buyer"}`)
		var waits []func()
		for i := range len(buyers()) {
			k, id := d.w.keys.pick(3 * i)
			for _, status := range []string{"", "pending", "answered"} {
				for _, inquiryType := range []string{"", "delivery"} {
					waits = append(waits, d.askList(n, id, fmt.Sprintf("rush %d", d.rng.Uint32()), listKey{k.kind, k.account, status, inquiryType}, k))
				}
			}
		}
		for _, wait := range waits {
			wait()
		}
	}
}

// askFor has so many callers of its own ask a node for a key's list.
func (d *director) askFor(n *node, k key, id *key, name string, callers int) (wait func()) {
	var waits []func()
	for i := range callers {
		waits = append(waits, d.askList(n, id, fmt.Sprintf("%s %s caller %d", name, n.scope(), i), listKey{kind: k.kind, account: k.account}, k))
	}
	return func() {
		for _, wait := range waits {
			wait()
		}
	}
}

// askList has a caller of its own ask a node for a list.
func (d *director) askList(n *node, id *key, name string, want listKey, k key) (wait func()) {
	var one sync.WaitGroup
	c := newCaller(d.w, name, len(name)%2 == 0)
	one.Go(func() {
		defer c.client.CloseIdleConnections()
		c.ask(&request{step: c.name, node: n, key: k, keyID: id, want: want}, 2*requestTimeout)
	})
	return one.Wait
}
