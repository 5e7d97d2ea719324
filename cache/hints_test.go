package cache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/secretfile"
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
	want(t, mustGet(t, l, aKey), Miss, "3") // nobody asked within stale_for

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
	if _, err := f.nodes[0].redis.Soften(t.Context(), epochKey(f.nodes[0], Scope{Account: "acme"}), time.Now()); err != nil {
		t.Fatal(err)
	}
	f.srv.Do("SET", "iq:2:purges", "99", "PX", "60000")
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
	key := epochKey(f.nodes[0], Scope{Account: "acme"})
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
		return !strings.Contains(f.srv.Do("GET", key+":soft"), " 0 ")
	})
}

func rnd(t *testing.T) string { t.Helper(); return fmt.Sprint("s", time.Now().UnixNano()) }

const recordKey = "a key of a test, 32 bytes long..."

// marking makes a fill that marks each list with the id of a record.
func marking(l **Lists, g *legacy) Fill {
	return func(ctx context.Context, k Key, known Known) (Content, error) {
		c, err := g.fill(ctx, k, known)
		if m, ok := (*l).Mark("ticket of " + k.Account); ok {
			c.Marks = []uint32{m}
		}
		return c, err
	}
}

func recordConfig() Config {
	c := testConfig()
	c.Hints.RecordKeyFile = secretfile.New("record-key", recordKey+"\n")
	return c
}

func hintConfig() Config {
	c := recordConfig()
	c.Hints.Stream = "legacy:changes"
	return c
}

// hintFleet are two nodes that know records and read a stream.
func hintFleet(t *testing.T) *fleet {
	f := &fleet{legacy: &legacy{clock: newClock()}, srv: redistest.Start(t), nodes: make([]*Lists, 2)}
	for i := range f.nodes {
		f.nodes[i] = setup{cfg: hintConfig(), fill: marking(&f.nodes[i], f.legacy), now: f.clock.Now, redis: openRedis(t, relaxTimeouts(redisAt(f.srv.Addr)))}.start(t)
	}
	redistest.Eventually(t, "the stream is there, and known to be new", func() bool {
		for _, l := range f.nodes {
			if l.epochs.kinds[0].epoch.Load() == 0 || l.epochs.kinds[1].epoch.Load() == 0 {
				return false // not all lists count as changed yet
			}
		}
		return true
	})
	f.warm(t, aKey, otherKey)
	return f
}

func TestAHintByTheIDOfARecord(t *testing.T) {
	f := hintFleet(t)
	h := hmac.New(sha256.New, []byte(recordKey))
	h.Write([]byte("ticket of acme"))
	for _, hint := range []Hint{{Records: []string{"ticket of acme"}}, {RecordHashes: []string{hex.EncodeToString(h.Sum(nil))}, Hard: true}} {
		for _, l := range f.nodes { // whoever of the two has filled the list
			if _, err := l.Changed(t.Context(), hint); err != nil {
				t.Fatal(err)
			}
			for _, l := range f.nodes {
				gone(t, l, aKey)
				if _, ok := l.Lookup(otherKey); !ok {
					t.Error("another account's list was dropped")
				}
			}
			f.settled()
			f.warm(t, aKey)
		}
	}
	if got := f.srv.Do("KEYS", "*ticket*"); got != "*0" {
		t.Errorf("Redis has %s", got)
	}
}

// One worker looks for all that wait, and what is more than it holds is counted.
func TestMessagesAboutRecordsAreBounded(t *testing.T) {
	g, l := &legacy{clock: newClock()}, (*Lists)(nil)
	l = setup{cfg: recordConfig(), fill: func(ctx context.Context, k Key, known Known) (Content, error) { return marking(&l, g)(ctx, k, known) }, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	mustGet(t, l, otherKey)
	for i := range maxHeardRecords + 9 {
		mark, _ := l.Mark(fmt.Sprint("another ticket ", i))
		if i == 7 {
			mark, _ = l.Mark("ticket of acme")
		}
		l.heardRecords(encodeMarks(map[uint32]bool{mark: true}, i%2 == 1))
	}
	if n := counter(t, l.metrics.dropped); n != 9 {
		t.Errorf("%v messages were dropped", n)
	}
	l.heardRecords("not hex")
	l.markRecords(<-l.records)
	if n := len(l.records); n != 0 {
		t.Errorf("%d messages are left", n)
	}
	if n := counter(t, l.metrics.hints.WithLabelValues(hintHard)); n != 1 {
		t.Errorf("%v accounts are marked", n)
	}
	want(t, mustGet(t, l, aKey), Miss, "3")
	if _, ok := l.Lookup(otherKey); !ok {
		t.Error("another account's list was dropped")
	}
}

// A stream that is of another type cannot be read: it is counted, and read when it can be.
func TestAStreamThatCannotBeRead(t *testing.T) {
	f := hintFleet(t)
	f.srv.Do("SET", "legacy:changes", "no stream")
	unread := func() float64 { return counter(t, f.nodes[0].metrics.stream.WithLabelValues(streamUnread)) }
	redistest.Eventually(t, "failed reads are counted", func() bool { return unread() > 1 })
	f.srv.Do("DEL", "legacy:changes")
	for _, l := range f.nodes {
		gone(t, l, aKey) // all lists count as changed
	}
}

func TestAHintThatCannotBeMeantIsRefused(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	for _, tt := range []struct {
		hint Hint
		says string
	}{
		{Hint{}, "0 accounts"}, {Hint{Accounts: make([]string, MaxHintIDs+1)}, "1001"}, {Hint{Accounts: []string{"a", ""}}, "accounts[1]"},
		{Hint{AccountHashes: []string{"acme"}}, "account_hashes[0]"}, {Hint{Kinds: []string{"bayer"}}, "kinds[0]"}, {Hint{Records: []string{"1"}}, "record_key_file"},
	} {
		if _, err := l.Changed(t.Context(), tt.hint); !errors.Is(err, ErrHint) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v is not about %s", err, tt.says)
		}
	}
}

