package simulation

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// event is a fault, which begins and ends, or a step that operators and callers take. While
// it lasts, and for a while after it, its scopes are in trouble; N among them is the node
// that was drawn, A the account.
type event struct {
	name, scopes string
	begin        func(d *draw) (end func()) // end is nil where nothing lasts
}

// draw is what one event was drawn with.
type draw struct {
	env     *environment
	rng     *rand.Rand
	client  *http.Client // of the operator
	node    *node
	account string
}

// faults are drawn one to three at a time.
func faults() []event {
	return selected([]event{
		{"redis dies", "auth", (*draw).redisDies},
		{"redis forgets", "fleet auth", (*draw).redisForgets},
		{"redis stalls", "shared fleet redis", (*draw).redisStalls},
		{"redis is slow or refuses", "shared fleet redis far", (*draw).redisIsBad},
		{"redis is far away", "fleet", func(d *draw) func() { return d.redisIsFar(0.3) }},
		{"redis is too far away", "shared fleet redis far", func(d *draw) func() { return d.redisIsFar(one(d, 0.6, 1.2)) }},
		{"entries are corrupted", "fleet", (*draw).corruptEntries},
		{"the way to redis is bad", "shared fleet redis:N", func(d *draw) func() { return d.badWay("redis") }},
		{"the way to the legacy is bad", "shared fleet way", func(d *draw) func() { return d.badWay("legacy") }},
		{"the legacy is down", "shared fleet", (*draw).legacyIsDown},
		{"the legacy fails", "shared fleet", (*draw).legacyFails},
		{"the lists of one account fail", "account:A", (*draw).oneAccountFails},
		{"a node crashes", "fleet N", (*draw).nodeCrashes},
		{"a node restarts", "fleet N", (*draw).nodeRestarts},
	})
}

// steps are taken in calm or beside faults.
func steps() []event {
	step := func(take func(d *draw)) func(d *draw) func() {
		return func(d *draw) func() {
			take(d)
			return nil
		}
	}
	return selected([]event{
		{"purges", "", step((*draw).purges)},
		{"purges during fills", "shared fleet way", step((*draw).purgesDuringFills)},
		{"purges that redis does not get", "shared fleet redis:N auth", step((*draw).purgesAlone)},
		{"purges that redis forgets", "shared fleet redis:N auth", step((*draw).purgesForgotten)},
		{"a key is revoked", "", step((*draw).revoke)},
		{"the legacy ends all sessions", "", step(func(d *draw) { d.env.legacy.forget() })},
		{"the policy changes", "", step((*draw).policyChanges)},
		{"the mapping changes", "shared fleet", step((*draw).mappingChanges)},
		{"a configuration is broken", "", step((*draw).brokenConfiguration)},
		{"a storm on a cold list", "", step((*draw).storm)},
		{"a rush on one node", "shared fleet", step((*draw).rush)},
	})
}

// selected are the events whose names the flag names.
func selected(all []event) (some []event) {
	wanted := regexp.MustCompile(*only)
	for _, e := range all {
		if wanted.MatchString(e.name) {
			some = append(some, e)
		}
	}
	return some
}

// run lets an event happen, and a fault last.
func (d *draw) run(e event, lasts time.Duration) {
	d.env.log("%s: node %s, account %s, for %v", e.name, d.node.scope(), d.account, lasts)
	d.env.reach(e.name)
	scopes := strings.NewReplacer("N", d.node.scope(), "A", d.account).Replace(e.scopes)
	defer d.env.checks.begin(strings.Fields(scopes)...)()
	if end := e.begin(d); end != nil {
		time.Sleep(lasts)
		end()
	}
}

// nothing has to be done at the end of what heals by itself.
func nothing() {}

// draw draws a node and an account.
func (env *environment) draw(rng *rand.Rand, client *http.Client) *draw {
	accounts := accounts()
	own := rand.New(rand.NewPCG(rng.Uint64(), 0))
	return &draw{env, own, client, env.nodes[rng.IntN(len(env.nodes))], accounts[rng.IntN(len(accounts))]}
}

// randomly runs rounds of faults and steps, each with calm at its end: one to three faults,
// each at its own moment and for its own time, mostly a short one, with one to three
// steps beside them.
func (env *environment) randomly(rounds int) {
	rng, client := rngOf(env.seed, "events"), env.operator()
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	some := func(of []event, most int) {
		for _, i := range rng.Perm(len(of))[:min(most, len(of))] {
			d := env.draw(rng, client)
			after, lasts := d.between(0, 4), time.Duration((0.1+10*math.Pow(rng.Float64(), 3))*float64(time.Second))
			running.Go(func() {
				time.Sleep(after)
				d.run(of[i], lasts)
			})
		}
	}
	for i := 0; i < rounds && !env.over(); i++ {
		some(faults(), 1+rng.IntN(3))
		some(steps(), 1+rng.IntN(3))
		running.Wait()
		env.calm(aWhile(rng))
	}
}

