package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit/redistest"
)

// What becomes of purges where Redis fails over or forgets, on several nodes, is held by
// internal/simulation.

func TestAPurgeHidesItsScopeAndSparesTheOthers(t *testing.T) {
	for _, tt := range []struct {
		purge      Purge
		gone, kept []Key
	}{
		{acme, []Key{aKey, sellers}, []Key{otherKey}},
		{Purge{Kinds: []string{KindBuyer}}, []Key{aKey, otherKey}, []Key{sellers}},
		// printf '\x04acme' | openssl dgst -sha256 -binary | head -c 16 | basenc --base64url
		{Purge{AccountHashes: []string{"h-W1Qr2aXvdywqTVQ7d__w"}}, []Key{aKey, sellers}, []Key{otherKey}},
	} {
		l, _ := alone(t)
		for _, k := range append(tt.gone, tt.kept...) {
			mustGet(t, l, k)
		}
		purge(t, l, tt.purge)
		for _, k := range tt.gone {
			if _, ok := l.Lookup(k); ok {
				t.Errorf("%+v: %v is still served", tt.purge, k)
			}
			if r := mustGet(t, l, k); r.Outcome != Miss {
				t.Errorf("%+v: %v is a %s", tt.purge, k, r.Outcome)
			}
		}
		for _, k := range tt.kept {
			if _, ok := l.Lookup(k); !ok {
				t.Errorf("%+v: %v was dropped", tt.purge, k)
			}
		}
	}
}

func TestAPurgeThatCannotBeMeantIsRefused(t *testing.T) {
	l, _ := alone(t)
	for _, tt := range []struct {
		purge Purge
		says  string
	}{
		{Purge{}, "0 accounts"},
		{Purge{Accounts: make([]string, MaxPurgeIDs+1)}, "1001"},
		{Purge{Accounts: []string{"a", ""}}, "accounts[1]"},
		{Purge{AccountHashes: []string{"acme"}}, "account_hashes[0]"},
		{Purge{Kinds: []string{"bayer"}}, "kinds[0]"},
	} {
		if _, err := l.Purge(t.Context(), tt.purge); !errors.Is(err, ErrPurge) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v is not about %s", err, tt.says)
		}
	}
}

// A soft purge ends the ttl: the stale windows count from it.
func TestASoftPurge(t *testing.T) {
	l, g := alone(t)
	soft := Purge{Accounts: []string{"acme"}, Soft: true}
	mustGet(t, l, aKey)
	for n, answers := range []struct {
		after time.Duration
		want  Outcome
		list  string
	}{{10*time.Second - 1, StaleRevalidate, "#1"}, {10 * time.Second, Miss, "#4"}} {
		g.clock.Add(5 * time.Second)
		purge(t, l, soft)
		if _, ok := l.Lookup(aKey); ok {
			t.Error("the old list is served without a refresh")
		}
		g.clock.Add(answers.after)
		want(t, mustGet(t, l, aKey), answers.want, answers.list)
		settled(l)
		if r := mustGet(t, l, aKey); r.Outcome != Hit || r.TTL <= 0 {
			t.Errorf("%s, ttl %s", r.Outcome, r.TTL)
		}
		g.clock.Add(time.Second)
		if n == 0 {
			purge(t, l, acme)
			mustGet(t, l, aKey)
		}
	}
	purge(t, l, soft)
	g.clock.Add(10 * time.Second)
	g.failWith(errLegacy)
	want(t, mustGet(t, l, aKey), StaleError, "")
	purge(t, l, acme)
	if r, err := l.Get(t.Context(), aKey); err == nil {
		t.Errorf("after a hard purge %q was served", body(r))
	}
}

