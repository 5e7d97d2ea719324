package cache

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit/redistest"
)

// Whatever a node knows when it is asked for a purge, and whatever becomes of Redis then: the
// node itself serves nothing of before from that moment on, and no node does once Redis is back
// and a poll has passed.
func TestAPurgeIsNeverLost(t *testing.T) {
	nothing := func(*purging) {}
	cut := func(p *purging) { p.cables.each((*redistest.Proxy).Cut) }
	mend := func(p *purging) { p.cables.each((*redistest.Proxy).Mend) }
	do := func(args ...string) func(*purging) { return func(p *purging) { p.servers[0].Do(args...) } }
	slow := func(d time.Duration) func(*purging) {
		return func(p *purging) { p.cables.each(func(c *redistest.Proxy) { c.Delay(d) }) }
	}
	another := func(p *purging) { // thing is where the changes are
		p.servers[0].Do("COPY", "iq:4:changes", "kept")
		p.servers[0].Do("SET", "iq:4:changes", "none")
	}
	pause := func(master int) func(*purging) { return func(p *purging) { p.servers[master].Pause() } }
	resume := func(master int) func(*purging) { return func(p *purging) { p.servers[master].Resume() } }
	knows := map[string]struct{ join, learn func(*purging) }{
		"nothing": {cut, nothing},
		"an older purge": {nothing, func(p *purging) {
			cut(p)
			p.purgeAll(t)
		}},
		"the newest purge": {nothing, nothing},
		"one that Redis has lost": {nothing, func(p *purging) {
			p.rdb.Del(t.Context(), p.prefix+":4:changes", p.prefix+":4:epochs:{"+p.prefix+":4:changes}")
		}},
	}
	// The servers of a Cluster have the lists of one each, and the last one the changes.
	const ofCluster = "p4"
	answers := map[string]struct {
		prefix     string // of a Cluster; empty: one server
		timeout    time.Duration
		begin, end func(*purging)
		left       bool // who asked has left
		reached    bool // Redis has taken the purges
	}{
		"well":                     {begin: nothing, end: nothing, reached: true},
		"well, but who asked left": {begin: nothing, end: nothing, left: true, reached: true},
		"away":                     {begin: cut, end: mend},
		"slow":                     {timeout: 200 * time.Millisecond, begin: slow(time.Second), end: slow(0)},
		"full":                     {begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0")},
		"takes none": {begin: another, end: func(p *purging) {
			p.servers[0].Do("DEL", "iq:4:changes")
			p.servers[0].Do("RENAME", "kept", "iq:4:changes")
		}},
		"dies before it takes one":  {begin: another, end: func(p *purging) { p.servers[0].Kill(); p.servers[0].Restart() }},
		"a Cluster without account": {prefix: ofCluster, timeout: 150 * time.Millisecond, begin: pause(0), end: resume(0), reached: true},
		"a Cluster without changes": {prefix: ofCluster, timeout: 150 * time.Millisecond, begin: pause(2), end: resume(2)},
	}
	for known, k := range knows {
		for answer, a := range answers {
			t.Run(known+"/"+answer, func(t *testing.T) {
				t.Parallel()
				p := newPurging(t, cmp.Or(a.prefix, "iq"))
				p.purgeAll(t) // so that Redis has epochs
				k.join(p)
				node := p.node(t, p.cables.dial, cmp.Or(a.timeout, 4*time.Second))
				for _, one := range onePurgeEach {
					mustGet(t, node, one.list)
				}
				settled(node)
				k.learn(p)
				old := map[string]bool{}
				for _, one := range onePurgeEach {
					old[body(mustGet(t, p.nodes[0], one.list))] = true
				}
				settled(p.nodes...)
				mend(p)
				a.begin(p)
				ctx, leave := context.WithCancel(t.Context())
				if a.left {
					leave()
				}
				defer leave()
				var asked sync.WaitGroup
				for _, one := range onePurgeEach {
					asked.Go(func() {
						reached, err := one.purge(ctx, node)
						if reached != a.reached || (err == nil) != reached {
							t.Errorf("%s: reached Redis %t, %v", one.name, reached, err)
						}
						for range 2 {
							if now := body(mustGet(t, node, one.list)); old[now] {
								t.Errorf("%s: the node that was asked serves %q", one.name, now)
							}
							node.tier.Invalidate(one.list) // asks Redis, if it can
						}
					})
				}
				asked.Wait()
				a.end(p)
				p.node(t, nil, 4*time.Second) // one that knows nothing
				for _, one := range onePurgeEach {
					redistest.Eventually(t, one.name+": the list of before is not served", func() bool {
						if now := body(mustGet(t, node, one.list)); old[now] {
							t.Fatalf("%s: the node that was asked serves %q", one.name, now)
						}
						return !old[body(mustGet(t, p.nodes[0], one.list))]
					})
					settled(p.nodes...)
					for i, l := range p.nodes {
						l.tier.InvalidateAll()
						if now := body(mustGet(t, l, one.list)); old[now] {
							t.Errorf("%s: node %d serves %q out of Redis", one.name, i, now)
						}
					}
				}
			})
		}
	}
}

// onePurgeEach are the kinds of purges, each of a list of its own.
var onePurgeEach = []struct {
	name  string
	list  Key
	of    string // as Redis has it
	purge func(context.Context, *Lists) (reached bool, err error)
}{
	{"account", aKey, redistier.Hash("acme"), func(ctx context.Context, l *Lists) (bool, error) {
		epoch, err := l.Purge(ctx, Scope{Account: "acme"})
		return epoch > 0, err
	}},
	{"hint", otherKey, redistier.Hash("globex"), func(ctx context.Context, l *Lists) (bool, error) {
		n, err := l.Changed(ctx, Hint{Accounts: []string{"globex"}, Hard: true})
		return n == 1, err
	}},
	{"kind", Key{Kind: KindSeller, Account: "initech"}, KindSeller, func(ctx context.Context, l *Lists) (bool, error) {
		epoch, err := l.Purge(ctx, Scope{Kind: KindSeller})
		return epoch > 0, err
	}},
}

// purging is a fleet, of which the second node reaches Redis by cables.
type purging struct {
	*fleet
	prefix  string
	servers []*redistest.Server // one, or the masters of a Cluster
	addrs   []string
	cables  cables
}

// cables have one to each server.
type cables map[string]*redistest.Proxy

func (c cables) each(do func(*redistest.Proxy)) {
	for _, one := range c {
		do(one)
	}
}

func (c cables) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, c[addr].Addr)
}

