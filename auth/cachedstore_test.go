package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/testkit"
)

// caller is a Caller with an address.
type caller string

func (c caller) ClientIP() string     { return string(c) }
func (caller) Deadline() time.Time    { return time.Now().Add(time.Minute) }
func (caller) LogRefusal(string) bool { return true }

var testPolicy = CachePolicy{TTL: 10 * time.Second, NegativeTTL: 2 * time.Second, Timeout: 20 * time.Second, MaxKeys: 100}

func newTestCache(t *testing.T, c *testkit.Clock, ask Lookup) *CachedStore {
	t.Helper()
	r := NewCachedStore("test", ask, testPolicy, Options{Now: c.Now, Guesses: NewGuesses(rate.Plan{PerSecond: 1, Burst: 3}, c.Now)})
	t.Cleanup(r.Close)
	return r
}

func credential(key string) Credential {
	return Credential{Digest: Hasher{}.Hash(key), Key: Secret(key)}
}

func grantOf(c Credential) *Grant { return &Grant{Digest: c.Digest} }

// An answer that was on its way while its key was revoked is not stored,
// whether it arrives before or after the answer to a later lookup.
func TestForgetBeatsAnAnswerUnderWay(t *testing.T) {
	for name, forget := range map[string]func(*CachedStore){
		"key":     func(r *CachedStore) { r.Forget(credential("k").Digest) },
		"account": func(r *CachedStore) { r.ForgetAccount("acme") },
		"all":     func(r *CachedStore) { r.ForgetAll() },
	} {
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				asked := make(chan chan *Grant)
				r := newTestCache(t, testkit.NewClock(testNow), func(context.Context, Credential) (*Grant, error) {
					mine := make(chan *Grant)
					asked <- mine
					return <-mine, nil
				})
				var wg sync.WaitGroup
				ask := func(revoked bool) chan *Grant {
					wg.Go(func() {
						if g, err := r.Find(t.Context(), credential("k")); err != nil || g.Revoked != revoked {
							t.Errorf("another lookup's answer, %v", err)
						}
					})
					return <-asked
				}
				lookups := []chan *Grant{ask(false)}
				forget(r)
				lookups = append(lookups, ask(true)) // does not join the lookup of before
				for _, i := range order {
					lookups[i] <- &Grant{Digest: credential("k").Digest, Revoked: i == 1}
				}
				wg.Wait()
				if g, err := r.Find(t.Context(), credential("k")); err != nil || !g.Revoked {
					t.Errorf("the old answer is stored, %v", err)
				}
			})
		}
	}
}

func TestForgetIsPrecise(t *testing.T) {
	n := 0
	r := newTestCache(t, testkit.NewClock(testNow), func(_ context.Context, c Credential) (*Grant, error) {
		n++
		g := grantOf(c)
		g.Principal.Account = "account of " + string(c.Key)
		return g, nil
	})
	find := func(key string) int {
		t.Helper()
		before := n
		if _, err := r.Find(t.Context(), credential(key)); err != nil {
			t.Fatal(err)
		}
		return n - before
	}
	find("a")
	find("b")
	r.Forget(credential("a").Digest)
	if find("a") != 1 || find("b") != 0 {
		t.Error("forget forgets the wrong key")
	}
	r.ForgetAccount("account of b")
	if find("a") != 0 || find("b") != 1 {
		t.Error("forgetAccount forgets the wrong account")
	}
	r.ForgetAll()
	if find("a") != 1 || find("b") != 1 {
		t.Error("forgetAll forgets too little")
	}
}

func TestTimesOfStoredAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testkit.NewClock(testNow)
		n := 0
		exp := testNow.Add(4 * time.Second)
		r := newTestCache(t, c, func(_ context.Context, cred Credential) (*Grant, error) {
			n++
			switch cred.Key {
			case "unknown":
				return nil, ErrUnknownKey
			case "down":
				return nil, errors.New("refused")
			case "expiring":
				return &Grant{Digest: cred.Digest, ExpiresAt: exp}, nil
			}
			return grantOf(cred), nil
		})
		steps := []struct {
			at  time.Duration
			key string
			ask int
		}{
			{0, "good", 1}, {0, "good", 0}, {0, "unused", 1}, {0, "unknown", 1}, {0, "unknown", 0}, {0, "expiring", 1}, {0, "down", 1}, {0, "down", 1},
			{2*time.Second - 1, "unknown", 0}, {2 * time.Second, "unknown", 1},
			{4*time.Second - 1, "expiring", 0}, {4 * time.Second, "expiring", 1},
			{5*time.Second - 1, "good", 0}, {5 * time.Second, "good", 1}, {5 * time.Second, "good", 0}, // half of its time is over
			{6*time.Second - 1, "expiring", 0}, {6 * time.Second, "expiring", 1},
			{10*time.Second - 1, "good", 0}, {10 * time.Second, "good", 1}, {10 * time.Second, "unused", 1},
			{20 * time.Second, "good", 1}, {20 * time.Second, "good", 0},
		}
		for _, s := range steps {
			c.Set(testNow.Add(s.at))
			before := n
			_, _ = r.Find(t.Context(), credential(s.key)) // only the lookups count here
			synctest.Wait()
			if n-before != s.ask {
				t.Errorf("%v after the start %s was asked for %d times, want %d", s.at, s.key, n-before, s.ask)
			}
		}
	})
}

// A key in use is asked about again in the second half of its time. A store
// that cannot be asked takes nothing away, is asked again after a pause, and by
// one lookup per key at a time; what it answers counts at once.
func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testkit.NewClock(testNow)
		asked, answer := 0, error(nil)
		takes := time.Duration(0) // by the store's clock
		hold := make(chan bool)
		close(hold)
		r := newTestCache(t, c, func(_ context.Context, cred Credential) (*Grant, error) {
			asked++
			err := answer
			<-hold
			c.Add(takes)
			return grantOf(cred), err
		})
		at := func(d time.Duration, want error, lookups int) {
			t.Helper()
			c.Set(testNow.Add(d))
			before := asked
			for range 100 {
				if _, err := r.Find(t.Context(), credential("k")); !errors.Is(err, want) {
					t.Fatalf("at %v: %v, want %v", d, err, want)
				}
			}
			synctest.Wait()
			if asked-before != lookups {
				t.Errorf("at %v: %d lookups, want %d", d, asked-before, lookups)
			}
		}
		at(0, nil, 1)
		down := errors.New("refused")
		answer = down
		at(5*time.Second, nil, 1)
		at(6*time.Second-1, nil, 0) // the pause
		at(6*time.Second, nil, 1)
		hold = make(chan bool)
		at(7*time.Second, nil, 1)
		at(9*time.Second, nil, 0) // a lookup is under way
		close(hold)
		synctest.Wait()
		at(10*time.Second, down, 100) // never longer than its time
		answer, takes = nil, 2*time.Second
		at(11*time.Second, nil, 1)
		takes, answer = 0, down
		at(21*time.Second-1, nil, 1)
		at(21*time.Second, down, 100) // its time began with the lookup, not with the answer
		answer = nil
		at(30*time.Second, nil, 1)
		answer = ErrUnknownKey
		c.Set(testNow.Add(35 * time.Second))
		if _, err := r.Find(t.Context(), credential("k")); err != nil {
			t.Errorf("before the answer: %v", err)
		}
		synctest.Wait()
		at(35*time.Second, ErrUnknownKey, 0)
	})
}

