package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/testkit/memnet"
)

// authorizationServer answers in the test's virtual time. Keys that begin with good are good; guess
// answers what begins with guess.
type authorizationServer struct {
	*auth.Authenticator
	away    atomic.Bool
	guesses atomic.Int64 // that it was asked about
	under   atomic.Int64 // of them under way
	most    atomic.Int64 // at a time
}

func newAuthorizationServer(t *testing.T, guess http.HandlerFunc) *authorizationServer {
	s, conns := &authorizationServer{}, memnet.Listen()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch key := r.PostFormValue("token"); {
		case s.away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(key, "good"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"active":true,"sub":"acme","kind":"buyer"}`)
		default:
			s.guesses.Add(1)
			s.most.Store(max(s.most.Load(), s.under.Add(1)))
			defer s.under.Add(-1)
			guess(w, r)
		}
	})}
	go func() { _ = server.Serve(conns) }()
	cfg := introspect.DefaultConfig()
	cfg.URL = "http://127.0.0.1/introspect"
	opts := auth.Options{Dial: conns.Dial, Guesses: auth.NewGuesses(rate.Plan{PerSecond: 5, Burst: 50}, nil)}
	store := introspect.New(cfg, 10*time.Second, opts)
	s.Authenticator = auth.NewAuthenticator(store, auth.Hasher{}, opts)
	t.Cleanup(func() {
		store.Close()
		_ = server.Close()
	})
	return s
}

// gets is the status that a key of an address gets.
func (s *authorizationServer) gets(address, key string) int {
	_, err := s.AuthenticateFrom(context.Background(), []string{"Bearer " + key}, caller(address))
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, auth.ErrTooManyGuesses):
		return http.StatusTooManyRequests
	case errors.Is(err, auth.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

func inactive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"active":false}`)
}

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func hanging(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Whoever guesses, and whatever the authorization server makes of the guesses: a key that the node
// knows is good, and so is a new one of another address as long as one address alone guesses. A new
// key of the address that guesses is good when it has stopped.
func TestWhoeverGuesses(t *testing.T) {
	type statuses []int
	ok, limited, unavailable, either := statuses{200}, statuses{429}, statuses{503}, statuses{200, 503}
	for _, tt := range []struct {
		who, answer   string
		guess         http.HandlerFunc
		other         statuses // of a new key of an address that does not guess
		same          statuses // of one of an address that guesses
		asksAtATime   int64    // about guesses
		asksInSeconds int64    // about guesses, in all; 0: not bounded
	}{
		{"one address", "inactive", inactive, ok, limited, 50, 50 + 6*13},
		{"one address", "400", answering(400), ok, unavailable, 50, 50 + 6*13},
		{"one address", "500", answering(500), ok, unavailable, 50, 50 + 6*13},
		{"one address", "hangs", hanging, ok, either, 50, 50 + 6*13},
		{"many addresses", "inactive", inactive, ok, ok, 192, 0},
		{"many addresses", "400", answering(400), ok, ok, 192, 0},
		{"many addresses", "500", answering(500), ok, ok, 192, 0},
		{"many addresses", "hangs", hanging, unavailable, unavailable, 192, 0}, // all places of new keys are taken
	} {
		t.Run(tt.who+" "+tt.answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAuthorizationServer(t, tt.guess)
				guesser := func(i int) string {
					if tt.who == "one address" {
						return "192.0.2.1"
					}
					return fmt.Sprintf("192.0.%d.%d", 2+i/200%3, 1+i%200)
				}
				want := func(what string, got int, want statuses) {
					t.Helper()
					if !slices.Contains(want, got) {
						t.Errorf("%s: %d, want %v", what, got, want)
					}
				}
				known := func(key string) {
					t.Helper()
					begin := time.Now()
					want(key, s.gets("198.51.100.1", key), ok)
					if waited := time.Since(begin); waited > 0 {
						t.Errorf("%s waits for %v", key, waited)
					}
				}
				known("good-in-use")
				known("good-past-its-time")
				var wg sync.WaitGroup
				for second := range 13 { // a key counts for 10 s
					for i := range 300 {
						wg.Go(func() { s.gets(guesser(i), fmt.Sprint("guess-", second, "-", i)) })
					}
					time.Sleep(100 * time.Millisecond)
					known("good-in-use")
					want("a new key of another address", s.gets("198.51.100.2", fmt.Sprint("good-", second)), tt.other)
					want("a new key of the same address", s.gets("192.0.2.1", fmt.Sprint("good-same-", second)), tt.same)
					if second == 12 {
						known("good-past-its-time")
					}
					time.Sleep(900 * time.Millisecond)
				}
				wg.Wait()
				want("a new key of an address that has stopped", s.gets("192.0.2.1", "good-at-last"), ok)
				if n := s.most.Load(); n > tt.asksAtATime {
					t.Errorf("asked about %d guesses at a time, want %d at most", n, tt.asksAtATime)
				}
				if n := s.guesses.Load(); tt.asksInSeconds > 0 && n > tt.asksInSeconds {
					t.Errorf("asked about %d guesses, want %d at most", n, tt.asksInSeconds)
				}
			})
		})
	}
}

