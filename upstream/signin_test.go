package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/setting"
)

// What one request does is in testdata/talks/signin.txt; this is what many do to each other.

// signIns is a legacy system that gives the tokens s1, s2 and so on, or s1 each time.
type signIns struct {
	same          bool
	logins, lists atomic.Int64
	ended         atomic.Int64  // the tokens up to this one are refused
	takes         time.Duration // each sign-in after the first
}

func (s *signIns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		n := s.logins.Add(1)
		if n > 1 {
			time.Sleep(s.takes)
		}
		if s.same {
			n = 1
		}
		serveJSON(fmt.Sprintf(`{"token":"s%d"}`, n))(w, r)
		return
	}
	s.lists.Add(1)
	token, _ := strconv.ParseInt(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer s"), 10, 64)
	if token <= s.ended.Load() || r.URL.Query().Get("customer") == "locked" { // whatever its token
		time.Sleep(time.Millisecond) // so that requests of a moment are refused together
		status(401)(w, r)
		return
	}
	serveJSON(rows(""))(w, r)
}

// signedIn runs a test with a legacy of which one list has been fetched.
func signedIn(t *testing.T, s *signIns, keys string, test func(*testing.T, *fixture)) {
	t.Helper()
	auth := `auth: {type: session, password_file: f, login: {path: /login, body: ["{password}"]}, token: {json: token}` + keys + `}`
	virtual(t, s.ServeHTTP, auth+"\nmax_concurrent: 400\n", func(t *testing.T, f *fixture) {
		if got := buyer(t, f.Client, "acme"); got != "ok" || s.logins.Load() != 1 {
			t.Fatalf("%s after %d sign-ins", got, s.logins.Load())
		}
		time.Sleep(minTokenAge)
		test(t, f)
	})
}

// A hundred requests that are refused with the same token are one sign-in.
func TestRefusedTogetherIsOneSignIn(t *testing.T) {
	s := &signIns{takes: time.Second}
	signedIn(t, s, "", func(t *testing.T, f *fixture) {
		s.ended.Store(1)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := buyer(t, f.Client, "acme"); got != "ok" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		if s.logins.Load() != 2 || s.lists.Load() != 201 {
			t.Errorf("%d sign-ins, %d requests", s.logins.Load(), s.lists.Load())
		}
	})
}

// An account that the legacy refuses for good, whatever the token, costs the others
// nothing: neither the token, nor the sign-in that the end of the session needs.
func TestOneAccountsRefusalSignsNobodyOut(t *testing.T) {
	s := &signIns{}
	signedIn(t, s, "", func(t *testing.T, f *fixture) {
		locked := func(times int) {
			for range times {
				if got := buyer(t, f.Client, "locked"); got != "denied" {
					t.Fatalf("the locked account: %s", got)
				}
				if got := buyer(t, f.Client, "acme"); got != "ok" {
					t.Fatalf("another one: %s", got)
				}
			}
		}
		locked(40)
		if n := s.logins.Load(); n != 2 {
			t.Errorf("%d sign-ins", n)
		}
		s.ended.Store(s.logins.Load())
		time.Sleep(minTokenAge)
		locked(1)
	})
}

// What an account causes that is refused for good is bounded over any time, whether a
// sign-in gives another token or the same, and whether others ask or not.
func TestAnAccountRefusedForGood(t *testing.T) {
	for _, same := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			s := &signIns{same: same}
			signedIn(t, s, "", func(t *testing.T, f *fixture) {
				for range 600 {
					if got := buyer(t, f.Client, "locked"); got != "denied" {
						t.Fatalf("the locked account: %s", got)
					}
					if !others {
					} else if got := buyer(t, f.Client, "acme"); got != "ok" {
						t.Fatalf("another one: %s", got)
					}
					time.Sleep(time.Second)
				}
				if n := s.logins.Load(); n > 2+int64(10*time.Minute/minTokenAge) {
					t.Errorf("the same token: %t, others: %t: %d sign-ins in ten minutes", same, others, n)
				}
			})
		}
	}
}