// The lookups of keys that this node knows have places of their own, and neither end at
// another's guesses nor count as such.
func TestGuessesLeaveRoomForKnownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testkit.NewClock(testNow)
		block := make(chan bool)
		r := newTestCache(t, c, func(_ context.Context, cred Credential) (*Grant, error) {
			if cred.Key[0] == 'u' {
				<-block
				return nil, ErrUnknownKey
			}
			return grantOf(cred), nil
		})
		known := credential("known")
		known.Caller = caller("192.0.2.1")
		if _, err := r.Find(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		for range 9 {
			r.guesses.charge("192.0.2.1")
		}
		for i := range maxLookups { // take what places there are
			go func() { _, _ = r.Find(t.Context(), credential(fmt.Sprint("unseen", i))) }()
		}
		synctest.Wait()
		if _, err := r.Find(t.Context(), credential("one more")); !errors.Is(err, errBusy) {
			t.Errorf("one more: %v", err)
		}
		c.Add(time.Hour)
		for range 9 {
			r.guesses.charge("192.0.2.1")
		}
		for range 2 {
			if _, err := r.Find(t.Context(), known); err != nil {
				t.Errorf("a known key: %v", err)
			}
			r.ForgetAll()
		}
		close(block)
		r.Close()
		if _, err := r.Find(t.Context(), credential("late")); !errors.Is(err, errClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What one store has confirmed the next one of the same source knows: for the time that is in
// force then, with a lookup at the next use whose answer counts. What was forgotten stays
// forgotten, and an answer to the old store is not stored.
func TestKnownKeysOutliveTheirStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testkit.NewClock(testNow)
		hold, down := make(chan bool), errors.New("refused")
		old := newTestCache(t, c, func(_ context.Context, cred Credential) (*Grant, error) {
			if cred.Key == "slow" {
				<-hold
			}
			return grantOf(cred), nil
		})
		for _, key := range []string{"a", "b", "gone"} {
			if _, err := old.Find(t.Context(), credential(key)); err != nil {
				t.Fatal(err)
			}
		}
		old.Forget(credential("gone").Digest)
		go func() { _, _ = old.Find(t.Context(), credential("slow")) }()
		synctest.Wait()

		asked, answer := 0, error(down)
		policy := testPolicy
		policy.TTL = time.Minute
		next := NewCachedStore("test", func(_ context.Context, cred Credential) (*Grant, error) {
			asked++
			return grantOf(cred), answer
		}, policy, Options{Now: c.Now, Known: old.known})
		defer next.Close()
		close(hold)
		old.Close()
		find := func(key string, want error, lookups int) {
			t.Helper()
			before := asked
			_, err := next.Find(t.Context(), credential(key))
			synctest.Wait()
			if !errors.Is(err, want) || asked-before != lookups {
				t.Errorf("%s: %v after %d lookups, want %v after %d", key, err, asked-before, want, lookups)
			}
		}
		find("a", nil, 1)
		find("a", nil, 0) // the pause
		find("gone", down, 1)
		find("slow", down, 1)
		c.Add(59 * time.Second) // the old ttl is over
		find("b", nil, 1)
		c.Add(time.Second)
		find("b", down, 1)
		answer = ErrUnknownKey
		find("a", ErrUnknownKey, 1)
	})
}

func TestCacheIsBounded(t *testing.T) {
	r := newTestCache(t, testkit.NewClock(testNow), func(_ context.Context, c Credential) (*Grant, error) {
		if c.Key[0] == 'g' {
			return grantOf(c), nil
		}
		return nil, ErrUnknownKey
	})
	if _, err := r.Find(t.Context(), credential("good")); err != nil {
		t.Fatal(err)
	}
	for i := range maxUnknown + 2000 {
		if _, err := r.Find(t.Context(), credential(fmt.Sprint("u", i))); !errors.Is(err, ErrUnknownKey) {
			t.Fatal(err)
		}
	}
	if _, ok := r.known.good.GetIfPresent(credential("good").Digest); !ok {
		t.Error("a flood of unknown keys pushed a good one out")
	}
	for i := range 1000 {
		if _, err := r.Find(t.Context(), credential(fmt.Sprint("g", i))); err != nil {
			t.Fatal(err)
		}
	}
	r.known.bad.CleanUp()
	r.known.good.CleanUp()
	if bad, good := r.known.bad.EstimatedSize(), r.known.good.EstimatedSize(); bad > maxUnknown || good > 100 {
		t.Errorf("stores %d unknown and %d good keys", bad, good)
	}
}

