package cache

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What decide says is the specification of freshness: a ttl of 10 s, 10 s of
// stale_while_revalidate, 60 s of stale_if_error.
func TestDecide(t *testing.T) {
	const s = time.Second
	all := testConfig().Buyer.Freshness
	noSWR, ttlOnly := Freshness{TTL: 10 * s, StaleIfError: 60 * s}, Freshness{TTL: 10 * s}
	stale, inBackoff := health{failing: true}, health{failing: true, inBackoff: true, redisChecked: true}
	now := time.Unix(1_700_000_000, 0)
	soft := func(ago time.Duration) invalidation { return invalidation{soft: now.Add(-ago)} }
	for _, tt := range []struct {
		name      string
		freshness Freshness
		age       time.Duration
		m         invalidation
		h         health
		action    action
		outcome   Outcome
		state     state
		left      time.Duration
	}{
		{"new", all, 0, invalidation{}, health{}, serve, Hit, fresh, 10 * s},
		{"new, and the last fill failed", all, 0, invalidation{}, inBackoff, serve, Hit, fresh, 10 * s},
		{"last fresh moment", all, 10*s - 1, invalidation{}, health{}, serve, Hit, fresh, 1},
		{"ttl over", all, 10 * s, invalidation{}, health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"ttl over, and another refresh has just failed", all, 10 * s, invalidation{}, inBackoff, serve, StaleError, revalidate, 0},
		{"ttl over, and the breaker is open", all, 10 * s, invalidation{}, stale, serveRefresh, StaleError, revalidate, 0},
		{"last moment of stale_while_revalidate", all, 20*s - 1, invalidation{}, health{}, serveRefresh, StaleRevalidate, revalidate, -10*s + 1},
		{"too old to serve while it is refreshed", all, 20 * s, invalidation{}, health{}, fetch, Miss, ifError, -10 * s},
		{"too old, and the legacy fails", all, 20 * s, invalidation{}, stale, serveRefresh, StaleError, ifError, -10 * s},
		{"last moment of stale_if_error", all, 70*s - 1, invalidation{}, inBackoff, serve, StaleError, ifError, -60*s + 1},
		{"past stale_if_error, and it rests", all, 70 * s, invalidation{}, health{failing: true, err: errLegacy}, fail, outcomeFailed, expired, -60 * s},
		{"past stale_if_error", all, 70 * s, invalidation{}, stale, fetch, Miss, expired, -60 * s},
		{"a little in the future", all, -maxSkew, invalidation{}, health{}, serve, Hit, fresh, 10 * s},
		{"from the future", all, -maxSkew - 1, invalidation{}, health{}, fetch, Miss, expired, 0},
		{"purged", all, 0, invalidation{hard: true}, stale, fetch, Miss, purged, 0},
		{"just soft-purged", all, 1 * s, soft(0), health{}, serveRefresh, StaleRevalidate, revalidate, 0},
		{"soft-purged, last moment of stale_while_revalidate", all, 15 * s, soft(10*s - 1), health{}, serveRefresh, StaleRevalidate, revalidate, -10*s + 1},
		{"soft-purged, too old to serve while it is refreshed", all, 15 * s, soft(10 * s), health{}, fetch, Miss, ifError, -10 * s},
		{"soft-purged, and the legacy fails", all, 15 * s, soft(10 * s), stale, serveRefresh, StaleError, ifError, -10 * s},
		{"soft-purged when it was stale already", all, 21 * s, soft(0), health{}, fetch, Miss, ifError, -11 * s},
		{"soft-purged, past stale_if_error", all, 70 * s, soft(0), stale, fetch, Miss, expired, -60 * s},
		{"soft-purged, without stale_while_revalidate", noSWR, 1 * s, soft(0), health{}, fetch, Miss, ifError, 0},
		{"soft-purged, and never served stale", ttlOnly, 1 * s, soft(0), health{}, fetch, Miss, expired, 0},
	} {
		q := query{policy: &policy{}, freshness: tt.freshness}
		v := q.decide(&Entry{AnsweredAt: now.Add(-tt.age)}, now, tt.m, tt.h)
		want := decision{tt.action, tt.outcome, tt.h.err, tt.state, max(tt.age, 0), tt.left}
		if want.action != fail {
			want.err = nil
		}
		if v != want {
			t.Errorf("%s: %+v, want %+v", tt.name, v, want)
		}
	}
	q := query{policy: &policy{}, freshness: all}
	for h, want := range map[health]decision{
		{}:                              {outcome: Miss},
		{failing: true}:                 {outcome: Miss},
		{failing: true, err: errLegacy}: {action: fail, outcome: outcomeFailed, err: errLegacy},
	} {
		if v := q.decide(nil, time.Now(), invalidation{}, h); v != want {
			t.Errorf("no entry, %+v: %+v, want %+v", h, v, want)
		}
	}
}

func TestJitterOnlyShortensAndAllNodesAgree(t *testing.T) {
	var low, n int
	rapid.Check(t, func(t *rapid.T) {
		k := Key{KindBuyer, rapid.String().Draw(t, "account"), rapid.String().Draw(t, "status"), ""}
		nanos := rapid.Int64().Draw(t, "nanos")
		s := jitterShareOf(k.Hash(), nanos)
		if s < 0 || s >= 1 || s != jitterShareOf(k.Hash(), nanos) {
			t.Fatalf("spread %v", s)
		}
		now, q := time.Unix(1_700_000_000, 0), query{policy: &policy{jitter: 0.5}, freshness: Freshness{TTL: 10 * time.Second}}
		v := q.decide(&Entry{AnsweredAt: now, jitterShare: s}, now, invalidation{}, health{})
		if v.remaining > 10*time.Second || v.remaining < 5*time.Second {
			t.Fatalf("ttl %s", v.remaining)
		}
	})
	for ; n < 1000; n++ {
		if jitterShareOf(aKey.Hash(), int64(n)) < 0.5 {
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

// A refresh that was refused never reached the legacy system: the list is not served any staler for it.
func TestARefusedRefreshIsNoFailure(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	g.failWith(legacyDown{refused: true})
	g.clock.Add(11 * time.Second)
	want(t, mustGet(t, l, aKey), StaleRevalidate, "#1")
	settled(l)
	want(t, mustGet(t, l, aKey), StaleRevalidate, "#1")
	settled(l)
	g.failWith(nil)
	g.clock.Add(30 * time.Second) // after stale_while_revalidate, before the end of stale_if_error
	want(t, mustGet(t, l, aKey), Miss, "#3")
}

// The wait doubles from half a second to five seconds, half of it by chance. Where the legacy
// was not asked it stays as after a first failure.
func TestHowLongAListThatFailsWaits(t *testing.T) {
	now := time.Now()
	b, err := newBackoff()
	if err != nil {
		t.Fatal(err)
	}
	for i, most := range []time.Duration{backoffFirst, 2 * backoffFirst, 4 * backoffFirst, 8 * backoffFirst, backoffMost, backoffMost} {
		for k, want := range map[Key]time.Duration{aKey: most, otherKey: backoffFirst} {
			b.failed(k, failure{began: now, err: legacyDown{refused: k == otherKey}}, now, never)
			if a := b.lookup(k, time.Time{}); a == nil || a.refreshAt.Sub(now) < want/2 || a.refreshAt.Sub(now) > want {
				t.Errorf("%v waits for %s after %d failures, want up to %s", k, a.refreshAt.Sub(now), i+1, want)
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
