package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/testkit/redistest"
)

// What becomes of purges and hints where messages are lost and Redis forgets, on several
// nodes, is held by internal/simulation.

func changed(t testing.TB, l *Lists, h Hint, marked int) {
	t.Helper()
	if n, err := l.Changed(t.Context(), h); err != nil || n != marked {
		t.Fatalf("%d are marked, want %d; %v", n, marked, err)
	}
}

func TestAPurgeHidesItsScopeAndSparesTheOthers(t *testing.T) {
	for _, tt := range []struct {
		scope      Scope
		gone, kept []Key
	}{
		{Scope{Account: "acme"}, []Key{aKey, sellers}, []Key{otherKey}},
		{Scope{Kind: KindBuyer}, []Key{aKey, otherKey}, []Key{sellers}},
	} {
		l, _ := alone(t)
		for _, k := range append(tt.gone, tt.kept...) {
			mustGet(t, l, k)
		}
		if epoch := purge(t, l, tt.scope); epoch != 1 {
			t.Errorf("%+v: epoch %d", tt.scope, epoch)
		}
		for _, k := range tt.gone {
			if _, ok := l.Lookup(k); ok {
				t.Errorf("%+v: %v is still served", tt.scope, k)
			}
			if r := mustGet(t, l, k); r.Outcome != Miss {
				t.Errorf("%+v: %v is a %s", tt.scope, k, r.Outcome)
			}
		}
		for _, k := range tt.kept {
			if _, ok := l.Lookup(k); !ok {
				t.Errorf("%+v: %v was dropped", tt.scope, k)
			}
		}
	}
}

// A fill that began before a change answers who asked before it. Who asks afterwards does
// not join it, and gets nothing from before a purge or a hard hint, and nothing of before a
// soft one as fresh.
func TestAFillOfBeforeAChangeIsFencedOff(t *testing.T) {
	for name, change := range map[string]func(*Lists){
		"purge": func(l *Lists) { purge(t, l, Scope{Account: "acme"}) },
		"hard":  func(l *Lists) { changed(t, l, Hint{Accounts: []string{"acme"}, Hard: true}, 1) },
		"soft":  func(l *Lists) { changed(t, l, Hint{Accounts: []string{"acme"}}, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2)
			f.warm(t, sellers)
			f.hold = make(chan struct{})
			before := asking(t, f.nodes[0], aKey)
			f.filling(t, 2, 0)
			change(f.nodes[1])
			f.gone(t, sellers) // the message has arrived
			after := asking(t, f.nodes[0], aKey)
			f.filling(t, 3, 0) // not for the lease of the first
			close(f.hold)
			old, now := <-before, <-after
			want(t, old, Miss, "#2")
			hard := name != "soft"
			if old.Stored == hard {
				t.Errorf("what the change has overtaken is stored: %t", old.Stored)
			}
			if ofBefore := strings.HasSuffix(body(now), "#2"); ofBefore && (hard || now.Outcome != StaleRevalidate) {
				t.Errorf("who asked afterwards got %q as %s", body(now), now.Outcome)
			}
			settled(f.nodes...)
			for _, l := range f.nodes {
				want(t, mustGet(t, l, aKey), Hit, "#3")
			}
		})
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
	purge(t, l, Scope{Account: "acme"})
	close(g.hold)
	if err := <-failed; !errors.Is(err, errLegacy) {
		t.Errorf("error %v; the purged list was served", err)
	}
}

// A replica that had not taken the purge became the master: it has the list of before, and
// no epoch. Nodes that hold nothing of the account know better.
func TestAListOfBeforeALostPurgeIsRefused(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	n := f.namesOf(aKey)
	purged := "hard " + n.Account
	before := f.rdb.Get(t.Context(), n.Entry).Val()
	epoch := purge(t, f.nodes[0], Scope{Account: "acme"})
	f.gone(t, aKey)
	for i, l := range f.nodes {
		l.tier.InvalidateAll()
		if err := errors.Join(f.rdb.Del(t.Context(), "iq:4:changes", "iq:4:epochs:{iq:4:changes}").Err(), f.rdb.Set(t.Context(), n.Entry, before, time.Minute).Err()); err != nil {
			t.Fatal(err)
		}
		if r := mustGet(t, l, aKey); r.Outcome != Miss {
			t.Errorf("node %d served the list of before as %s", i, r.Outcome)
		}
		settled(l)
	}
	redistest.Eventually(t, "Redis has the purge back", func() bool {
		return f.rdb.ZScore(t.Context(), "iq:4:changes", purged).Val() == float64(epoch)
	})
}

