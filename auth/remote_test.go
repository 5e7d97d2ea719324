package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
)

// cached is a store over an issuer's answers, with the look-ups that it was asked for. Time is that
// of synctest's bubbles: a grant counts for 10 s, an unknown key for 2 s.
type cached struct {
	*auth.RemoteStore
	t testing.TB

	mu    sync.Mutex
	asked map[string]int // by key
}

func newCached(t testing.TB, opts auth.Options, answer func(ctx context.Context, key string) (*auth.Grant, error)) *cached {
	s := &cached{t: t, asked: map[string]int{}}
	policy := auth.RemotePolicy{TTL: 10 * time.Second, Timeout: 20 * time.Second, MaxKeys: 100}
	s.RemoteStore = auth.NewRemoteStore("test", func(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
		s.mu.Lock()
		s.asked[string(c.Key)]++
		s.mu.Unlock()
		g, err := answer(ctx, string(c.Key))
		if g != nil {
			g.Digest = c.Digest
		}
		return g, err
	}, policy, opts)
	t.Cleanup(s.Close)
	return s
}

// find asks for a key.
func (s *cached) find(key string) (*auth.Grant, error) { return s.Find(s.t.Context(), credential(key)) }

// authenticate asks for a key that an address sends.
func (s *cached) authenticate(a *auth.Authenticator, key, address string) error {
	_, err := a.AuthenticateFrom(s.t.Context(), []string{"Bearer " + key}, caller(address))
	return err
}

// lookups is how often the issuer was asked.
func (s *cached) lookups() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.asked {
		n += one
	}
	return n
}

// wants asks for a key and compares the outcome and the lookups, one in the background included.
func (s *cached) wants(what, key string, want error, lookups int) {
	s.t.Helper()
	before := s.lookups()
	_, err := s.find(key)
	synctest.Wait()
	if n := s.lookups() - before; !errors.Is(err, want) || n != lookups {
		s.t.Errorf("%s: %s: %v after %d lookups, want %v after %d", what, key, err, n, want, lookups)
	}
}

// caller is a Caller with an address.
type caller string

func (c caller) ClientIP() string     { return string(c) }
func (caller) Deadline() time.Time    { return time.Now().Add(time.Minute) }
func (caller) LogRefusal(string) bool { return true }

// Good answers count for the ttl and never past the key's end, unknown keys for theirs, failures
// for none. A key in use is looked up again when half of its time is over.
func TestStoredAnswersHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := newCached(t, auth.Options{}, func(ctx context.Context, key string) (*auth.Grant, error) {
			g, err := fewKeys(ctx, key)
			if key == "good for 4 s" {
				g.ExpiresAt = begin.Add(4 * time.Second)
			}
			return g, err
		})
		for _, step := range []struct {
			at      time.Duration
			key     string
			want    error
			lookups int
		}{
			{0, "good", nil, 1}, {0, "good", nil, 0}, {0, "good, unused", nil, 1}, {0, "good for 4 s", nil, 1},
			{0, "unknown", auth.ErrUnknownKey, 1}, {0, "unknown", auth.ErrUnknownKey, 0}, {0, "away", errAway, 1}, {0, "away", errAway, 1},
			{2*time.Second - 1, "unknown", auth.ErrUnknownKey, 0}, {2 * time.Second, "unknown", auth.ErrUnknownKey, 1},
			{4*time.Second - 1, "good for 4 s", nil, 0}, {4 * time.Second, "good for 4 s", nil, 1},
			{5*time.Second - 1, "good", nil, 0}, {5 * time.Second, "good", nil, 1}, {5 * time.Second, "good", nil, 0},
			// An ended key is refused by who judges it, and is looked up as rarely as an unknown one.
			{6*time.Second - 1, "good for 4 s", nil, 0}, {6 * time.Second, "good for 4 s", nil, 1},
			{10*time.Second - 1, "good", nil, 0}, {10 * time.Second, "good", nil, 1}, {10 * time.Second, "good, unused", nil, 1},
			{20 * time.Second, "good", nil, 1}, {20 * time.Second, "good", nil, 0},
		} {
			time.Sleep(time.Until(begin.Add(step.at)))
			s.wants(step.at.String(), step.key, step.want, step.lookups)
		}
	})
}