// A login that cannot be reached, or that fails itself, is the failure of the system, which the breaker counts, also
// where the list has no more time than one attempt. One that refuses us says nothing of the system.
func TestWhoseFailureAFailingSignInIs(t *testing.T) {
	for how, tc := range map[string]struct {
		login   http.HandlerFunc
		failure Failure
	}{
		"500": {status(500), FailureSystem}, "hang": {hang, FailureSystem}, "drop": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, FailureSystem},
		"403": {status(403), FailureSignIn}, "garbage": {serveJSON("<html>"), FailureSignIn}, "switching": {switching, FailureSignIn},
	} {
		auth := `auth: {type: session, password_file: f, login: {path: /login, body: ["{password}"]}, token: {json: token}}`
		virtual(t, tc.login, auth+"\nbreaker: {min_requests: 1}", func(t *testing.T, f *fixture) {
			for _, deadline := range []time.Duration{f.cfg.Timeout / 2, f.cfg.Timeout, 2 * f.cfg.Timeout} {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				_, err := f.Fetch(ctx, acme)
				if cancel(); err == nil || asError(err).Failure() != tc.failure || (f.BreakerState("buyer", "") == "open") != (tc.failure == FailureSystem) {
					t.Errorf("%s, a deadline of %v: %v, the breaker is %s", how, deadline, err, f.BreakerState("buyer", ""))
				}
				time.Sleep(time.Minute)
			}
			if n := f.metric(t, "sign_ins_total", "error"); n != 3 {
				t.Errorf("%s: %v of 3 sign-ins have failed, as if the others went on", how, n)
			}
		})
	}
}

// While a new token is asked for because one account was refused, the others go on with
// the one that is there.
func TestOthersDoNotWaitForASignIn(t *testing.T) {
	s := &signIns{takes: time.Second}
	signedIn(t, s, "", func(t *testing.T, f *fixture) {
		var locked sync.WaitGroup
		locked.Go(func() { _ = buyer(t, f.Client, "locked") })
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		begin := time.Now()
		if got := buyer(t, f.Client, "acme"); got != "ok" || time.Since(begin) > 0 || s.logins.Load() != 2 {
			t.Errorf("%s after %v, %d sign-ins", got, time.Since(begin), s.logins.Load())
		}
		locked.Wait()
	})
}

// A legacy that refuses each token at once, and one whose tokens run out at once, get one sign-in in minTokenAge.
func TestSignInsAreBounded(t *testing.T) {
	for _, ttl := range []string{"", ", ttl: 1ms"} {
		s := &signIns{}
		signedIn(t, s, ttl, func(t *testing.T, f *fixture) {
			if ttl == "" {
				s.ended.Store(1 << 60)
			}
			for range 3 {
				before := s.logins.Load()
				for range 20 {
					_ = buyer(t, f.Client, "acme")
					time.Sleep(time.Millisecond)
				}
				if n := s.logins.Load() - before; n != 1 {
					t.Errorf("%q: %d sign-ins", ttl, n)
				}
				time.Sleep(minTokenAge)
			}
			if ttl == "" && f.metric(t, "sign_ins_total", "held") == 0 {
				t.Error("none is counted as held")
			}
		})
	}
}

// The client that takes the place of another sends the secret that the file holds then.
func TestAnotherSecretIsSentByTheNextClient(t *testing.T) {
	var sent string
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		serveJSON(rows(""))(w, r)
	}, "auth: {type: bearer, token_file: f}", func(t *testing.T, f *fixture) {
		for text, same := range map[string]bool{"f": true, "new": false} {
			cfg := f.cfg
			if !same {
				cfg.Auth.TokenFile = setting.NewFile("f", text)
			}
			next := f.next(t, cfg)
			if got := buyer(t, next, "acme"); got != "ok" || sent != "Bearer "+text || f.GoesOnIn(next) != same {
				t.Errorf("%q: %s, sent %q, the same connections: %t", text, got, sent, f.GoesOnIn(next))
			}
		}
	})
}

// What a file holds is known when the client is made.
func TestFilesOfSecrets(t *testing.T) {
	for _, tc := range []struct{ auth, key, text, says string }{
		{"{type: bearer, token_file: f}", "auth.token_file", "", "empty"},
		{"{type: bearer, token_file: f}", "auth.token_file", " \n", "empty"},
		{"{type: bearer, token_file: f}", "auth.token_file", "a\nb", "more than one line"},
		{"{type: bearer, token_file: f}", "auth.token_file", "a\x00b", "more than one line"},
		{"{type: basic, username_file: f}", "auth.username_file", "gw\nx", "more than one line"},
		{"{type: basic, username_file: f}", "auth.username_file", "\n", "empty"},
	} {
		cfg := configFrom(t, section, "auth: "+tc.auth)
		file := setting.NewFile("f", tc.text)
		if cfg.Auth.TokenFile.Set() {
			cfg.Auth.TokenFile = file
		} else {
			cfg.Auth.UsernameFile = file
		}
		if _, err := New(cfg, Options{}); !strings.Contains(wrongKeys(err)[tc.key], tc.says) {
			t.Errorf("%s %q: %v", tc.auth, tc.text, err)
		}
	}
}