func TestAttemptsAreLimitedPerClient(t *testing.T) {
	c := testkit.NewClock(testNow)
	r := newTestCache(t, c, func(_ context.Context, c Credential) (*Grant, error) {
		switch c.Key[0] {
		case 'g':
			return grantOf(c), nil
		case 'd':
			return nil, errors.New("refused")
		}
		return nil, ErrUnknownKey
	})
	a := NewAuthenticator(r, Hasher{}, Options{Now: c.Now, Guesses: r.guesses})
	try := func(from Caller, key string) error {
		_, err := a.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, from)
		return err
	}
	guesser, other := caller("192.0.2.1"), caller("192.0.2.2")
	for i := range 10 { // good keys and the store's failures cost nothing
		if err := try(guesser, fmt.Sprint("good", i)); err != nil {
			t.Fatal(err)
		}
		if err := try(guesser, "down"); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := try(guesser, fmt.Sprint("unknown", i)); !errors.Is(err, ErrInvalidKey) {
			t.Fatal(err)
		}
	}
	var tooMany *TooManyAttempts
	if err := try(guesser, "unknown9"); !errors.As(err, &tooMany) || tooMany.RetryAfter != time.Second || errors.Is(err, ErrUnavailable) {
		t.Fatalf("the fourth guess: %v", err)
	}
	if err := try(guesser, "good0"); err != nil {
		t.Errorf("a stored key: %v", err)
	}
	if err := try(guesser, "unknown9"); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("the same key again: %v", err)
	}
	if err := try(guesser, "unknown0"); !errors.As(err, &tooMany) {
		t.Errorf("a stored unknown key: %v", err)
	}
	if err := errors.Join(try(other, "good20"), try(nil, "good21")); err != nil {
		t.Errorf("others: %v", err)
	}
	c.Add(2 * time.Second)
	if err := try(guesser, "unknown8"); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("two seconds later: %v", err)
	}
	if n := testutil.ToFloat64(a.results[resultLimited]); n != 2 {
		t.Errorf("counted %v", n)
	}
}

func TestNetwork(t *testing.T) {
	for client, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "2001:db8:1:2::9%eth0": "2001:db8:1:2::/64",
		"::ffff:192.0.2.1": "::ffff:192.0.2.1", "a name": "a name",
	} {
		if got := network(client); got != want {
			t.Errorf("%s is %s, want %s", client, got, want)
		}
	}
}

func TestPanicIsAnError(t *testing.T) {
	r := newTestCache(t, testkit.NewClock(testNow), func(context.Context, Credential) (*Grant, error) { panic("broken") })
	for range 2 {
		if _, err := r.Find(t.Context(), credential("k")); err == nil || errors.Is(err, ErrUnknownKey) {
			t.Errorf("a panic became %v", err)
		}
	}
}

// BenchmarkCachedStore supports the decision to store whole grants by digest:
// a key of a remote store must cost about what one of a file does.
func BenchmarkCachedStore(b *testing.B) {
	r := NewCachedStore("bench", func(_ context.Context, c Credential) (*Grant, error) { return grantOf(c), nil },
		CachePolicy{TTL: time.Hour, Timeout: time.Second, MaxKeys: 1000}, Options{})
	defer r.Close()
	a := NewAuthenticator(r, Hasher{}, Options{})
	ctx, header := context.Background(), []string{"Bearer an-opaque-key-from-another-issuer-0123456789"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.AuthenticateFrom(ctx, header, nil); err != nil {
			b.Fatal(err)
		}
	}
}
