package cache

import (
	"context"
	"fmt"
	"slices"
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
	type step func(f *fleet, cable *redistest.Proxy)
	do := func(args ...string) step { return func(f *fleet, _ *redistest.Proxy) { f.srv.Do(args...) } }
	nothing := func(*fleet, *redistest.Proxy) {}
	knows := map[string]struct{ join, learn step }{
		"no epoch": {func(_ *fleet, cable *redistest.Proxy) { cable.Cut() }, nothing},
		"an older epoch": {nothing, func(f *fleet, cable *redistest.Proxy) {
			cable.Cut()
			f.purgeAll(t)
		}},
		"a newer epoch": {nothing, func(f *fleet, _ *redistest.Proxy) {
			for _, p := range onePurgeEach {
				f.srv.Do("SET", p.epoch, "1 1 1", "PX", "60000")
			}
		}},
	}
	answers := map[string]struct {
		begin, end       step
		cancelled        bool
		reached, unknown bool // Redis has the purge, but the nodes are not told
	}{
		"ok":          {begin: nothing, end: nothing, reached: true},
		"cancelled":   {begin: nothing, end: nothing, reached: true, cancelled: true},
		"unreachable": {begin: func(_ *fleet, cable *redistest.Proxy) { cable.Cut() }, end: nothing},
		"full":        {begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0")},
		"dies before it is announced": {begin: func(f *fleet, _ *redistest.Proxy) {
			f.srv.Do("DEL", "iq:3:purges")
			f.srv.Do("LPUSH", "iq:3:purges", "no number")
		}, end: func(f *fleet, _ *redistest.Proxy) {
			f.srv.Kill()
			f.srv.Restart()
		}, reached: true, unknown: true},
	}
	for known, k := range knows {
		for answer, a := range answers {
			t.Run(known+"/"+answer, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, 1)
				f.purgeAll(t) // so that Redis has epochs
				cable := redistest.NewProxy(t, f.srv.Addr)
				k.join(f, cable)
				node := f.add(t, cable.Addr, 4*time.Second)
				for _, p := range onePurgeEach {
					mustGet(t, node, p.list)
				}
				settled(node)
				k.learn(f, cable)
				old := map[Key]string{}
				for _, p := range onePurgeEach {
					old[p.list] = body(mustGet(t, f.nodes[0], p.list))
				}
				settled(f.nodes...)
				cable.Mend()
				a.begin(f, cable)
				ctx, cancel := context.WithCancel(t.Context())
				if a.cancelled {
					cancel()
				}
				defer cancel()
				var asked sync.WaitGroup
				for _, p := range onePurgeEach {
					asked.Go(func() {
						reached, err := p.purge(ctx, node)
						if reached != a.reached || (err == nil) != (a.reached && !a.unknown) {
							t.Errorf("%s: reached Redis %t, %v", p.name, reached, err)
						}
						for range 2 {
							if now := body(mustGet(t, node, p.list)); now == old[p.list] {
								t.Errorf("%s: the node that was asked serves %q", p.name, now)
							}
							node.tier.Invalidate(p.list) // asks Redis, if it can
						}
					})
				}
				asked.Wait()
				a.end(f, cable)
				cable.Mend()
				f.add(t, f.srv.Addr, 4*time.Second) // one that knows nothing
				for _, p := range onePurgeEach {
					for i, l := range []*Lists{node, f.nodes[0]} {
						redistest.Eventually(t, p.name+": the list of before is not served", func() bool {
							now := body(mustGet(t, l, p.list))
							if now == old[p.list] && i == 0 {
								t.Fatalf("%s: the node that was asked serves %q", p.name, now)
							}
							return now != old[p.list]
						})
					}
					settled(f.nodes...)
					for i, l := range f.nodes {
						l.tier.InvalidateAll()
						if now := body(mustGet(t, l, p.list)); now == old[p.list] {
							t.Errorf("%s: node %d serves %q out of Redis", p.name, i, now)
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
	epoch string // key in Redis
	purge func(context.Context, *Lists) (reached bool, err error)
}{
	{"account", aKey, "iq:3:{" + redistier.Hash("acme") + "}:epoch", func(ctx context.Context, l *Lists) (bool, error) {
		epoch, err := l.Purge(ctx, Scope{Account: "acme"})
		return epoch > 0, err
	}},
	{"hard hint", otherKey, "iq:3:{" + redistier.Hash("globex") + "}:epoch", func(ctx context.Context, l *Lists) (bool, error) {
		n, err := l.Changed(ctx, Hint{Accounts: []string{"globex"}, Hard: true})
		return n == 1, err
	}},
	{"kind", Key{Kind: KindSeller, Account: "initech"}, "iq:3:epoch:seller", func(ctx context.Context, l *Lists) (bool, error) {
		epoch, err := l.Purge(ctx, Scope{Kind: KindSeller})
		return epoch > 0, err
	}},
}

// purgeAll purges on the first node.
func (f *fleet) purgeAll(t *testing.T) {
	t.Helper()
	for _, p := range onePurgeEach {
		if reached, err := p.purge(t.Context(), f.nodes[0]); err != nil || !reached {
			t.Fatal(fmt.Errorf("%s: %w", p.name, err))
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
			mark(0, recentPurges/2)
			mark(recentPurges/2, recentPurges-1)
		} else {
			mark(recentPurges-1, recentPurges)
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
		pending, untold := node.changes.unfinished()
		return len(pending)+len(untold) == 0
	})
}

// Of a Cluster one master is away. Accounts of the others are purged on all nodes at once, and
// those of that one when it is back.
func TestAPurgeWithAPartOfAClusterAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	slot := func(key string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(cluster.Masters[0].Do("CLUSTER", "KEYSLOT", key), ":"))
		if err != nil {
			t.Fatal(err)
		}
		return n * 3 / 16384 // the master that has it
	}
	prefix := ""
	for n := 0; ; n++ { // the last master has nothing that all purges need
		prefix = fmt.Sprint("p", n)
		if slot(prefix+":3:purges") < 2 && slot(prefix+":3:epoch:buyer") < 2 && slot(prefix+":3:epoch:seller") < 2 {
			break
		}
	}
	g, accounts := newLegacy(), [3]string{}
	for n := 0; slices.Contains(accounts[:], ""); n++ {
		account := fmt.Sprint("account-", n)
		accounts[slot("{"+redistier.Hash(account)+"}")] = account
	}
	var nodes []*Lists
	for range 2 {
		c := redisclient.DefaultConfig()
		c.Addrs, c.Timeout = cluster.Addrs(), 200*time.Millisecond
		rdb, err := redisclient.Open(c, redisclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, g.node(t, rdb, func(s *setup) { s.Prefix = prefix }))
	}
	old := map[string]string{}
	for _, l := range nodes {
		redistest.Eventually(t, "the node listens", func() bool { return l.changes.polledOnce() && l.redis.Connected() })
		for _, account := range accounts {
			old[account] = body(mustGet(t, l, Key{Kind: KindBuyer, Account: account}))
			settled(l)
		}
	}
	served := func(l *Lists, account string) bool {
		r, ok := l.Lookup(Key{Kind: KindBuyer, Account: account})
		return ok && body(r) == old[account]
	}
	cluster.Masters[2].Pause()
	n, err := nodes[0].Changed(t.Context(), Hint{Accounts: accounts[:], Hard: true})
	if n != 2 || err == nil || !strings.Contains(err.Error(), "2 of 3 are marked") {
		t.Errorf("%d are marked, %v", n, err)
	}
	for i, account := range accounts {
		if served(nodes[0], account) {
			t.Errorf("the node that was asked serves the list of master %d", i)
		}
		if i < 2 {
			redistest.Eventually(t, "what Redis has taken is announced", func() bool { return !served(nodes[1], account) })
		} else if !served(nodes[1], account) {
			t.Error("nothing has told the other node, but it does not serve the list")
		}
	}
	cluster.Masters[2].Resume()
	redistest.Eventually(t, "the rest is announced", func() bool { return !served(nodes[1], accounts[2]) })
	for i, l := range nodes {
		for _, account := range accounts {
			l.tier.InvalidateAll()
			if now := body(mustGet(t, l, Key{Kind: KindBuyer, Account: account})); now == old[account] {
				t.Errorf("node %d serves %q", i, now)
			}
		}
	}
}