// A good key that the node does not know gets 503 while its store is away, and is good as soon as
// the store is back, whatever its address has sent before. Where that has not guessed, so are then many at once.
func TestANewKeyWhileItsStoreIsAway(t *testing.T) {
	for _, guesses := range []int{0, 49, 50, 300} {
		for _, more := range []int{0, 50} { // of them after the store went away
			synctest.Test(t, func(t *testing.T) {
				s := newAuthorizationServer(t, inactive)
				s.gets("198.51.100.1", "good-known")
				time.Sleep(6 * time.Second) // so that it is due
				for i := range guesses + more {
					s.away.Store(i >= guesses)
					s.gets("192.0.2.1", fmt.Sprint("guess", i))
				}
				s.away.Store(true)
				s.gets("198.51.100.1", "good-known")
				synctest.Wait()
				for i := range 300 {
					if got := s.gets("192.0.2.1", fmt.Sprint("good", i%3)); got != http.StatusServiceUnavailable {
						t.Fatalf("after %d guesses and %d more, request %d while the store is away: %d", guesses, more, i, got)
					}
					time.Sleep(20 * time.Millisecond)
				}
				s.away.Store(false)
				time.Sleep(time.Second)
				gets := func(i int) {
					if got := s.gets("192.0.2.1", fmt.Sprint("good", i)); got != http.StatusOK {
						t.Errorf("after %d guesses and %d more, key %d with the store back: %d", guesses, more, i, got)
					}
				}
				for i := range 100 {
					gets(i)
				}
				for i := 100; i < 150 && guesses+more == 0; i++ {
					go gets(i)
				}
				synctest.Wait()
			})
		}
	}
}

// So many callers of one address with good keys may come at once to a node that knows none of
// them: good keys cost nothing.
func TestManyNewKeysOfOneAddressAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := auth.Options{Guesses: auth.NewGuesses(rate.Plan{PerSecond: 0.001, Burst: 3}, nil)}
		var under, most atomic.Int64
		s := newCached(t, opts, func(ctx context.Context, key string) (*auth.Grant, error) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(time.Millisecond)
			under.Add(-1)
			return fewKeys(ctx, key)
		})
		a := auth.NewAuthenticator(s, auth.Hasher{}, opts)
		for i := range 200 {
			go func() {
				if err := s.authenticate(a, fmt.Sprint("good", i), "192.0.2.1"); err != nil {
					t.Errorf("key %d: %v", i, err)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.lookups(); n != 200 || most.Load() != 3 {
			t.Errorf("%d look-ups, %d at a time", n, most.Load())
		}
	})
}
