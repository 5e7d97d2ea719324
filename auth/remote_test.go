package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
)

// cached is a store over an issuer's answers, with the look-ups that it was asked for. Time is that
// of synctest's bubbles: a grant is cached for 10 s.
type cached struct {
	*auth.RemoteStore
	t testing.TB

	mu    sync.Mutex
	asked map[string]int // by key
}

func newCached(t testing.TB, opts auth.Options, answer func(ctx context.Context, key string) (*auth.Grant, error)) *cached {
	s := &cached{t: t, asked: map[string]int{}}
	s.RemoteStore = auth.NewRemoteStore("test", s.policy(10*time.Second, answer), opts)
	t.Cleanup(s.Close)
	return s
}

// policy counts look-ups.
func (s *cached) policy(ttl time.Duration, answer func(ctx context.Context, key string) (*auth.Grant, error)) auth.RemotePolicy {
	return auth.RemotePolicy{TTL: ttl, Timeout: 20 * time.Second, Lookup: func(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
		s.mu.Lock()
		s.asked[string(c.Key)]++
		s.mu.Unlock()
		g, err := answer(ctx, string(c.Key))
		if g != nil {
			g.Digest = c.Digest
		}
		return g, err
	}}
}

func everything(*auth.Grant) bool { return true }

// find asks for a key.
func (s *cached) find(key string) (*auth.Grant, error) { return s.Find(s.t.Context(), credential(key)) }

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

func (c caller) ClientIP() netip.Addr { return netip.MustParseAddr(string(c)) }
func (caller) Deadline() time.Time    { return time.Now().Add(time.Minute) }
func (caller) LogRefusal(string) bool { return true }

// Grants are cached for the TTL and never past the key's expiry, unknown keys and failures not at all. A key in
// use is looked up again when half of its TTL is over.
func TestGrantsAreCachedForTheirTTL(t *testing.T) {
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
			{0, "unknown", auth.ErrUnknownKey, 1}, {0, "unknown", auth.ErrUnknownKey, 1}, {0, "away", errAway, 1}, {0, "away", errAway, 1},
			{4*time.Second - 1, "good for 4 s", nil, 0}, {4 * time.Second, "good for 4 s", nil, 1},
			{5*time.Second - 1, "good", nil, 0}, {5 * time.Second, "good", nil, 1}, {5 * time.Second, "good", nil, 0},
			// An expired key is rejected anyway; it is cached for 2 s.
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
		at(35*time.Second, auth.ErrUnknownKey, 1)
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
		s.Invalidate(everything)
		if _, err := s.find("k"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("a panic: %v", err)
		}
		broken = false
		s.wants("after the panic", "k", nil, 1)
	})
}

// What is invalidated is looked up again, and nothing else is.
func TestInvalidateIsPrecise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCached(t, auth.Options{}, fewKeys)
		s.wants("at first", "good", nil, 1)
		s.wants("at first", "good 2", nil, 1)
		for _, step := range []struct {
			what       string
			match      func(*auth.Grant) bool
			one, other int // look-ups
		}{
			{"nothing", func(*auth.Grant) bool { return false }, 0, 0},
			{"a key", func(g *auth.Grant) bool { return g.Digest == digestOf("good") }, 1, 0},
			{"an account", func(g *auth.Grant) bool { return g.Principal.Account == "account of good 2" }, 0, 1},
			{"all", everything, 1, 1},
		} {
			s.Invalidate(step.match)
			s.wants(step.what, "good", nil, step.one)
			s.wants(step.what, "good 2", nil, step.other)
		}
	})
}

// An answer that was on its way while its key was revoked is not cached, whether it comes before
// or after the answer to a later look-up.
func TestInvalidateBeatsAnAnswerInFlight(t *testing.T) {
	for _, first := range []time.Duration{time.Second, 3 * time.Second} { // the second look-up takes 2 s
		synctest.Test(t, func(t *testing.T) {
			revoked, takes := false, first
			s := newCached(t, auth.Options{}, func(context.Context, string) (*auth.Grant, error) {
				g := &auth.Grant{Revoked: revoked}
				time.Sleep(takes)
				return g, nil
			})
			go func() { _, _ = s.find("k") }()
			synctest.Wait()
			revoked, takes = true, 2*time.Second
			s.Invalidate(everything)
			for range 2 {
				if g, err := s.find("k"); err != nil || !g.Revoked {
					t.Errorf("the first answer after %v: not revoked, %v", first, err)
				}
				time.Sleep(2 * time.Second)
			}
		})
	}
}

// Look-ups in flight are bounded. A quarter of the places is for keys that this node knows.
func TestKnownKeysHavePlacesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := newCached(t, auth.Options{Registerer: reg}, func(ctx context.Context, key string) (*auth.Grant, error) {
			if strings.HasPrefix(key, "slow") {
				<-ctx.Done() // for 20 s
			}
			return fewKeys(ctx, key)
		})
		s.wants("at first", "good", nil, 1)
		time.Sleep(time.Minute) // its TTL is over
		for i := range 256 {
			go func() { _, _ = s.find(fmt.Sprint("slow", i)) }()
		}
		synctest.Wait()
		if n := s.lookups(); n != 1+192 {
			t.Errorf("%d look-ups", n)
		}
		if n := counted(t, reg, "inquiry_gateway_auth_lookups_total"); n["busytest"] != 64 {
			t.Errorf("counted %v", n)
		}
		s.wants("a known key", "good", nil, 1)
		begin := time.Now()
		if s.Close(); time.Since(begin) > 0 {
			t.Errorf("a stop waits %v for look-ups that nobody needs", time.Since(begin))
		}
		if _, err := s.find("late"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A reload keeps the known keys, and looks each up at its next use. Another TTL holds for them, too. What was
// invalidated stays so.
func TestSetPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCached(t, auth.Options{}, fewKeys)
		s.wants("at first", "good", nil, 1)
		s.wants("at first", "good, invalidated", nil, 1)
		s.Invalidate(func(g *auth.Grant) bool { return g.Digest == digestOf("good, invalidated") })
		answer := errAway
		s.SetPolicy(s.policy(4*time.Second, func(context.Context, string) (*auth.Grant, error) { return nil, answer }))
		s.wants("a known key", "good", nil, 1)
		s.wants("in the pause", "good", nil, 0)
		s.wants("another one", "good, invalidated", errAway, 1)
		time.Sleep(4*time.Second - 1)
		s.wants("within the new TTL", "good", nil, 1)
		time.Sleep(time.Nanosecond)
		s.wants("past it", "good", errAway, 1)
		answer = auth.ErrUnknownKey
		s.wants("it is gone", "good", auth.ErrUnknownKey, 1)
	})
}

// A store that answers nothing at all ends no program.
func TestNoGrantAndNoError(t *testing.T) {
	s := newCached(t, auth.Options{}, func(context.Context, string) (*auth.Grant, error) { return nil, nil })
	if g, err := s.find("k"); g != nil || err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("%v, %v", g, err)
	}
}
