package cache

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What decide says is the specification of freshness: a ttl of 10 s, 10 s of
// stale_while_revalidate, 60 s of stale_if_error, and a soft hint that counts for 1 s.
func TestDecide(t *testing.T) {
	const s = time.Second
	all := testConfig().Buyer.terms()
	noSWR, ttlOnly := terms{ttl: 10 * s, sie: 60 * s}, terms{ttl: 10 * s}
	stale, resting := health{failing: true}, health{failing: true, resting: true}
	hint := func(since time.Duration) marks { return marks{hinted: true, since: since} }
	for _, tt := range []struct {
		name    string
		terms   terms
		age     time.Duration
		m       marks
		h       health
		action  action
		outcome Outcome
		state   freshness
		left    time.Duration
	}{
		{"new", all, 0, marks{}, health{}, serve, Hit, fresh, 10 * s},
		{"new, and the last fill failed", all, 0, marks{}, resting, serve, Hit, fresh, 10 * s},
		{"last fresh moment", all, 10*s - 1, marks{}, health{}, serve, Hit, fresh, 1},
		{"ttl over", all, 10 * s, marks{}, health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"ttl over, and another refresh has just failed", all, 10 * s, marks{}, resting, serve, StaleError, revalidate, 0},
		{"ttl over, and the breaker is open", all, 10 * s, marks{}, stale, serveRefresh, StaleError, revalidate, 0},
		{"last moment of stale_while_revalidate", all, 20*s - 1, marks{}, health{}, serveRefresh, StaleRevalidate, revalidate, -10*s + 1},
		{"too old to serve while it is refreshed", all, 20 * s, marks{}, health{}, fetch, "", ifError, -10 * s},
		{"too old, and the legacy fails", all, 20 * s, marks{}, stale, serveRefresh, StaleError, ifError, -10 * s},
		{"last moment of stale_if_error", all, 70*s - 1, marks{}, resting, serve, StaleError, ifError, -60*s + 1},
		{"past stale_if_error", all, 70 * s, marks{}, stale, fetch, "", unusable, -60 * s},
		{"a little in the future", all, -maxSkew, marks{}, health{}, serve, Hit, fresh, 10 * s},
		{"from the future", all, -maxSkew - 1, marks{}, health{}, fetch, "", unusable, 0},
		{"purged", all, 0, marks{purged: true}, stale, fetch, "", unusable, 0},
		{"perhaps purged", all, 0, marks{suspect: true}, health{}, fetch, "", fresh, 10 * s},
		{"perhaps purged, and the legacy fails", all, 15 * s, marks{suspect: true}, stale, fetch, "", revalidate, -5 * s},
		{"just hinted", all, 1 * s, hint(0), health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"hinted, last moment of it", all, 1 * s, hint(s - 1), health{}, serveRefresh, StaleRevalidate, revalidate, -s + 1},
		{"hinted, its time over", all, 1 * s, hint(s), health{}, fetch, "", ifError, -s},
		{"hinted, its time over, and the legacy fails", all, 1 * s, hint(s), stale, serveRefresh, StaleError, ifError, -s},
		{"hinted when it was stale already", all, 21 * s, hint(0), health{}, fetch, "", ifError, -11 * s},
		{"hinted, past stale_if_error", all, 70 * s, hint(0), stale, fetch, "", unusable, -60 * s},
		{"hinted, without stale_while_revalidate", noSWR, 1 * s, hint(0), health{}, fetch, "", ifError, 0},
		{"hinted, and never served stale", ttlOnly, 1 * s, hint(0), health{}, fetch, "", unusable, 0},
	} {
		now := time.Unix(1_700_000_000, 0)
		v := decide(&policy{}, tt.terms, &Entry{AnsweredAt: now.Add(-tt.age)}, now, tt.m, tt.h)
		want := verdict{tt.action, tt.outcome, tt.state, max(tt.age, 0), tt.left}
		if v != want {
			t.Errorf("%s: %+v, want %+v", tt.name, v, want)
		}
	}
	if v := decide(&policy{}, all, nil, time.Now(), marks{}, health{}); v != (verdict{}) {
		t.Errorf("no entry: %+v", v)
	}
}

func TestJitterOnlyShortensAndAllNodesAgree(t *testing.T) {
	var low, n int
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
	for ; n < 1000; n++ {
		if spreadOf(aKey, int64(n)) < 0.5 {
			low++
		}
	}
	if low < 400 || low > 600 {
		t.Errorf("spread is lopsided: %d of %d below one half", low, n)
	}
}

func TestAFailedRefreshKeepsTheGoodEntryAndBacksOff(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	g.failWith(errLegacy)
	g.clock.Add(11 * time.Second)
	refreshed := func(calls int64) {
		t.Helper()
		mustGet(t, l, aKey)
		settled(l)
		if n := g.calls.Load(); n != calls {
			t.Errorf("%d fills, want %d", n, calls)
		}
	}
	refreshed(2)
	for range 100 { // all within the first delay
		want(t, mustGet(t, l, aKey), StaleError, "#1")
	}
	refreshed(2)
	g.clock.Add(backoffFirst)
	refreshed(3)
	g.failWith(nil)
	g.clock.Add(2 * backoffFirst)
	refreshed(4)
	want(t, mustGet(t, l, aKey), Hit, "#4")
}

// The wait doubles from half a second to half a minute, half of it by chance. Where the legacy
// was not asked it stays as after a first failure.
func TestHowLongAListThatFailsWaits(t *testing.T) {
	now := time.Now()
	b, err := newBackoff(now)
	if err != nil {
		t.Fatal(err)
	}
	for i, most := range []time.Duration{backoffFirst, 2 * backoffFirst, 4 * backoffFirst, 8 * backoffFirst, 16 * backoffFirst, 32 * backoffFirst, backoffMost, backoffMost} {
		for k, want := range map[Key]time.Duration{aKey: most, otherKey: backoffFirst} {
			b.failed(k, legacyDown{refused: k == otherKey}, now, now)
			if a := b.of(k, time.Time{}, now); a == nil || a.next.Sub(now) < want/2 || a.next.Sub(now) > want {
				t.Errorf("%v waits for %s after %d failures, want up to %s", k, a.next.Sub(now), i+1, want)
			}
		}
		now = now.Add(most)
	}
}

// A breaker that is not closed has stale lists served at once, and lets refreshes try.
func TestAnOpenBreakerSparesTheWait(t *testing.T) {
	open := false
	l, g := alone(t, func(s *setup) {
		s.Failing = func(kind, account string) bool { return open && kind == KindBuyer && account == aKey.Account }
	})
	mustGet(t, l, aKey)
	g.clock.Add(30 * time.Second)
	open = true
	g.hold = make(chan struct{})
	r := mustGet(t, l, aKey)
	if want(t, r, StaleError, "#1"); r.TTL != -20*time.Second {
		t.Errorf("ttl %s", r.TTL)
	}
	close(g.hold)
	settled(l)
	want(t, mustGet(t, l, aKey), Hit, "#2")
}