// An issuer who cannot be asked takes nothing away from a key in use within its time. He is asked
// again after a pause, by one lookup at a time, and what he answers counts at once.
func TestKeysInUseOutlastAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var answer error
		takes := time.Duration(0)
		s := newCached(t, auth.Options{}, func(context.Context, string) (*auth.Grant, error) {
			err := answer
			time.Sleep(takes)
			return &auth.Grant{}, err
		})
		at := func(d time.Duration, want error, lookups int) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(d)))
			s.wants(d.String(), "k", want, lookups)
		}
		at(0, nil, 1)
		answer = errAway
		at(5*time.Second, nil, 1)
		at(6*time.Second-1, nil, 0) // the pause
		takes = 2 * time.Second
		at(6*time.Second, nil, 1)
		at(7500*time.Millisecond, nil, 0) // a lookup is under way
		takes = 0
		at(10*time.Second, errAway, 1) // never longer than its time
		answer, takes = nil, 2*time.Second
		at(11*time.Second, nil, 1) // the answer comes at 13 s
		answer, takes = errAway, 0
		at(21*time.Second-1, nil, 1)
		at(21*time.Second, errAway, 1) // its time began with the lookup, not with the answer
		answer = nil
		at(30*time.Second, nil, 1)
		answer = auth.ErrUnknownKey
		at(35*time.Second, nil, 1) // who asks does not wait
		at(35*time.Second, auth.ErrUnknownKey, 0)
	})
}

// One lookup serves all who ask at the same time. Who leaves does not take the answer from the
// others, and a panic is an error of that lookup alone.
func TestCallersShareALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		s := newCached(t, auth.Options{}, func(ctx context.Context, key string) (*auth.Grant, error) {
			time.Sleep(time.Second)
			if broken {
				panic("broken")
			}
			return &auth.Grant{}, ctx.Err()
		})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := s.Find(ctx, credential("k")); !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		}()
		synctest.Wait()
		leave()
		for range 100 {
			go func() {
				if _, err := s.find("k"); err != nil {
					t.Errorf("who stays: %v", err)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.lookups(); n != 1 {
			t.Errorf("101 callers asked %d times", n)
		}
		s.wants("later", "k", nil, 0)
		broken = true
		s.ForgetAll()
		if _, err := s.find("k"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("a panic: %v", err)
		}
		broken = false
		s.wants("after the panic", "k", nil, 1)
	})
}

// What is forgotten is looked up again, and nothing else is.
func TestForgetIsPrecise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCached(t, auth.Options{}, fewKeys)
		for _, step := range []struct {
			what             string
			forget           func()
			good, lent, none int // lookups
		}{
			{"nothing", func() {}, 1, 1, 1},
			{"a key", func() { s.Forget(digestOf("good")) }, 1, 0, 0},
			{"an account", func() { s.ForgetAccount("account of good 2") }, 0, 1, 0},
			{"an unknown key", func() { s.Forget(digestOf("unknown")) }, 0, 0, 1},
			{"all", s.ForgetAll, 1, 1, 1},
		} {
			step.forget()
			s.wants(step.what, "good", nil, step.good)
			s.wants(step.what, "good 2", nil, step.lent)
			s.wants(step.what, "unknown", auth.ErrUnknownKey, step.none)
		}
	})
}

// An answer that was on its way while its key was revoked is not stored, whether it comes before
// or after the answer to a later lookup.
func TestForgetBeatsAnAnswerUnderWay(t *testing.T) {
	for name, forget := range map[string]func(*cached){
		"key":     func(s *cached) { s.Forget(digestOf("k")) },
		"account": func(s *cached) { s.ForgetAccount("acme") },
		"all":     func(s *cached) { s.ForgetAll() },
	} {
		for _, first := range []time.Duration{time.Second, 3 * time.Second} { // the second lookup takes 2 s
			synctest.Test(t, func(t *testing.T) {
				revoked, takes := false, first
				s := newCached(t, auth.Options{}, func(context.Context, string) (*auth.Grant, error) {
					g := &auth.Grant{Revoked: revoked, Principal: auth.Principal{Account: "acme"}}
					time.Sleep(takes)
					return g, nil
				})
				go func() { _, _ = s.find("k") }()
				synctest.Wait()
				revoked, takes = true, 2*time.Second
				forget(s)
				for range 2 {
					if g, err := s.find("k"); err != nil || !g.Revoked {
						t.Errorf("%s, the first answer after %v: good, %v", name, first, err)
					}
					time.Sleep(2 * time.Second)
				}
			})
		}
	}
}