// newPurging has one node. Any prefix but the usual one is that of a Cluster.
func newPurging(t *testing.T, prefix string) *purging {
	p := &purging{fleet: &fleet{legacy: newLegacy()}, prefix: prefix, cables: cables{}}
	if prefix == "iq" {
		p.servers = []*redistest.Server{redistest.Start(t)}
	} else {
		p.servers = redistest.StartCluster(t, 3).Masters
	}
	for _, s := range p.servers {
		p.addrs = append(p.addrs, s.Addr)
		p.cables[s.Addr] = redistest.NewProxy(t, s.Addr)
	}
	p.node(t, nil, 4*time.Second)
	return p
}

func (p *purging) node(t *testing.T, dial redisclient.Dial, timeout time.Duration) *Lists {
	return p.join(t, p.addrs, dial, timeout, func(s *setup) { s.Prefix = p.prefix })
}

// purgeAll purges on the first node.
func (p *purging) purgeAll(t *testing.T) {
	t.Helper()
	for _, one := range onePurgeEach {
		if reached, err := one.purge(t.Context(), p.nodes[0]); err != nil || !reached {
			t.Fatal(fmt.Errorf("%s: %w", one.name, err))
		}
	}
}

// While Redis takes nothing a node keeps so many purges for it, and hides what is named by none
// of them any more by a purge of both kinds.
func TestMorePurgesThanANodeKeeps(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey, otherKey, sellers)
	f.srv.Do("CONFIG", "SET", "maxmemory", "1")
	node := f.nodes[0]
	mark := func(from, to int) {
		t.Helper()
		h := Hint{Hard: true}
		for i := range to - from {
			h.Accounts = append(h.Accounts, fmt.Sprint("account-", from+i))
		}
		if n, err := node.Changed(t.Context(), h); n != 0 || err == nil {
			t.Errorf("a full Redis has taken %d, %v", n, err)
		}
	}
	for i, served := range []bool{true, false} {
		if i == 0 {
			if _, err := node.Purge(t.Context(), Scope{Account: "acme"}); err == nil {
				t.Error("a full Redis has taken a purge")
			}
			mark(0, maxPending/2)
			mark(maxPending/2, maxPending-1)
		} else {
			mark(maxPending-1, maxPending)
		}
		if _, own := node.Lookup(aKey); own {
			t.Error("a list that was purged is served")
		}
		if _, ok := node.Lookup(otherKey); ok != served {
			t.Errorf("another account's list is served %t, want %t", ok, served)
		}
	}
	f.srv.Do("CONFIG", "SET", "maxmemory", "0")
	f.gone(t, aKey)
	for _, l := range f.nodes {
		if r := mustGet(t, l, aKey); strings.HasSuffix(body(r), "#1") {
			t.Errorf("%q came back", body(r))
		}
	}
	settled(f.nodes...)
	redistest.Eventually(t, "nothing waits for Redis", func() bool {
		node.changes.mu.RLock()
		defer node.changes.mu.RUnlock()
		return len(node.changes.pending) == 0
	})
}