// A fetch that began before a purge answers who asked before it. Who asks afterwards does not join it,
// neither on its node nor on another, and gets nothing from before a hard purge, and nothing from before
// a soft one as fresh.
func TestAFetchThatIsOvertakenByAPurge(t *testing.T) {
	for _, soft := range []bool{false, true} {
		for _, asked := range []int{0, 1} {
			t.Run(fmt.Sprintf("soft %t, asked of node %d", soft, asked), func(t *testing.T) {
				f := newFleet(t, 2)
				f.warm(t, sellers)
				f.hold = make(chan struct{})
				before := asking(t, f.nodes[0], aKey)
				f.filling(t, 2, 0)
				purge(t, f.nodes[1], Purge{Accounts: []string{"acme"}, Soft: soft})
				f.outdated(t, sellers)
				after := asking(t, f.nodes[asked], aKey)
				f.filling(t, 3, 0) // not for the lease of the first
				close(f.hold)
				old, now := <-before, <-after
				want(t, old, Miss, "#2")
				if old.Stored != soft {
					t.Errorf("what the purge has overtaken is stored: %t", old.Stored)
				}
				if ofBefore := strings.HasSuffix(body(now), "#2"); ofBefore && (!soft || now.Outcome != StaleRevalidate) {
					t.Errorf("who asked afterwards got %q as %s", body(now), now.Outcome)
				}
				settled(f.nodes...)
				for _, l := range f.nodes {
					if mustGet(t, l, aKey); soft { // which may have served the first one stale
						settled(l)
					}
					want(t, mustGet(t, l, aKey), Hit, "#3")
				}
			})
		}
	}
}

// outdated waits until each node knows a purge of what it has.
func (f *fleet) outdated(t *testing.T, k Key) {
	t.Helper()
	for _, l := range f.nodes {
		redistest.Eventually(t, "the node knows the purge", func() bool { r, ok := l.Lookup(k); return !ok || r.Outcome != Hit })
	}
}

func TestAPurgeDuringAFailingFillLeavesNothingToServe(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	g.clock.Add(30 * time.Second) // good for stale_if_error only
	g.failWith(errLegacy)
	g.hold = make(chan struct{})
	failed := make(chan error)
	go func() { _, err := l.Get(t.Context(), aKey); failed <- err }()
	redistest.Eventually(t, "the fill runs", func() bool { return g.calls.Load() == 2 })
	purge(t, l, acme)
	close(g.hold)
	if err := <-failed; !errors.Is(err, errLegacy) {
		t.Errorf("error %v; the purged list was served", err)
	}
}

