package cache

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var errLegacy error = legacyDown{}

// legacyDown is an error of the legacy, or of who did not ask it.
type legacyDown struct{ refused bool }

func (legacyDown) Error() string   { return "the legacy is down" }
func (e legacyDown) Refused() bool { return e.refused }

func TestAFailedRefreshKeepsTheGoodEntryAndBacksOff(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	first := body(mustGet(t, l, aKey))
	g.failWith(errLegacy)
	c.Add(11 * time.Second)
	mustGet(t, l, aKey)
	settled(l)
	for range 100 { // all within the first delay
		if r := mustGet(t, l, aKey); r.Outcome != StaleError || body(r) != first {
			t.Fatalf("%s %q while the legacy fails, want %s %q", r.Outcome, body(r), StaleError, first)
		}
	}
	if n := g.calls.Load(); n != 2 {
		t.Errorf("%d fills, want the first and one refresh", n)
	}
	c.Add(backoffFirst)
	mustGet(t, l, aKey)
	settled(l)
	if n := g.calls.Load(); n != 3 {
		t.Errorf("%d fills after the delay, want one more refresh", n)
	}
	g.failWith(nil)
	c.Add(2 * backoffFirst)
	mustGet(t, l, aKey)
	settled(l)
	if r := mustGet(t, l, aKey); r.Outcome != Hit || body(r) == first {
		t.Errorf("%s %q after the legacy is back, want a fresh list", r.Outcome, body(r))
	}
}

// A refused list waits as after a first failure, however often it is refused.
func TestRefusalsDoNotAddUp(t *testing.T) {
	c := newClock()
	b, err := newBackoff()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b.failed(aKey, legacyDown{refused: true}, c.Now())
	}
	_, at := b.of(aKey)
	if wait := at.Sub(c.Now()); wait <= 0 || wait > backoffFirst {
		t.Errorf("the list waits for %s", wait)
	}
}

func TestBackOffGrowsAndStopsGrowing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-5, 1000).Draw(t, "failures")
		d := delay(n)
		if d < backoffFirst/2 || d > backoffMost {
			t.Fatalf("delay(%d) = %s", n, d)
		}
		if n >= 10 && d < backoffMost/2 {
			t.Fatalf("delay(%d) = %s, want it grown", n, d)
		}
	})
}

func TestANewPolicyJudgesWhatIsCachedAlready(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	mustGet(t, l, aKey)
	c.Add(5 * time.Second)
	cfg := testConfig()
	short := 3 * time.Second
	cfg.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &short}}
	if err := l.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Lookup(aKey); ok {
		t.Error("a list older than its new ttl is still fresh")
	}
	if err := l.SetConfig(testConfig()); err != nil {
		t.Fatal(err)
	}
	if r, ok := l.Lookup(aKey); !ok || r.TTL != 5*time.Second {
		t.Errorf("ttl %s, fresh %t after the old policy is back; the entry was dropped", r.TTL, ok)
	}
	bad := testConfig()
	bad.MaxEntryBytes = bad.MaxBytes + 1
	if err := l.SetConfig(bad); err == nil {
		t.Error("a broken policy was taken")
	}
}

