package cache

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/testkit/redistest"
)

// changed marks acme's lists as changed, by one node.
func changed(t *testing.T, l *Lists, hard bool) {
	t.Helper()
	if n, err := l.Changed(t.Context(), Hint{Accounts: []string{"acme"}, Hard: hard}); err != nil || n != 1 {
		t.Fatalf("%d marked, %v", n, err)
	}
}

func want(t *testing.T, r Result, o Outcome, content string) {
	t.Helper()
	if r.Outcome != o || body(r) != "buyer/acme/pending/ #"+content {
		t.Errorf("%s with %q, want %s with #%s", r.Outcome, body(r), o, content)
	}
}

func TestASoftHintServesTheOldListForAMoment(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	changed(t, l, false)
	if _, ok := l.Lookup(aKey); ok {
		t.Error("the old list is served without a refresh")
	}
	r := mustGet(t, l, aKey)
	want(t, r, StaleRevalidate, "1")
	if r.TTL > 0 {
		t.Errorf("it seems to be fresh for %s", r.TTL)
	}
	settled(l)
	want(t, mustGet(t, l, aKey), Hit, "2")

	changed(t, l, false)
	g.clock.Add(1100 * time.Millisecond)
	want(t, mustGet(t, l, aKey), Miss, "3") // nobody asked within its second

	changed(t, l, false)
	g.clock.Add(1100 * time.Millisecond)
	g.failWith(errors.New("away"))
	want(t, mustGet(t, l, aKey), StaleError, "3")
	g.failWith(nil)
	settled(l)
	changed(t, l, true)
	want(t, mustGet(t, l, aKey), Miss, "5")
	changed(t, l, true)
	g.failWith(errors.New("away"))
	if r, err := l.Get(t.Context(), aKey); err == nil {
		t.Errorf("after a hard hint %q was served", body(r))
	}
}

// A fill that began before a hint answers who asked before it, and is no fresh list for
// who asks after.
func TestAFillOfBeforeAHintIsNotFresh(t *testing.T) {
	for _, hard := range []bool{false, true} {
		f := newFleet(t, 2)
		f.hold = make(chan struct{})
		early := make(chan Result)
		go func() { early <- mustGet(t, f.nodes[0], aKey) }()
		redistest.Eventually(t, "the fill has begun", func() bool { return f.calls.Load() == 1 })
		changed(t, f.nodes[1], hard)
		close(f.hold)
		want(t, <-early, Miss, "1")
		f.settled()
		redistest.Eventually(t, "the first node has heard", func() bool { r, ok := f.nodes[0].Lookup(aKey); return !ok || body(r) != "buyer/acme/pending/ #1" })
		for i := range 2 {
			if r := mustGet(t, f.nodes[i], aKey); strings.HasSuffix(body(r), "#1") && (hard || r.Outcome == Hit) {
				t.Errorf("hard %v, node %d: the list of before was %s", hard, i, r.Outcome)
			}
			f.settled()
			want(t, mustGet(t, f.nodes[i], aKey), Hit, "2")
		}
	}
}

func TestOneNodeRefreshesForTheFleet(t *testing.T) {
	f := newFleet(t, 3)
	f.warm(t, aKey, otherKey)
	before := f.calls.Load()
	changed(t, f.nodes[0], false)
	for _, l := range f.nodes {
		redistest.Eventually(t, "the node has heard", func() bool { _, ok := l.Lookup(aKey); return !ok })
	}
	for _, l := range f.nodes {
		if r := mustGet(t, l, aKey); r.Outcome != StaleRevalidate {
			t.Errorf("outcome %s", r.Outcome)
		}
	}
	f.settled()
	for _, l := range f.nodes {
		if r := mustGet(t, l, aKey); r.Outcome != Hit || r.TTL <= 0 {
			t.Errorf("outcome %s, ttl %s", r.Outcome, r.TTL)
		}
		if _, ok := l.Lookup(otherKey); !ok {
			t.Error("another account's list was dropped")
		}
	}
	if n := f.calls.Load() - before; n != 1 {
		t.Errorf("%d fills", n)
	}
}

// A node that misses the message of a hint learns of it by the number, as of a purge;
// and a Redis that has forgotten it is told again, as of a purge.
func TestALostOrForgottenHint(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	if err := f.nodes[0].redis.Raise(t.Context(), []redistier.Change{{Account: redistier.Hash("acme")}}, true); err != nil {
		t.Fatal(err)
	}
	f.srv.Do("SET", "iq:3:purges", "99", "PX", "60000")
	gone(t, f.nodes[1], aKey)
	r := mustGet(t, f.nodes[1], aKey)
	if r.Outcome != StaleRevalidate {
		t.Errorf("outcome %s", r.Outcome)
	}
	f.settled()
	changed(t, f.nodes[0], false)
	f.srv.Do("FLUSHALL")
	for _, l := range f.nodes {
		redistest.Eventually(t, "a later list is there", func() bool { f.settled(); now := mustGet(t, l, aKey); return body(now) != body(r) && now.TTL > 0 })
	}
}

// A purge holds, whatever is softened after it, even if Redis forgets the purge alone.
func TestASoftHintDoesNotBringBackWhatWasPurged(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	key := epochKey(Scope{Account: "acme"})
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	for _, l := range f.nodes {
		gone(t, l, aKey)
	}
	f.srv.Do("DEL", key)
	changed(t, f.nodes[1], false)
	for _, l := range f.nodes {
		if r := mustGet(t, l, aKey); strings.HasSuffix(body(r), "#1") {
			t.Errorf("the purged list was served as %s", r.Outcome)
		}
		f.settled()
	}
	redistest.Eventually(t, "Redis knows the purge again", func() bool {
		mustGet(t, f.nodes[0], Key{Kind: KindSeller, Account: "acme", Status: rnd(t)})
		f.settled()
		return !strings.Contains(f.srv.Do("GET", key), " 0 ")
	})
}

func rnd(t *testing.T) string { t.Helper(); return fmt.Sprint("s", time.Now().UnixNano()) }

func TestAHintThatCannotBeMeantIsRefused(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	for _, tt := range []struct {
		hint Hint
		says string
	}{
		{Hint{}, "0 accounts"}, {Hint{Accounts: make([]string, MaxHintIDs+1)}, "1001"}, {Hint{Accounts: []string{"a", ""}}, "accounts[1]"},
		{Hint{AccountHashes: []string{"acme"}}, "account_hashes[0]"}, {Hint{Kinds: []string{"bayer"}}, "kinds[0]"},
	} {
		if _, err := l.Changed(t.Context(), tt.hint); !errors.Is(err, ErrHint) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v is not about %s", err, tt.says)
		}
	}
}

// An account may be named by its hash as the documents tell to make it:
// printf '\x04acme' | openssl dgst -sha256 -binary | head -c 16 | basenc --base64url
func TestAHintByAHash(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	if n, err := l.Changed(t.Context(), Hint{AccountHashes: []string{"h-W1Qr2aXvdywqTVQ7d__w"}, Hard: true}); n != 1 || err != nil {
		t.Errorf("%d marked, %v", n, err)
	}
	want(t, mustGet(t, l, aKey), Miss, "2")
}
