package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/internal/testkit/memnet"
)

// authorizationServer answers in the test's virtual time. Keys that begin with good are good; guess
// answers what begins with guess.
type authorizationServer struct {
	*auth.Authenticator
	limiter *auth.InvalidKeyLimiter
	away    atomic.Bool
	guesses atomic.Int64 // that it was asked about
	under   atomic.Int64 // of them under way
	most    atomic.Int64 // at a time
}

func newAuthorizationServer(t *testing.T, guess http.HandlerFunc) *authorizationServer {
	s, conns := &authorizationServer{limiter: auth.NewInvalidKeyLimiter(nil)}, memnet.Listen()
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
	opts := auth.Options{Dial: conns.Dial, InvalidKeys: s.limiter}
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
	_, limited := errors.AsType[*auth.TooManyInvalidKeys](err)
	switch {
	case err == nil:
		return http.StatusOK
	case limited:
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

// Whatever clients send and the server makes of it, keys that the node knows are accepted at once. So are valid new
// keys of clients that send no invalid ones, unless all places for look-ups of new keys are taken. A client that sends too many
// invalid keys has to wait; failures are not counted.
func TestInvalidKeys(t *testing.T) {
	const ok, limited, unavailable = http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable
	for _, tt := range []struct {
		clients int
		answer  string
		guess   http.HandlerFunc
		other   int // what a new key of another client gets
		same    int // and one of a client that sends invalid keys
	}{
		{1, "inactive", inactive, ok, limited}, {1, "400", answering(400), ok, ok}, {1, "500", answering(500), ok, ok},
		{200, "inactive", inactive, ok, ok}, {200, "500", answering(500), ok, ok}, {200, "hangs", hanging, unavailable, unavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newAuthorizationServer(t, tt.guess)
			want := func(what string, got, want int) {
				t.Helper()
				if got != want {
					t.Errorf("%d clients, %s: %s: %d, want %d", tt.clients, tt.answer, what, got, want)
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
			for second := range 13 { // a key is cached for 10 s
				for i := range 300 {
					wg.Go(func() { s.gets(fmt.Sprintf("192.0.2.%d", 1+i%tt.clients), fmt.Sprint("guess-", second, "-", i)) })
				}
				time.Sleep(100 * time.Millisecond)
				known("good-in-use")
				want("a new key of another client", s.gets("198.51.100.2", fmt.Sprint("good-", second)), tt.other)
				want("a new key of the same client", s.gets("192.0.2.1", fmt.Sprint("good-same-", second)), tt.same)
				if second == 12 {
					known("good-past-its-time")
				}
				time.Sleep(900 * time.Millisecond)
			}
			wg.Wait()
			time.Sleep(time.Minute) // what was asked at once is paid back
			want("a new key of a client that has stopped", s.gets("192.0.2.1", "good-at-last"), ok)
			if n := s.most.Load(); n > 192 {
				t.Errorf("asked about %d invalid keys at a time", n)
			}
			if n := s.guesses.Load(); tt.same == limited && n > 192+50+13*5 {
				t.Errorf("asked about %d invalid keys of one client", n)
			}
		})
	}
}

// A thousand networks that send invalid keys all the time delay no valid new key of another network.
func TestManyNetworksOfInvalidKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthorizationServer(t, inactive)
		for i := range 1000 {
			address := fmt.Sprintf("2001:db8:0:%x::1", i)
			s.gets(address, "guess")
			for range 59 { // ten more than the burst; a look-up of each would take half a minute
				s.limiter.Count(netip.MustParseAddr(address))
			}
		}
		if got := s.gets("2001:db8:0:1::2", "good-of-them"); got != http.StatusTooManyRequests {
			t.Errorf("a network that sends invalid keys: %d", got)
		}
		begin, refused := time.Now(), 0
		for i := range 2000 {
			if s.gets(fmt.Sprintf("203.0.%d.%d", i/250, i%250), fmt.Sprint("good-", i)) != http.StatusOK {
				refused++
			}
		}
		if refused > 0 || time.Since(begin) > 0 {
			t.Errorf("%d of 2,000 valid new keys of other addresses are refused, after %v", refused, time.Since(begin))
		}
	})
}

// A client may send 50 invalid keys at once, and five a second. Valid keys, failures and keys with a wrong checksum cost
// nothing. A client is an IPv4 address or an IPv6 /64.
func TestInvalidKeyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := auth.Options{InvalidKeys: auth.NewInvalidKeyLimiter(nil), Now: fixedNow}
		a := auth.NewAuthenticator(newCached(t, opts, fewKeys), auth.Hasher{}, opts)
		tooMany := errors.New("limited for 200 ms")
		try := func(address, key string, want error) {
			t.Helper()
			_, err := a.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, caller(address))
			if limited, ok := errors.AsType[*auth.TooManyInvalidKeys](err); ok && limited.RetryAfter == 200*time.Millisecond {
				err = tooMany
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
		const v4, v6 = "192.0.2.1", "2001:db8:1:2:3::4"
		for i := range 60 {
			try(v4, fmt.Sprint("good", i), nil)
			try(v4, "away", auth.ErrUnavailable)
			try(v4, mistyped(t), auth.ErrInvalidKey)
		}
		for i := range 49 {
			try(v4, fmt.Sprint("guess", i), auth.ErrInvalidKey)
			try(v6, "guess", auth.ErrInvalidKey)
		}
		try(v4, "refresh-token", auth.ErrInvalidKey)
		try(v6, "guess", auth.ErrInvalidKey)
		try(v4, "guess", tooMany)
		try(v4, mistyped(t), auth.ErrInvalidKey)
		try(v4, "good0", nil)
		try(v4, "good60", tooMany) // not seen before
		try("::ffff:192.0.2.1", "guess", tooMany)
		try("192.0.2.2", "guess", auth.ErrInvalidKey)
		try("2001:db8:1:2::9%eth0", "guess", tooMany) // the same /64
		try("2001:db8:1:3::9", "guess", auth.ErrInvalidKey)
		time.Sleep(200 * time.Millisecond) // for one invalid key
		try(v4, "good60", nil)
		try(v4, "guess", auth.ErrInvalidKey)
		try(v4, "guess", tooMany)
	})
}