// inTurn runs one event after the other.
func (env *environment) inTurn(events []event) {
	rng, client := rngOf(env.seed, "events"), env.operator()
	defer client.CloseIdleConnections()
	for _, e := range events {
		if !env.over() {
			env.draw(rng, client).run(e, aWhile(rng))
			env.calm(aWhile(rng))
		}
	}
}

// aWhile is how long a fault lasts that comes alone, and how long calm is watched.
func aWhile(rng *rand.Rand) time.Duration {
	return time.Duration((3 + 3*rng.Float64()) * float64(time.Second))
}

func (env *environment) operator() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: env.net.dialer("operator")}}
}

// neverCalm is longer than any trouble takes.
const neverCalm = 10 * time.Minute

// calm lets the fleet recover, and then be watched.
func (env *environment) calm(watched time.Duration) {
	for begun := time.Now(); !env.over() && !env.checks.settled(time.Now()); time.Sleep(time.Second) {
		if time.Since(begun) > neverCalm {
			env.checks.fail("not well again after %v: %s", neverCalm, env.checks.troubled(time.Now()))
		}
	}
	env.log("all is well")
	time.Sleep(watched)
}

func (d *draw) between(low, high float64) time.Duration {
	return time.Duration((low + d.rng.Float64()*(high-low)) * float64(time.Second))
}

// coin is true at random, in share of the cases.
func (d *draw) coin(share float64) bool { return d.rng.Float64() < share }

// one of several, at random.
func one[T any](d *draw, of ...T) T { return of[d.rng.IntN(len(of))] }

func (d *draw) buyer() string { return one(d, buyers()...) }

func (d *draw) anyNode() *node { return one(d, d.env.nodes...) }

// redisDies comes back with its data, without it, or as a replica that lags.
func (d *draw) redisDies() func() {
	well := d.env.checks.begin("shared", "fleet", "redis")
	d.env.net.crash("redis", d.coin(0.5))
	d.env.redis.Disconnect()
	return func() {
		lost := d.coin(0.67)
		if lost {
			d.forget()
		}
		d.env.redis.Serve(d.env.net.listen("redis", redisAddress))
		well()
		if lost {
			d.restoreKeys()
		}
	}
}

// forget has Redis lose all of its memory, or what is younger than a moment.
func (d *draw) forget() {
	d.env.redis.With(func() {
		if d.coin(0.5) {
			d.env.redis.Clear()
		} else {
			d.env.redis.RollBack(d.between(0.5, 3))
		}
		d.env.checks.lost()
	})
}

func (d *draw) redisStalls() func() { return d.env.redis.Stall() }

// redisStallsAndDies ends the stall while Redis is down.
func (d *draw) redisStallsAndDies() func() {
	resume, restart := d.redisStalls(), d.redisDies()
	return func() {
		resume()
		restart()
	}
}

func (d *draw) redisForgets() func() {
	d.forget()
	return d.restoreKeys
}

// restoreKeys is what an operator does some time after Redis has lost its keys.
func (d *draw) restoreKeys() {
	if d.env.keys.inRedis {
		time.Sleep(d.between(0, 3))
		d.env.redis.With(d.env.keys.restore)
		d.env.checks.keysRestored()
	}
}

func (d *draw) redisIsBad() func() {
	slow, text := d.between(0, 0.15), ""
	if d.coin(0.5) {
		slow, text = 0, one(d, "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
			"OOM command not allowed when used memory > 'maxmemory'.", "NOPERM this user has no permissions")
	}
	set := func(slow time.Duration, text string) {
		d.env.redis.With(func() { d.env.redis.Slow, d.env.redis.Refuse = slow, text })
	}
	set(slow, text)
	return func() { set(0, "") }
}

// redisIsFar makes a round trip to Redis take a part of redis.timeout. A new connection takes
// two, and one more for the call that it is for.
func (d *draw) redisIsFar(part float64) func() {
	d.env.net.move("redis", time.Duration(part*float64(redisTimeout)))
	return func() { d.env.net.move("redis", 0) }
}