// The message of a hint is lost, and then Redis forgets all: the nodes find both out by
// what Redis has.
func TestALostMessageAndALostMemory(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	hinted := redis.Z{Score: float64(time.Now().UnixMicro()), Member: "soft " + redistier.Hash("acme")}
	if err := f.rdb.ZAdd(t.Context(), "iq:4:changes", hinted).Err(); err != nil {
		t.Fatal(err)
	}
	f.gone(t, aKey)
	f.hold = make(chan struct{}) // until both have asked
	for _, l := range f.nodes {
		want(t, mustGet(t, l, aKey), StaleRevalidate, "#1")
	}
	close(f.hold)
	settled(f.nodes...)
	purge(t, f.nodes[0], Scope{Account: "acme"})
	purge(t, f.nodes[1], Scope{Kind: KindBuyer})
	redistest.Eventually(t, "each node knows both", func() bool {
		return f.nodes[0].changes.last(KindBuyer) > 0 && f.nodes[1].changes.last(redistier.Hash("acme")) > uint64(hinted.Score)
	})
	f.srv.Do("FLUSHALL")
	redistest.Eventually(t, "Redis has all again", func() bool { return f.srv.Do("ZCARD", "iq:4:changes") == ":4" })
}

// What a node fetches while it takes its first look at Redis, which makes all that it knew
// before suspect, it knows afterwards. Numbers of purges that it never heard of make that
// look longer.
func TestAListOfTheFirstMomentStays(t *testing.T) {
	f := newFleet(t, 1)
	purge(t, f.nodes[0], Scope{Account: "acme"})
	for range 20 {
		l := f.add(t, f.srv.Addr, 4*time.Second)
		mustGet(t, l, otherKey)
		settled(l)
		redistest.Eventually(t, "the first poll is over", func() bool { return synced(l) })
		if _, ok := l.Lookup(otherKey); !ok {
			t.Fatal("the list is suspect")
		}
	}
}

// learning takes in a change of some time ago.
type learning func(what redistier.Change, epoch uint64, ago time.Duration)