// A purge of a thousand ids is one script. It reaches all nodes, one of which fetches a list for all.
func TestAPurgeOfAThousandAccounts(t *testing.T) {
	f := newFleet(t, 2)
	kept := Key{Kind: KindBuyer, Account: "initech"}
	f.warm(t, aKey, otherKey, kept)
	p := Purge{Accounts: []string{"acme", "globex", "acme"}, Soft: true}
	for i := range MaxPurgeIDs - 3 {
		p.Accounts = append(p.Accounts, fmt.Sprint("account-", i))
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if n, err := f.nodes[1].Purge(ctx, p); err != nil || n != MaxPurgeIDs-1 {
		t.Fatalf("%d are purged, %v", n, err)
	}
	f.outdated(t, aKey)
	f.outdated(t, otherKey)
	before := f.calls.Load()
	for _, l := range f.nodes {
		want(t, mustGet(t, l, aKey), StaleRevalidate, "#1")
		settled(l)
	}
	for _, l := range f.nodes {
		if r := mustGet(t, l, aKey); r.Outcome != Hit || r.TTL <= 0 {
			t.Errorf("%s, ttl %s", r.Outcome, r.TTL)
		}
		if _, ok := l.Lookup(kept); !ok {
			t.Error("another account's list was dropped")
		}
	}
	if n := f.calls.Load() - before; n != 1 {
		t.Errorf("%d fills", n)
	}
}

// A Redis that has lost its memory soft-purges all lists. A hard purge holds on the nodes that know it,
// though a list of before it has come back.
func TestRedisLosesItsMemory(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey, otherKey)
	n := f.namesOf(aKey)
	before := f.rdb.Get(t.Context(), n.Entry).Val()
	purge(t, f.nodes[0], acme)
	f.gone(t, aKey)
	f.srv.Do("FLUSHALL")
	f.outdated(t, otherKey)
	for i, l := range f.nodes {
		want(t, mustGet(t, l, otherKey), StaleRevalidate, "#2")
		if err := f.rdb.Set(t.Context(), n.Entry, before, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if r := mustGet(t, l, aKey); strings.HasSuffix(body(r), "#1") {
			t.Errorf("node %d served the list of before as %s", i, r.Outcome)
		}
		settled(l)
		l.tier.Invalidate(aKey)
	}
	want(t, mustGet(t, f.nodes[1], otherKey), Hit, "")
}

// A replica that had not got a purge has become the master: the node that made it repeats it.
func TestAPurgeIsRepeated(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	purge(t, f.nodes[0], Purge{Accounts: []string{"acme"}, Kinds: []string{KindSeller}})
	member := "hard " + redistier.Hash("acme")
	score := func() float64 { return f.rdb.ZScore(t.Context(), "iq:6:purges", member).Val() }
	first := score()
	f.srv.Do("ZREM", "iq:6:purges", member)
	redistest.Eventually(t, "the purge is back", func() bool { return score() > first })
	again := f.rdb.ZScore(t.Context(), "iq:6:purges", "hard seller").Val()
	if again != first {
		t.Error("a purge that was not lost has another moment")
	}
}

// All nodes go on to read purges after a node has repeated as many as it can, at one moment.
func TestMorePurgesThanOneReadAfterALoss(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	n := 0
	for range 6 {
		p := Purge{}
		for range MaxPurgeIDs {
			n++
			p.Accounts = append(p.Accounts, fmt.Sprint("account-", n))
		}
		purge(t, f.nodes[0], p)
	}
	f.srv.Do("FLUSHALL")
	redistest.Eventually(t, "they are repeated", func() bool { return f.rdb.ZCard(t.Context(), "iq:6:purges").Val() >= maxRepeated })
	f.warm(t, aKey)
	purge(t, f.nodes[0], acme)
	f.gone(t, aKey)
}

// The snapshot of a Redis brings back lists and loses purges. Nodes that know a purge hold to it, those that
// start afterwards serve the list, as the documents declare, until it is purged again.
func TestASnapshotThatIsLoadedLater(t *testing.T) {
	f := &fleet{legacy: newLegacy(), srv: redistest.Start(t, "--dir", t.TempDir())}
	long := func(s *setup) { s.Buyer = KindConfig{Freshness: Freshness{TTL: time.Hour}} }
	for range 2 {
		f.add(t, f.srv.Addr, 4*time.Second, long)
	}
	f.warm(t, aKey)
	f.srv.Do("SAVE")
	purge(t, f.nodes[0], acme)
	f.gone(t, aKey)
	f.clock.Add(repeatFor + time.Second)
	f.srv.Kill()
	f.srv.Restart()
	redistest.Eventually(t, "the list is back", func() bool { return f.rdb.Exists(t.Context(), f.namesOf(aKey).Entry).Val() == 1 })
	late := f.add(t, f.srv.Addr, 4*time.Second, long)
	redistest.Eventually(t, "the late node has polled", func() bool { return synced(late) })
	if r := mustGet(t, late, aKey); r.Tier != TierRedis || !strings.HasSuffix(body(r), "#1") {
		t.Errorf("the late node has %q from %q", body(r), r.Tier)
	}
	for i, l := range f.nodes[:2] {
		if r := mustGet(t, l, aKey); strings.HasSuffix(body(r), "#1") {
			t.Errorf("node %d serves the list as %s", i, r.Outcome)
		}
	}
	settled(f.nodes...)
	redistest.Eventually(t, "Redis takes the purge", func() bool { _, err := f.nodes[1].Purge(t.Context(), acme); return err == nil })
	f.gone(t, aKey)
	if r := mustGet(t, late, aKey); strings.HasSuffix(body(r), "#1") {
		t.Errorf("after the second purge the late node serves the list as %s", r.Outcome)
	}
}

// A replica is promoted that had not got the newest purge. The node that made it repeats it, so that also a
// node that did not know it serves nothing of before.
func TestALaggingReplicaIsPromoted(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	f := &fleet{legacy: newLegacy(), srv: master}
	var addr atomic.Pointer[string]
	addr.Store(&master.Addr)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *addr.Load())
	}
	f.join(t, []string{master.Addr}, dial, 4*time.Second)
	f.warm(t, aKey)
	replica.Do("REPLICAOF", "127.0.0.1", master.Port())
	redistest.Eventually(t, "the replica has the list", func() bool { return replica.Do("EXISTS", f.namesOf(aKey).Entry) == ":1" })
	replica.Do("REPLICAOF", "NO", "ONE")
	purge(t, f.nodes[0], acme)
	addr.Store(&replica.Addr)
	master.Kill()
	late := f.join(t, []string{master.Addr}, dial, 4*time.Second)
	redistest.Eventually(t, "the replica has the purge", func() bool {
		return replica.Do("ZSCORE", "iq:6:purges", "hard "+redistier.Hash("acme")) != "$-1"
	})
	redistest.Eventually(t, "the list of before is not served", func() bool {
		late.tier.Invalidate(aKey)
		return !strings.HasSuffix(body(mustGet(t, late, aKey)), "#1")
	})
	settled(f.nodes...)
	if now := body(mustGet(t, f.nodes[0], aKey)); strings.HasSuffix(now, "#1") {
		t.Errorf("the node that made the purge serves %q", now)
	}
}