// What decide says is the specification of freshness: a ttl of 10 s, 10 s of
// stale_while_revalidate, 60 s of stale_if_error, and 1 s of hintStaleFor.
func TestDecide(t *testing.T) {
	const s = time.Second
	stale := health{failing: true}
	resting := health{failing: true, resting: true}
	hint := func(since time.Duration) marks { return marks{hinted: true, since: since} }
	for _, tt := range []struct {
		name    string
		age     time.Duration
		m       marks
		h       health
		action  action
		outcome Outcome
		state   freshness
		left    time.Duration
	}{
		{"new", 0, marks{}, health{}, serve, Hit, fresh, 10 * s},
		{"new, and the last fill failed", 0, marks{}, resting, serve, Hit, fresh, 10 * s},
		{"last fresh moment", 10*s - 1, marks{}, health{}, serve, Hit, fresh, 1},
		{"ttl over", 10 * s, marks{}, health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"ttl over, and another refresh has just failed", 10 * s, marks{}, resting, serve, StaleError, revalidate, 0},
		{"ttl over, and the breaker is open", 10 * s, marks{}, stale, serveRefresh, StaleError, revalidate, 0},
		{"last moment of stale_while_revalidate", 20*s - 1, marks{}, health{}, serveRefresh, StaleRevalidate, revalidate, -10*s + 1},
		{"too old to serve while it is refreshed", 20 * s, marks{}, health{}, fetch, "", ifError, -10 * s},
		{"too old, and the legacy fails", 20 * s, marks{}, stale, serveRefresh, StaleError, ifError, -10 * s},
		{"last moment of stale_if_error", 70*s - 1, marks{}, resting, serve, StaleError, ifError, -60*s + 1},
		{"past stale_if_error", 70 * s, marks{}, stale, fetch, "", unusable, -60 * s},
		{"a little in the future", -maxSkew, marks{}, health{}, serve, Hit, fresh, 10 * s},
		{"from the future", -maxSkew - 1, marks{}, health{}, fetch, "", unusable, 0},
		{"purged", 0, marks{purged: true}, stale, fetch, "", unusable, 0},
		{"perhaps purged", 0, marks{suspect: true}, health{}, fetch, "", fresh, 10 * s},
		{"perhaps purged, and the legacy fails", 15 * s, marks{suspect: true}, stale, fetch, "", revalidate, -5 * s},
		{"just hinted", 1 * s, hint(0), health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"hinted, last moment of it", 1 * s, hint(s - 1), health{}, serveRefresh, StaleRevalidate, revalidate, -s + 1},
		{"hinted, its time over", 1 * s, hint(s), health{}, fetch, "", ifError, -s},
		{"hinted, its time over, and the legacy fails", 1 * s, hint(s), stale, serveRefresh, StaleError, ifError, -s},
		{"hinted when it was stale already", 21 * s, hint(0), health{}, fetch, "", ifError, -11 * s},
		{"hinted, past stale_if_error", 70 * s, hint(0), stale, fetch, "", unusable, -60 * s},
	} {
		c := testConfig()
		p, err := compile(c, Fills{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_700_000_000, 0)
		v := decide(p, c.Buyer.terms(), &Entry{AnsweredAt: now.Add(-tt.age)}, now, tt.m, tt.h)
		want := verdict{tt.action, tt.outcome, tt.state, max(tt.age, 0), tt.left}
		if tt.state == unusable && tt.left == 0 {
			want.age = 0
		}
		if v != want {
			t.Errorf("%s: %+v, want %+v", tt.name, v, want)
		}
	}
	if v := decide(&policy{}, terms{ttl: s}, nil, time.Now(), marks{}, health{}); v != (verdict{}) {
		t.Errorf("no entry: %+v", v)
	}
}

func TestTermsOfAHint(t *testing.T) {
	for _, tt := range []struct {
		t    terms
		want freshness
	}{
		{terms{ttl: time.Hour, swr: time.Hour, sie: time.Hour}, revalidate},
		{terms{ttl: time.Hour, sie: time.Hour}, ifError}, // no stale_while_revalidate: not for a moment
		{terms{ttl: time.Hour}, unusable},
	} {
		now := time.Now()
		if v := decide(&policy{}, tt.t, &Entry{AnsweredAt: now}, now, marks{hinted: true}, health{}); v.state != tt.want {
			t.Errorf("%+v: %+v", tt.t, v)
		}
	}
}

// A breaker that is not closed has stale lists served at once, and lets refreshes try.
func TestAnOpenBreakerSparesTheWait(t *testing.T) {
	g, open := &legacy{clock: newClock()}, false
	l := setup{fill: g.fill, now: g.clock.Now, failing: func(kind string) bool { return open && kind == KindBuyer }}.start(t)
	mustGet(t, l, aKey)
	g.clock.Add(30 * time.Second)
	open = true
	g.hold = make(chan struct{})
	if r := mustGet(t, l, aKey); r.Outcome != StaleError || r.TTL != -20*time.Second {
		t.Errorf("%+v", r)
	}
	close(g.hold)
	settled(l)
	if r := mustGet(t, l, aKey); r.Outcome != Hit || body(r) != "buyer/acme/pending/ #2" {
		t.Errorf("after the refresh: %s %q", r.Outcome, body(r))
	}
}

func TestJitterOnlyShortensAndAllNodesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key{KindBuyer, rapid.String().Draw(t, "account"), rapid.String().Draw(t, "status"), ""}
		nanos := rapid.Int64().Draw(t, "nanos")
		s := spreadOf(k, nanos)
		if s < 0 || s >= 1 || s != spreadOf(k, nanos) {
			t.Fatalf("spread %v", s)
		}
		now := time.Unix(1_700_000_000, 0)
		v := decide(&policy{jitter: 0.5}, terms{ttl: 10 * time.Second}, &Entry{AnsweredAt: now, spread: s}, now, marks{}, health{})
		if v.left > 10*time.Second || v.left < 5*time.Second {
			t.Fatalf("ttl %s", v.left)
		}
	})
	var low, high int
	for n := range int64(1000) {
		if spreadOf(aKey, n) < 0.5 {
			low++
		} else {
			high++
		}
	}
	if low < 400 || high < 400 {
		t.Errorf("spread is lopsided: %d below one half, %d above", low, high)
	}
}