// Lookups at once are bounded. A quarter of the places is for keys that this node knows,
// and they are not held up by the guesses of others on the same address.
func TestKnownKeysHavePlacesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		opts := auth.Options{Registerer: reg, Guesses: auth.NewGuesses(rate.Plan{PerSecond: 0.001, Burst: 3}, nil)}
		s := newCached(t, opts, func(ctx context.Context, key string) (*auth.Grant, error) {
			if strings.HasPrefix(key, "slow") {
				<-ctx.Done() // for 20 s
			}
			return fewKeys(ctx, key)
		})
		a := auth.NewAuthenticator(s, auth.Hasher{}, opts)
		for _, key := range []string{"good", "unknown1", "unknown2", "unknown3", "unknown4"} {
			_ = s.authenticate(a, key, "192.0.2.1") // the address has guessed too often
		}
		time.Sleep(time.Minute) // the time of the known key is over
		for i := range 256 {
			go func() { _, _ = s.find(fmt.Sprint("slow", i)) }()
		}
		synctest.Wait()
		if n := s.lookups(); n != 1+3+192 {
			t.Errorf("%d lookups run", n)
		}
		if n := counted(t, reg, "inquiry_gateway_auth_lookups_total"); n["busytest"] != 64 {
			t.Errorf("counted %v", n)
		}
		if err := s.authenticate(a, "good", "192.0.2.1"); err != nil {
			t.Errorf("a known key: %v", err)
		}
		begin := time.Now()
		if s.Close(); time.Since(begin) > 0 {
			t.Errorf("a stop waits %v for look-ups that nobody needs", time.Since(begin))
		}
		if _, err := s.find("late"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What one store has confirmed the next one of the same source knows, and looks up at the next
// use. What was forgotten stays forgotten.
func TestKnownKeysOutliveTheirStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := auth.Options{Memory: auth.NewMemory()}
		old := newCached(t, opts, fewKeys)
		old.wants("at first", "good", nil, 1)
		old.wants("at first", "good, forgotten", nil, 1)
		old.Forget(digestOf("good, forgotten"))

		answer := errAway
		next := newCached(t, opts, func(context.Context, string) (*auth.Grant, error) { return nil, answer })
		next.wants("a known key", "good", nil, 1)
		next.wants("in the pause", "good", nil, 0)
		next.wants("another one", "good, forgotten", errAway, 1)
		answer = auth.ErrUnknownKey
		time.Sleep(10 * time.Second)
		next.wants("past its time", "good", auth.ErrUnknownKey, 1)
	})
}

// A flood of unknown keys pushes out none but itself, and neither sort fills the memory.
func TestStoredAnswersAreBounded(t *testing.T) {
	s := newCached(t, auth.Options{}, fewKeys)
	twice := func(sort string, n int) int {
		for i := range 2 * n {
			_, _ = s.find(fmt.Sprint(sort, i%n)) // only lookups count here
		}
		return s.lookups()
	}
	twice("good", 1)
	if n := twice("unknown", 12_000); n < 13_000 || s.asked["good0"] != 1 {
		t.Errorf("%d lookups of 12,000 unknown keys twice, %d of the good one", n, s.asked["good0"])
	}
	clear(s.asked)
	if n := twice("good", 1000); n < 1500 {
		t.Errorf("%d lookups of 1,000 good keys twice, 100 are stored", n)
	}
}

// Only keys that do not exist count as guesses, by client. A key that this node does not know is
// let in as soon as its client might guess again.
func TestGuessesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := auth.Options{Guesses: auth.NewGuesses(rate.Plan{PerSecond: 1, Burst: 3}, nil), Now: fixedNow}
		a := auth.NewAuthenticator(newCached(t, opts, fewKeys), auth.Hasher{}, opts)
		try := func(address, key string, want error) {
			t.Helper()
			_, err := a.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, caller(address))
			limited, ok := errors.AsType[*auth.TooManyGuesses](err)
			if !errors.Is(err, want) || ok && limited.RetryAfter != time.Second {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
		const v4, v6 = "192.0.2.1", "2001:db8:1:2:3::4"
		for i := range 10 { // good keys cost nothing; a store that is away is no reason to speak of guesses
			try(v4, fmt.Sprint("good", i), nil)
			try("192.0.2.3", "away", auth.ErrUnavailable)
		}
		for i := range 3 {
			try(v4, fmt.Sprint("guess", i), auth.ErrInvalidKey)
			try(v6, fmt.Sprint("guess", 10+i), auth.ErrInvalidKey)
		}
		try(v4, "guess9", auth.ErrTooManyGuesses)
		try(v4, "guess0", auth.ErrTooManyGuesses) // its answer is stored
		try(v4, mistyped(t), auth.ErrTooManyGuesses)
		try(v4, "good0", nil)
		try(v4, "good10", auth.ErrTooManyGuesses) // not seen before
		try("192.0.2.2", "guess8", auth.ErrInvalidKey)
		try("2001:db8:1:2::9%eth0", "guess7", auth.ErrTooManyGuesses) // the same /64
		try("2001:db8:1:3::9", "guess6", auth.ErrInvalidKey)
		time.Sleep(time.Second) // for one guess
		try(v4, "good10", nil)
		try(v4, "guess5", auth.ErrInvalidKey)
		try(v4, "guess4", auth.ErrTooManyGuesses)
	})
}
