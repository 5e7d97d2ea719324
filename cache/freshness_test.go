package cache

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var errLegacy error = legacyDown{}

// legacyDown is an error by the endpoint's own fault.
type legacyDown struct{ refused bool }

func (legacyDown) Error() string         { return "the legacy is down" }
func (e legacyDown) EndpointFault() bool { return !e.refused }
func (e legacyDown) Refused() bool       { return e.refused }

func TestAgeDecidesHowAListIsServed(t *testing.T) {
	tests := []struct {
		name    string
		age     time.Duration
		failing bool
		want    Outcome
		fills   int64 // the first included
	}{
		{"new", 0, false, Hit, 1},
		{"last fresh moment", 10*time.Second - 1, false, Hit, 1},
		{"ttl over", 10 * time.Second, false, StaleRevalidate, 2},
		{"last moment of stale_while_revalidate", 20*time.Second - 1, false, StaleRevalidate, 2},
		{"too old to serve while it is refreshed", 20 * time.Second, false, Miss, 2},
		{"too old, and the legacy fails", 20 * time.Second, true, StaleError, 2},
		{"last moment of stale_if_error", 70*time.Second - 1, true, StaleError, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClock()
			g := &legacy{clock: c}
			l := setup{fill: g.fill, now: c.Now}.start(t)
			mustGet(t, l, aKey)
			c.Add(tt.age)
			if tt.failing {
				g.failWith(errLegacy)
			}
			r := mustGet(t, l, aKey)
			settled(l)
			if r.Outcome != tt.want || g.calls.Load() != tt.fills {
				t.Errorf("outcome %s after %d fills, want %s after %d", r.Outcome, g.calls.Load(), tt.want, tt.fills)
			}
			if tt.want != Miss && (r.Age != tt.age || r.TTL != 10*time.Second-tt.age) {
				t.Errorf("age %s, ttl %s, want %s, %s", r.Age, r.TTL, tt.age, 10*time.Second-tt.age)
			}
		})
	}
}

func TestPastStaleIfErrorTheFillsErrorComesBack(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	mustGet(t, l, aKey)
	g.failWith(errLegacy)
	c.Add(70 * time.Second)
	if _, err := l.Get(t.Context(), aKey); !errors.Is(err, errLegacy) {
		t.Errorf("error %v, want the fill's", err)
	}
}

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

func TestAFailingEndpointSparesOtherStaleKeysTheWait(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	keys := []Key{{Kind: KindBuyer, Account: "a"}, {Kind: KindBuyer, Account: "b"}, {Kind: KindBuyer, Account: "c"}, {Kind: KindBuyer, Account: "d"}, {Kind: KindBuyer, Account: "e"}}
	for _, k := range keys {
		mustGet(t, l, k)
	}
	g.failWith(errLegacy)
	c.Add(30 * time.Second)
	for _, k := range keys {
		if r := mustGet(t, l, k); r.Outcome != StaleError {
			t.Errorf("%s: %s", k.Account, r.Outcome)
		}
		settled(l)
	}
	if n := g.calls.Load() - int64(len(keys)); n != endpointAccounts {
		t.Errorf("%d calls of a failing endpoint, want %d and then a pause", n, endpointAccounts)
	}
}

func TestWhatBacksAKindOff(t *testing.T) {
	list := func(account string) error { return errors.New("the list of " + account) }
	for _, tt := range []struct {
		name     string
		fail     func(account string) error
		accounts []string
		want     bool
	}{
		{"one account, again and again", func(string) error { return errLegacy }, []string{"a", "a", "a", "a"}, false},
		{"three accounts", func(string) error { return errLegacy }, []string{"a", "b", "c"}, true},
		{"three accounts' own lists", list, []string{"a", "b", "c"}, false},
		{"three refusals", func(string) error { return legacyDown{refused: true} }, []string{"a", "b", "c"}, false},
	} {
		c := newClock()
		b, err := newBackoff()
		if err != nil {
			t.Fatal(err)
		}
		for _, account := range tt.accounts {
			b.failed(0, Key{Kind: KindBuyer, Account: account}, tt.fail(account), c.Now())
		}
		if got := b.failing(0, otherKey); got != tt.want {
			t.Errorf("%s: the kind is failing: %t", tt.name, got)
		}
		if !b.failing(0, Key{Kind: KindBuyer, Account: "a"}) {
			t.Errorf("%s: the list itself is not", tt.name)
		}
		b.worked(0, otherKey)
		if b.failing(0, otherKey) {
			t.Errorf("%s: still failing after a success", tt.name)
		}
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
		b.failed(0, aKey, legacyDown{refused: true}, c.Now())
	}
	if wait := b.retryAt(aKey).Sub(c.Now()); wait <= 0 || wait > backoffFirst {
		t.Errorf("the list waits for %s", wait)
	}
}

func TestAnotherNodesAnswerEndsTheBackOff(t *testing.T) {
	c := newClock()
	b, err := newBackoff()
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{aKey.Account, "b", "c"} {
		b.failed(0, Key{KindBuyer, account, "", ""}, errLegacy, c.Now())
	}
	b.failed(0, aKey, errLegacy, c.Now())
	b.relieved(0, otherKey, c.Now().Add(-time.Second))
	if !b.failing(0, aKey) || !b.failing(0, otherKey) {
		t.Error("an answer from before the failure ended the endpoint's back-off")
	}
	b.relieved(0, aKey, c.Now().Add(time.Second))
	if b.failing(0, aKey) || b.failing(0, otherKey) || !b.due(0, aKey, c.Now(), true) {
		t.Error("still backing off after the legacy answered another node")
	}
}

func TestBackOffGrowsAndStopsGrowing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-5, 1000).Draw(t, "failures")
		d := delay(n, backoffMost)
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
	bad.Jitter = 2
	if err := l.SetConfig(bad); err == nil {
		t.Error("a broken policy was taken")
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
		cfg := testConfig()
		cfg.Jitter = 0.5
		answered := time.Unix(1_700_000_000, 0)
		v := newPolicy(cfg, nil).judge(cfg.Buyer.terms(), &Entry{AnsweredAt: answered, spread: s}, answered)
		if v.ttl > 10*time.Second || v.ttl < 5*time.Second {
			t.Fatalf("ttl %s", v.ttl)
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

func TestAnEntryFromTheFutureIsNotServed(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	mustGet(t, l, aKey)
	c.Add(-time.Hour)
	if r := mustGet(t, l, aKey); r.Outcome != Miss {
		t.Errorf("outcome %s after the clock went back an hour, want %s", r.Outcome, Miss)
	}
}