// corruptEntries changes bytes of the lists in Redis.
func (d *draw) corruptEntries() func() {
	d.env.redis.With(func() {
		d.env.redis.Change(func(key, text string) string {
			b := []byte(text)
			if strings.Contains(key, "{") && len(b) > 50 {
				b[d.rng.IntN(len(b))] ^= 1 << d.rng.IntN(8)
			}
			return string(b)
		})
	})
	return nothing
}

// badWay cuts the way of the node to a host, in one direction or both, or makes it slow.
func (d *draw) badWay(host string) func() {
	cut := condition{cut: true}
	switch d.rng.IntN(4) {
	case 0:
		return d.way(host, cut, condition{})
	case 1:
		return d.way(host, condition{}, cut)
	case 2:
		return d.way(host, cut, cut)
	}
	return d.way(host, condition{slow: d.between(0, 0.4)}, condition{})
}

func (d *draw) way(host string, there, back condition) (heal func()) {
	r := d.node.current()
	if r == nil {
		return nothing
	}
	set := func(there, back condition) {
		if d.node.current() == r {
			d.env.net.set(way{r.name, host}, there)
			d.env.net.set(way{host, r.name}, back)
		}
	}
	set(there, back)
	return func() { set(condition{}, condition{}) }
}

func (d *draw) legacyIsDown() func() {
	d.env.net.crash("legacy", d.coin(0.5))
	return func() { d.env.legacy.serve(d.env.net.listen("legacy", legacyAddress)) }
}

func (d *draw) legacyFails() func() {
	f := failure{name: one(d, "500", "502", "503", "429", "cut", "slow", "hang", "garbage", "foreign", "again", "moved", "part"), rate: 0.2 + 0.8*d.rng.Float64(), delay: d.between(0, 0.2)}
	if f.name == "slow" {
		f.rate, f.delay = 1, d.between(0.2, 2)
	}
	return d.env.legacy.inject(f)
}

// oneAccountFails must be nobody else's trouble, however often its lists are asked for. Mostly
// an outage of all ends meanwhile, so that probes meet these lists.
func (d *draw) oneAccountFails() func() {
	f := failure{name: one(d, "404", "401", "429", "500", "503", "cut", "hang", "garbage", "foreign", "part"), account: d.account, rate: 1}
	end := d.env.legacy.inject(f)
	most := 20
	if d.coin(0.75) {
		endOutage, well := d.env.legacy.inject(failure{name: "500", rate: 1}), d.env.checks.begin("shared", "fleet")
		d.purge(d.node, d.account) // nothing is left to be served stale
		time.Sleep(d.between(3, 5))
		endOutage()
		well()
		most = 120
	}
	for range most {
		want := listKey{kindOf(d.account), d.account, one(d, "", "pending", "answered"), one(d, "", "delivery", "refund", "product")}
		wait := d.env.askOnce(fmt.Sprintf("of one account %d", d.rng.Uint32()), d.anyNode(), want)
		if f.name == "hang" {
			defer wait()
		} else {
			wait()
		}
		time.Sleep(d.between(0, 0.15))
	}
	return end
}

func (d *draw) nodeCrashes() func() {
	d.node.crash(d.coin(0.5))
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
	return nothing
}

func (d *draw) purges() {
	for range 1 + d.rng.IntN(4) {
		if d.coin(0.25) {
			d.purgeKind(d.anyNode(), kindOf(d.account))
		} else {
			d.purge(d.anyNode(), one(d, accounts()...))
		}
		time.Sleep(d.between(0, 2))
	}
}

func (d *draw) purge(n *node, account string) {
	soft := d.coin(0.2)
	d.post(&purge{node: n, account: account, soft: soft}, fmt.Sprintf(`{"accounts":[%q],"soft":%t}`, account, soft))
}

func (d *draw) purgeKind(n *node, kind string) {
	d.post(&purge{node: n, kind: kind}, fmt.Sprintf(`{"kinds":[%q]}`, kind))
}