func TestHintsOfAStream(t *testing.T) {
	f := hintFleet(t)
	account := redistier.Hash("acme")
	if account != "h-W1Qr2aXvdywqTVQ7d__w" { // printf '\x04acme' | openssl dgst -sha256 -binary | head -c 16 | basenc --base64url
		t.Errorf("the hash is not as the docs tell it: %s", account)
	}
	f.srv.Do("XADD", "legacy:changes", "*", "account", "acme") // plain ids have no place there
	f.srv.Do("XADD", "legacy:changes", "*", "account_hash", account, "hard", "1")
	for _, l := range f.nodes {
		gone(t, l, aKey)
	}
	redistest.Eventually(t, "the stream is empty", func() bool { return f.srv.Do("XLEN", "legacy:changes") == ":0" })
	if n := counter(t, f.nodes[0].metrics.stream.WithLabelValues(streamRefused)) + counter(t, f.nodes[1].metrics.stream.WithLabelValues(streamRefused)); n != 1 {
		t.Errorf("%v entries were refused", n)
	}
	f.warm(t, aKey)

	// A node has read an entry, and has died.
	f.srv.Do("MULTI")
	f.srv.Do("XADD", "legacy:changes", "7777777777777-1", "account_hash", account)
	f.srv.Do("XREADGROUP", "GROUP", "iq:2:inquiry-gateway", "dead", "STREAMS", "legacy:changes", ">")
	f.srv.Do("XCLAIM", "legacy:changes", "iq:2:inquiry-gateway", "dead", "0", "7777777777777-1", "IDLE", "60000")
	f.srv.Do("EXEC")
	for _, l := range f.nodes {
		gone(t, l, aKey)
	}
	f.settled()
	f.warm(t, aKey)

	f.srv.Do("DEL", "legacy:changes") // as if Redis had lost it
	for _, l := range f.nodes {
		gone(t, l, aKey)
	}
}

func TestRefreshAhead(t *testing.T) {
	g := &legacy{clock: newClock()}
	cfg := testConfig()
	cfg.RefreshAhead = 0.2
	l := setup{cfg: cfg, fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	g.clock.Add(7900 * time.Millisecond)
	if r, ok := l.Lookup(aKey); !ok || r.Outcome != Hit {
		t.Error("refreshed too early")
	}
	g.clock.Add(200 * time.Millisecond)
	want(t, mustGet(t, l, aKey), Hit, "1")
	settled(l)
	if r, ok := l.Lookup(aKey); !ok || body(r) != "buyer/acme/pending/ #2" {
		t.Error("not refreshed ahead")
	}
	l.opts.Spare = func() bool { return false }
	g.clock.Add(8100 * time.Millisecond)
	if _, ok := l.Lookup(aKey); !ok {
		t.Error("a refresh was wanted although callers need the legacy system")
	}
}

func TestTheFleetRefreshesAheadOnce(t *testing.T) {
	f := newFleet(t, 3)
	f.warm(t, aKey)
	for _, l := range f.nodes {
		cfg := testConfig()
		if cfg.RefreshAhead = 0.5; l.SetConfig(cfg) != nil {
			t.Fatal("SetConfig failed")
		}
	}
	f.clock.Add(6 * time.Second)
	for range 2 {
		for _, l := range f.nodes {
			if r := mustGet(t, l, aKey); r.Outcome != Hit {
				t.Errorf("outcome %s", r.Outcome)
			}
		}
		f.settled()
	}
	if n := f.calls.Load(); n != 2 {
		t.Errorf("%d fills", n)
	}
}

// BenchmarkHaving says what a hint of records costs: a look at each mark in memory.
// 500,000 records in lists of 20, with two ids each, are a million marks.
func BenchmarkHaving(b *testing.B) {
	g := &legacy{clock: newClock()}
	n := uint32(0)
	l := setup{fill: func(ctx context.Context, k Key, known Known) (Content, error) {
		c, err := g.fill(ctx, k, known)
		for range 40 {
			n++
			c.Marks = append(c.Marks, n)
		}
		return c, err
	}, now: g.clock.Now}.start(b)
	for i := range 25000 {
		mustGet(b, l, Key{Kind: KindBuyer, Account: fmt.Sprint(i)})
	}
	for b.Loop() {
		l.having(map[uint32]bool{n: true}, map[target]bool{})
	}
}