// What a node knows is the same in whatever order it hears of changes, and nothing that is known
// is lowered. What counts for a list is what came after its mark.
func TestWhatIsKnownOfChanges(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	hard, soft := redistier.Change{Of: "a", Hard: true}, redistier.Change{Of: "a"}
	kind, other := redistier.Change{Of: KindBuyer, Hard: true}, redistier.Change{Of: "b", Hard: true}
	for _, tt := range []struct {
		name  string
		heard func(learning)
		want  marks // of a mark with epoch 5
	}{
		{"nothing", func(learning) {}, marks{}},
		{"a purge of before", func(learn learning) { learn(hard, 5, 0) }, marks{}},
		{"a purge", func(learn learning) { learn(hard, 6, 0) }, marks{purged: true}},
		{"a purge, and a hint later", func(learn learning) { learn(soft, 7, 0); learn(hard, 6, 0) }, marks{purged: true}},
		{"a purge of the kind", func(learn learning) { learn(kind, 6, 0) }, marks{purged: true}},
		{"a purge of another account", func(learn learning) { learn(other, 6, 0) }, marks{}},
		{"a hint, and one of before that is heard late", func(learn learning) {
			learn(soft, 9, 3*time.Second)
			learn(soft, 4, time.Hour)
		}, marks{hinted: true, ago: 3 * time.Second}},
		{"two hints", func(learn learning) {
			learn(soft, 9, time.Second)
			learn(soft, 8, 3*time.Second)
		}, marks{hinted: true, ago: time.Second}},
	} {
		c := newChanges(time.Hour)
		tt.heard(func(what redistier.Change, epoch uint64, ago time.Duration) {
			c.learn(what, epoch, now.Add(-ago), now)
		})
		if got := c.after(KindBuyer, &mark{account: "a", epoch: 5}, now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestChangesThatNoListCanBeOlderThanAreForgotten(t *testing.T) {
	c, now := newChanges(time.Minute), time.Unix(1_700_000_000, 0)
	for i := range 1000 {
		now = now.Add(time.Second)
		c.learn(redistier.Change{Of: fmt.Sprint("account-", i)}, uint64(i+1), now, now)
	}
	if n := len(c.known); n > 300 {
		t.Errorf("%d are known", n)
	}
}

// What is known of changes is bounded, however many accounts there are and however fast they change.
// Of what was filled before those that are forgotten nobody knows any more whether it was purged.
func TestChangesBeyondTheBoundAreForgotten(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	purge(t, l, Scope{Account: "acme"})
	mustGet(t, l, otherKey)
	for i := 0; i <= maxKnown; i += MaxHintIDs {
		var h Hint
		for n := range MaxHintIDs {
			h.Accounts = append(h.Accounts, fmt.Sprint("account-", i+n))
		}
		changed(t, l, h, MaxHintIDs)
		g.clock.Add(time.Millisecond)
	}
	if n := len(l.changes.known); n > maxKnown || n < maxKnown/3 {
		t.Errorf("%d are known", n)
	}
	want(t, mustGet(t, l, aKey), Miss, "#3")
	want(t, mustGet(t, l, otherKey), Miss, "#4")
	changed(t, l, Hint{Accounts: []string{"another"}}, 1)
	want(t, mustGet(t, l, aKey), Hit, "#3")
}

func TestASoftHintCountsFromItsOwnMoment(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	for n, answers := range []struct {
		after time.Duration
		want  Outcome
	}{{hintStaleFor - 1, StaleRevalidate}, {hintStaleFor, Miss}} {
		g.clock.Add(5 * time.Second)
		changed(t, l, Hint{Accounts: []string{"acme"}}, 1)
		if _, ok := l.Lookup(aKey); ok {
			t.Error("the old list is served without a refresh")
		}
		g.clock.Add(answers.after)
		want(t, mustGet(t, l, aKey), answers.want, fmt.Sprint("#", 2*n+1))
		settled(l)
	}
	changed(t, l, Hint{Accounts: []string{"acme"}}, 1)
	g.clock.Add(hintStaleFor)
	g.failWith(errLegacy)
	want(t, mustGet(t, l, aKey), StaleError, "#3")
	changed(t, l, Hint{Accounts: []string{"acme"}, Hard: true}, 1)
	if r, err := l.Get(t.Context(), aKey); err == nil {
		t.Errorf("after a hard hint %q was served", body(r))
	}
}

// A hint of a thousand accounts is one script and one message. It reaches all nodes, one
// of which refreshes a list for the others. Who gave it does not wait.
func TestAHintOfAThousandAccounts(t *testing.T) {
	f := newFleet(t, 2)
	kept := Key{Kind: KindBuyer, Account: "initech"}
	f.warm(t, aKey, otherKey, kept)
	h := Hint{Accounts: []string{"acme", "globex", "acme"}}
	for i := range MaxHintIDs - 3 {
		h.Accounts = append(h.Accounts, fmt.Sprint("account-", i))
	}
	pipelines, scripts, start := f.called(t, 1, "pipeline"), f.called(t, 1, "eval", "evalsha"), time.Now()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if n, err := f.nodes[1].Changed(ctx, h); err != nil || n != MaxHintIDs-1 {
		t.Fatalf("%d are marked, %v", n, err)
	}
	polls := 1 + time.Since(start).Seconds()/pollEvery.Seconds()
	if p, s := f.called(t, 1, "pipeline")-pipelines, f.called(t, 1, "eval", "evalsha")-scripts; p > 2+polls || s > 2 { // a script that Redis does not know yet is two calls
		t.Errorf("%v pipelines, with %.1f polls among them, and %v scripts", p, polls, s)
	}
	f.gone(t, aKey)
	f.gone(t, otherKey)
	before := f.calls.Load()
	for _, l := range f.nodes {
		want(t, mustGet(t, l, aKey), StaleRevalidate, "#1")
	}
	settled(f.nodes...)
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

func TestAHintThatCannotBeMeantIsRefused(t *testing.T) {
	l, _ := alone(t)
	for _, tt := range []struct {
		hint Hint
		says string
	}{
		{Hint{}, "0 accounts"},
		{Hint{Accounts: make([]string, MaxHintIDs+1)}, "1001"},
		{Hint{Accounts: []string{"a", ""}}, "accounts[1]"},
		{Hint{AccountHashes: []string{"acme"}}, "account_hashes[0]"},
		{Hint{Kinds: []string{"bayer"}}, "kinds[0]"},
	} {
		if _, err := l.Changed(t.Context(), tt.hint); !errors.Is(err, ErrHint) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v is not about %s", err, tt.says)
		}
	}
	for _, s := range []Scope{{}, {Kind: KindBuyer, Account: "acme"}, {Kind: "admin"}} {
		if _, err := l.Purge(t.Context(), s); err == nil {
			t.Errorf("%+v was purged", s)
		}
	}
}

// An account may be named by its hash as the documents tell to make it:
// printf '\x04acme' | openssl dgst -sha256 -binary | head -c 16 | basenc --base64url
func TestAHintByAHash(t *testing.T) {
	l, _ := alone(t)
	mustGet(t, l, aKey)
	changed(t, l, Hint{AccountHashes: []string{"h-W1Qr2aXvdywqTVQ7d__w"}, Hard: true}, 1)
	want(t, mustGet(t, l, aKey), Miss, "#2")
}

// A node that starts when the last purges are long ago marks its fills so that older nodes, which have
// forgotten one, take them.
func TestOlderNodesTakeTheListsOfANewOne(t *testing.T) {
	const life = 10 * time.Minute
	older, newer := newChanges(life), newChanges(life)
	poll := func(c *changes, now time.Time, all redistier.Epochs) {
		n := redistier.News{Changes: all, Oldest: uint64(now.Add(-life).Truncate(time.Minute).UnixMicro())}
		n.Last = n.Oldest
		for _, epoch := range all {
			n.Last = max(n.Last, epoch)
		}
		c.take(n, now, now)
	}
	purge := func(of string, at time.Time) redistier.Epochs {
		return redistier.Epochs{{Of: of, Hard: true}: uint64(at.UnixMicro())}
	}
	first := time.Date(2026, 5, 4, 0, 0, 30, 0, time.UTC)
	second := first.Add(life + knownFor + time.Minute)
	poll(older, first, purge("a", first))
	poll(older, second, purge("b", second))
	now := second.Add(life + 2*time.Minute) // nothing of interest is in Redis any more
	poll(newer, now, nil)
	m := newer.mark("c")
	if found := older.after(KindBuyer, &m, now); found != (marks{}) {
		t.Errorf("a list of the new node is taken for %+v", found)
	}
	purged := now.Add(time.Second)
	poll(older, purged, purge("c", purged))
	if !older.after(KindBuyer, &m, purged).purged {
		t.Error("a purge after its fill does not count")
	}
}

// What is told of an account's changes stays the same while others have any number of them.
func TestChangesOfOthersAreNotTold(t *testing.T) {
	c := newChanges(10 * time.Minute)
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	before := c.text(KindBuyer, "quiet")
	for i := range 3600 {
		now = now.Add(time.Second)
		c.take(redistier.News{Changes: redistier.Epochs{{Of: fmt.Sprint(i)}: uint64(now.UnixMicro())}, Last: uint64(now.UnixMicro())}, now, now)
	}
	if after := c.text(KindBuyer, "quiet"); after != before {
		t.Errorf("%q, then %q", before, after)
	}
}