// What Redis has lost is given back, also where the node gives it another change before it polls.
func TestALossThatAnotherChangeHides(t *testing.T) {
	f := newFleet(t, 1)
	l := f.nodes[0]
	f.warm(t, aKey)
	for i := range 5 {
		epoch := purge(t, l, Scope{Kind: KindBuyer})
		f.srv.Do("ZREM", "iq:4:changes", "hard buyer")
		f.srv.Do("ZREM", "iq:4:epochs:{iq:4:changes}", fmt.Sprint(epoch))
		if _, err := l.Changed(t.Context(), Hint{Accounts: []string{fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "the purge is back", func() bool {
			reply := strings.Fields(f.srv.Do("ZSCORE", "iq:4:changes", "hard buyer"))
			score, err := strconv.ParseUint(reply[len(reply)-1], 10, 64)
			return err == nil && score >= epoch // a later one where a slow Redis was told twice
		})
	}
}

// What somebody else writes among the changes is no epoch.
func TestForeignEpochs(t *testing.T) {
	f := newFleet(t, 1)
	for _, score := range []string{"inf", "9007199254740993", "-1", "-inf"} {
		f.srv.Do("ZADD", "iq:4:changes", score, "hard buyer")
		f.srv.Do("ZADD", "iq:4:changes", score, "x")
		if err := f.nodes[0].poll(t.Context()); err != nil {
			t.Fatal(score, err)
		}
		mustGet(t, f.nodes[0], aKey)
		before := purge(t, f.nodes[0], Scope{Kind: KindBuyer})
		if after := purge(t, f.nodes[0], Scope{Kind: KindBuyer}); after <= before || after > 1<<52 {
			t.Errorf("with %s: %d, then %d", score, before, after)
		}
		if r := mustGet(t, f.nodes[0], aKey); r.Outcome != Miss {
			t.Errorf("with %s: %s after a purge", score, r.Outcome)
		}
	}
}

// A purge that is forgotten, as no list could be older by the policy then, holds under a longer one.
func TestAPurgeThatIsForgottenHolds(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	g.clock.Add(time.Second)
	purge(t, l, Scope{Kind: KindBuyer})
	g.clock.Add(10 * time.Minute)
	purge(t, l, Scope{Account: "another"}) // forgets
	if l.changes.last(KindBuyer) != 0 {
		t.Fatal("it is not forgotten")
	}
	cfg := testConfig()
	cfg.Buyer = KindConfig{Terms: Terms{TTL: time.Hour, StaleIfError: time.Hour}}
	apply, err := l.Prepare(cfg, Fills{})
	if err != nil {
		t.Fatal(err)
	}
	apply()
	if r, ok := l.Lookup(aKey); ok {
		t.Errorf("%s, %v old", r.Outcome, r.Age)
	}
}

// Who asks after a purge does not wait for a fill of before it: not for one of this node, and not for
// one of another.
func TestAPurgeDuringASlowFill(t *testing.T) {
	f := newFleet(t, 2)
	for i, l := range f.nodes {
		f.hold = make(chan struct{})
		before := int(f.calls.Load())
		one := asking(t, f.nodes[0], aKey)
		f.filling(t, before+1, 0)
		purge(t, f.nodes[0], Scope{Kind: KindBuyer})
		redistest.Eventually(t, "both know the purge", func() bool { return f.nodes[0].changes.last(KindBuyer) == f.nodes[1].changes.last(KindBuyer) })
		two := asking(t, l, aKey)
		f.filling(t, before+2, 0)
		close(f.hold)
		if a, b := <-one, <-two; a.Stored || !b.Stored {
			t.Errorf("node %d: what was asked for before the purge is stored: %t, after it: %t", i, a.Stored, b.Stored)
		}
		settled(f.nodes...)
		purge(t, f.nodes[0], Scope{Kind: KindBuyer})
		f.gone(t, aKey)
	}
}