func (d *draw) post(p *purge, body string) {
	p.known = map[*running]bool{}
	if p.run, p.begin = p.node.current(), time.Now(); p.run == nil {
		return
	}
	c := d.env.checks
	c.with(func() { c.purges = append(c.purges, p) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status := 0
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.node.address("9090")+"/ops/purge", strings.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		r.Host = "127.0.0.1:9090"
		var res *http.Response
		if res, err = d.client.Do(r); err == nil {
			status, err = res.StatusCode, res.Body.Close()
		}
	}
	d.env.log("purge %s by %s: %d %v", body, p.run.name, status, err)
	d.env.reach(fmt.Sprintf("/ops/purge %s%d", map[bool]string{true: "soft "}[p.soft], status))
	if err == nil {
		c.with(func() { p.end, p.ok = time.Now(), status == http.StatusOK })
		c.purged(p)
	}
}

// ask has a caller of its own ask for a list.
func (d *draw) ask(n *node, account string) (wait func()) {
	return d.env.askOnce(fmt.Sprintf("asked %d", d.rng.Uint32()), n, listKey{kind: kindOf(account), account: account})
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

// purgesAlone has the node purge lists while it does not reach Redis. Another node has purged and
// fetched them since the node last heard of it, if it has heard anything: what is in Redis is of
// before the node's purge all the same.
func (d *draw) purgesAlone() {
	by := d.env.nodes[(d.node.index+1)%nodeCount]
	if d.coin(0.5) {
		d.node.stop()
	}
	end := d.env.checks.begin("redis:"+d.node.scope(), d.node.scope())
	d.startNode()
	heal := d.way("redis", condition{cut: true}, condition{cut: d.coin(0.5)})
	var all sync.WaitGroup
	for _, account := range buyers() {
		d.purge(by, account)
		d.ask(by, account)()
		other := d.env.draw(d.rng, d.client)
		all.Go(func() { other.purge(d.node, account) })
	}
	all.Wait()
	heal()
	end()
	for _, account := range buyers() {
		time.Sleep(d.between(0, 0.1))
		d.ask(d.node, account)()
	}
}

// purgesForgotten has Redis lose a purge that the node has not seen, and mostly has another
// one come before anybody can notice. The node has the purged list, and is asked for it
// afterwards. What comes of it depends on moments, so it is done more than once.
func (d *draw) purgesForgotten() {
	by, other := d.env.nodes[(d.node.index+1)%nodeCount], d.env.nodes[(d.node.index+2)%nodeCount]
	for range 4 {
		account := d.buyer()
		d.ask(d.node, account)()
		end := d.env.checks.begin("redis:" + d.node.scope())
		heal := d.way("redis", condition{cut: true}, condition{cut: d.coin(0.5)})
		time.Sleep(d.between(0.1, 0.3))
		d.purge(by, account)
		time.Sleep(d.between(0, 0.3))
		d.forget()
		if d.coin(0.67) {
			d.purge(other, sellers()[0])
		}
		time.Sleep(d.between(0, 0.3))
		heal()
		d.restoreKeys()
		end()
		for time.Sleep(purgeBound + slack); d.coin(0.8); time.Sleep(d.between(0, 0.3)) {
			d.ask(d.node, account)()
		}
	}
}

func (d *draw) revoke() {
	if k := d.env.keys.pick(d.account, 1+d.rng.IntN(keysOfAccount-1)); d.env.keys.revokedAt(k).IsZero() {
		d.env.keys.revoke(k)
	}
}

func (d *draw) policyChanges() {
	for range 1 + d.rng.IntN(3) {
		p := formOf(d.rng.Uint64()).policy
		for _, n := range d.env.nodes {
			p.mapping = n.last().mapping
			n.reload(p)
			time.Sleep(d.between(0, 2))
		}
	}
}

// mappingChanges rolls another mapping out, node by node, while fills of one list are under
// way.
func (d *draw) mappingChanges() {
	defer d.env.legacy.inject(failure{name: "slow", rate: 1, delay: d.between(0, 0.5)})()
	for range 1 + d.rng.IntN(2) {
		for _, n := range d.env.nodes {
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
		d.node.breakFile(text)
		time.Sleep(d.between(1, 3))
	}
}

// storm has many callers ask for one list at once, after a purge.
func (d *draw) storm() {
	d.purge(d.node, d.account)
	time.Sleep(purgeBound)
	for i := range 24 {
		defer d.ask(d.env.nodes[i%nodeCount], d.account)()
	}
}

// rush has one node asked for many lists at once, again and again, so that it needs what the
// other nodes may send.
func (d *draw) rush() {
	for range 2 + d.rng.IntN(3) {
		d.purgeKind(d.node, kindBuyer)
		var waits []func()
		for _, account := range buyers() {
			for _, status := range []string{"", "pending", "answered"} {
				for _, inquiryType := range []string{"", "delivery"} {
					want := listKey{kindBuyer, account, status, inquiryType}
					waits = append(waits, d.env.askOnce(fmt.Sprintf("rush %d", d.rng.Uint32()), d.node, want))
				}
			}
		}
		for _, wait := range waits {
			wait()
		}
	}
}