// A node serves no older list after it was asked for a purge, whether or not it knows other purges and
// whether or not Redis fails. If Redis has taken the purge, no other node does either. Otherwise the purge fails,
// and it reaches all nodes when it is repeated.
func TestWhatAPurgeReaches(t *testing.T) {
	nothing := func(*purging) {}
	cut := func(p *purging) { p.cables.each((*redistest.Proxy).Cut) }
	mend := func(p *purging) { p.cables.each((*redistest.Proxy).Mend) }
	do := func(args ...string) func(*purging) { return func(p *purging) { p.servers[0].Do(args...) } }
	slow := func(d time.Duration) func(*purging) {
		return func(p *purging) { p.cables.each(func(c *redistest.Proxy) { c.Delay(d) }) }
	}
	pause := func(master int) func(*purging) { return func(p *purging) { p.servers[master].Pause() } }
	resume := func(master int) func(*purging) { return func(p *purging) { p.servers[master].Resume() } }
	knows := map[string]struct{ join, learn func(*purging) }{
		"nothing":                 {cut, nothing},
		"the newest purge":        {nothing, nothing},
		"one that Redis has lost": {nothing, func(p *purging) { p.rdb.Del(t.Context(), p.prefix+":6:purges") }},
	}
	// The servers of a Cluster have the lists of one each, and the last one the purges.
	const ofCluster = "p4"
	answers := map[string]struct {
		prefix     string // of a Cluster; empty: one server
		timeout    time.Duration
		begin, end func(*purging)
		left       bool // the caller has left
		reached    bool // Redis has taken the purges
	}{
		"well":                      {begin: nothing, end: nothing, reached: true},
		"well, but the caller left": {begin: nothing, end: nothing, left: true, reached: true},
		"away":                      {begin: cut, end: mend},
		"slow":                      {timeout: 200 * time.Millisecond, begin: slow(time.Second), end: slow(0)},
		"full":                      {begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0"), reached: true},
		"a Cluster without account": {prefix: ofCluster, timeout: 150 * time.Millisecond, begin: pause(0), end: resume(0), reached: true},
		"a Cluster without purges":  {prefix: ofCluster, timeout: 150 * time.Millisecond, begin: pause(2), end: resume(2)},
	}
	for known, k := range knows {
		for answer, a := range answers {
			t.Run(known+"/"+answer, func(t *testing.T) {
				t.Parallel()
				p := newPurging(t, cmp.Or(a.prefix, "iq"))
				for _, one := range onePurgeEach {
					purge(t, p.nodes[0], one.purge)
				}
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
						if _, err := node.Purge(ctx, one.purge); (err == nil) != a.reached {
							t.Errorf("%s: %v", one.name, err)
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
				for _, one := range onePurgeEach {
					redistest.Eventually(t, one.name+": Redis takes the purge", func() bool {
						if a.reached {
							return true
						}
						if now := body(mustGet(t, node, one.list)); old[now] {
							t.Fatalf("%s: the node that was asked serves %q", one.name, now)
						}
						_, err := node.Purge(t.Context(), one.purge)
						return err == nil
					})
				}
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
	purge Purge
}{
	{"account", aKey, acme},
	{"hash of an account", otherKey, Purge{AccountHashes: []string{redistier.Hash("globex")}}},
	{"kind", Key{Kind: KindSeller, Account: "initech"}, Purge{Kinds: []string{KindSeller}}},
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

func (p *purging) node(t *testing.T, dial redisclient.Dial, timeout time.Duration) *Cache {
	return p.join(t, p.addrs, dial, timeout, func(s *setup) { s.Prefix = p.prefix })
}
