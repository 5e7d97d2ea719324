package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// The states a key store can be in.
const (
	storeUp      = "up"
	storeDown    = "down"
	storeSlow    = "slow"
	storeGarbage = "garbage"
)

// testStore is a store with the means to change what it holds. Changes are in
// force when put and revoke return, but for what is stored on the node.
type testStore struct {
	auth.Store
	clock  *testkit.Clock
	reg    *prometheus.Registry
	put    func(key string, k auth.KeyRecord, a auth.Account)
	revoke func(id string) // effective once it is no longer stored on the node
	state  func(string)    // nil: the store asks nobody and knows no states
	forget func()          // drops what is stored on the node
}

// remote tells whether answers come from elsewhere and are stored on the node.
func (s *testStore) remote() bool { return s.state != nil }

// newTestStore makes what every store has.
func newTestStore() (*testStore, auth.Options) {
	s := &testStore{clock: testkit.NewClock(testNow), reg: prometheus.NewRegistry(), forget: func() {}}
	return s, auth.Options{Now: s.clock.Now, Registerer: s.reg}
}

// asked counts the lookups so far.
func (s *testStore) asked(t *testing.T) (n float64) {
	t.Helper()
	values, err := testkit.Values(s.reg, "inquiry_gateway_auth_lookups_total")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		n += v
	}
	return n
}

// everyStore runs a test over all stores.
func everyStore(t *testing.T, test func(t *testing.T, s *testStore)) {
	for name, make := range map[string]func(*testing.T) *testStore{
		"file": newTestFile, "redis": newTestRedis, "introspection": newTestIntrospection,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func newTestFile(t *testing.T) *testStore {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("accounts: []\nkeys: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, opts := newTestStore()
	store, err := keysfile.New(path, auth.Hasher{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	file := keysfile.NewEditor(path, auth.Hasher{})
	then := func(err error) {
		t.Helper()
		if err := errors.Join(err, store.Reload()); err != nil {
			t.Fatal(err)
		}
	}
	s.Store = store
	s.put = func(_ string, k auth.KeyRecord, a auth.Account) { then(file.Add(t.Context(), k, &a)) }
	s.revoke = func(id string) { then(file.Revoke(t.Context(), id)) }
	return s
}

func newTestRedis(t *testing.T) *testStore {
	server := redistest.Start(t)
	client := server.Client()
	s, opts := newTestStore()
	cfg := auth.DefaultRedisConfig()
	cfg.Poll = 20 * time.Millisecond
	store := keysredis.New(client, "iq", auth.Hasher{}, cfg, auth.Config{Redis: &cfg}.CachePolicy(), opts)
	t.Cleanup(store.Close)
	editor := keysredis.NewEditor(client, "iq", auth.Hasher{})
	// A change is in force when the node has heard of it and nothing else is
	// on its way.
	then := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		version, err := client.Get(t.Context(), "iq:{auth}:version").Float64()
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node hears of it", func() bool {
			values, err := testkit.Values(s.reg, "inquiry_gateway_auth_store_version")
			return err == nil && values[""] == version
		})
	}
	then(editor.SetAccount(t.Context(), auth.AccountChange{ID: "somebody", Create: true}))
	paused := false
	s.Store, s.forget = store, store.ForgetAll
	s.put = func(_ string, k auth.KeyRecord, a auth.Account) { then(editor.Add(t.Context(), k, &a)) }
	s.revoke = func(id string) { then(editor.Revoke(t.Context(), id)) }
	s.state = func(state string) {
		if paused {
			server.Resume()
			paused = false
		}
		switch state {
		case storeDown:
			server.Kill()
		case storeSlow:
			server.Pause()
			paused = true
		case storeGarbage:
			for _, key := range []string{"fresh", "known", "nobody"} {
				then(client.HSet(t.Context(), "iq:{auth}:sha256", auth.Hasher{}.Hash(key).Hex(), "garbage").Err())
			}
		}
	}
	return s
}

// idp is an authorization server with an introspection endpoint.
type idp struct {
	mu    sync.Mutex
	keys  map[string]map[string]any
	state string
	stall chan struct{} // closed at the end
}

func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token")
	p.mu.Lock()
	claims, state := p.keys[token], p.state
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	switch {
	case state == storeSlow:
		select {
		case <-p.stall:
		case <-r.Context().Done():
		}
	case state == storeDown:
		w.WriteHeader(http.StatusServiceUnavailable)
	case state == storeGarbage:
		fmt.Fprint(w, `{"active": "yes"}`)
	case claims == nil:
		fmt.Fprint(w, `{"active": false}`)
	default:
		_ = json.NewEncoder(w).Encode(claims) // a client that left is not the test's business
	}
}

func (p *idp) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func newTestIntrospection(t *testing.T) *testStore {
	p := &idp{keys: make(map[string]map[string]any), stall: make(chan struct{})}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(p.stall) })
	s, opts := newTestStore()
	cfg := auth.DefaultIntrospectionConfig()
	cfg.URL, cfg.Timeout = server.URL, 300*time.Millisecond
	store := introspect.New(cfg, auth.Config{Introspection: &cfg}.CachePolicy(), opts)
	t.Cleanup(store.Close)
	s.Store, s.forget = store, store.ForgetAll
	s.state = func(state string) { p.set(func() { p.state = state }) }
	s.put = func(key string, k auth.KeyRecord, a auth.Account) {
		claims := map[string]any{
			"active": true, "sub": k.Account, "kind": k.Kind, "jti": k.ID,
			"scope": string(auth.JoinScopes(k.Scopes)), "api_access": a.APIAccess, "plan": a.Plan,
		}
		if !k.ExpiresAt.IsZero() {
			claims["exp"] = k.ExpiresAt.Unix()
		}
		p.set(func() { p.keys[key] = claims })
	}
	s.revoke = func(id string) {
		p.set(func() {
			maps.DeleteFunc(p.keys, func(_ string, claims map[string]any) bool { return claims["jti"] == id })
		})
	}
	return s
}

func record(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead}}
}

func (s *testStore) find(ctx context.Context, key string) (*auth.Grant, error) {
	return s.Find(ctx, auth.Credential{Digest: auth.Hasher{}.Hash(key), Key: auth.Secret(key)})
}

func (s *testStore) authenticator(t *testing.T) *auth.Authenticator {
	t.Helper()
	a := auth.NewAuthenticator(s, auth.Hasher{}, auth.Options{Now: s.clock.Now})
	return a
}

// eventually waits for something that happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

var paying = auth.Account{ID: "acme", APIAccess: auth.AccessPaid, Plan: "pro"}

func TestStoresGrant(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		k := record("known")
		k.ExpiresAt = testNow.Add(time.Hour)
		k.Scopes = append(k.Scopes, "openid") // another service's: it is kept, and gives nothing
		s.put("known", k, paying)
		s.put("plain", auth.KeyRecord{ID: "plain", Digest: auth.Hasher{}.Hash("plain"), Kind: auth.KindBuyer, Account: "poor"}, auth.Account{APIAccess: auth.AccessNone})
		g, err := s.find(t.Context(), "known")
		if err != nil {
			t.Fatal(err)
		}
		want := auth.Principal{Kind: auth.KindSeller, Account: "acme", KeyID: "known", Scopes: auth.ScopeInquiriesRead + " openid", PaidAccess: true, Plan: "pro"}
		if g.Principal != want || g.Revoked || !g.ExpiresAt.Equal(k.ExpiresAt) || g.Digest != k.Digest {
			t.Errorf("grant %+v", g)
		}
		g, err = s.find(t.Context(), "plain")
		if err != nil || g.Principal != (auth.Principal{Kind: auth.KindBuyer, Account: "poor", KeyID: "plain"}) || !g.ExpiresAt.IsZero() {
			t.Errorf("grant %+v, %v", g, err)
		}
		if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("an unknown key: %v", err)
		}
	})
}

func TestStoresRevoke(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		s.put("known", record("known"), paying)
		a := s.authenticator(t)
		if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); err != nil {
			t.Fatal(err)
		}
		s.revoke("known")
		s.clock.Add(10 * time.Second) // introspection is told of nothing and has to ask again
		if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); !errors.Is(err, auth.ErrInvalidKey) {
			t.Errorf("a revoked key: %v", err)
		}
		s.forget()
		if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); !errors.Is(err, auth.ErrInvalidKey) {
			t.Errorf("the key came back: %v", err)
		}
	})
}

// What is recalled is what Authenticate would give, of good keys that the process
// knows, and nothing is asked, counted or logged.
func TestStoresRecall(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		k := record("known")
		k.ExpiresAt = testNow.Add(time.Hour)
		s.put("known", k, paying)
		reg := prometheus.NewRegistry()
		a := auth.NewAuthenticator(s.Store, auth.Hasher{}, auth.Options{Now: s.clock.Now, Registerer: reg})
		asked, header := s.asked, []string{"Bearer known"}
		before := asked(t)
		if _, ok := a.Recall(header); ok == s.remote() {
			t.Errorf("recalled %t before anybody asked", ok)
		}
		want, err := a.AuthenticateFrom(t.Context(), header, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, ok := a.Recall(header)
		if !ok || g.Principal != want.Principal {
			t.Errorf("recalled %t %+v", ok, g)
		}
		for _, other := range [][]string{nil, {""}, {"Bearer nobody"}, {"Basic known"}, {"Bearer known", "Bearer known"}} {
			if _, ok := a.Recall(other); ok {
				t.Errorf("recalled %q", other)
			}
		}
		counted := func() float64 {
			values, err := testkit.Values(reg, "inquiry_gateway_auth_requests_total")
			if err != nil {
				t.Fatal(err)
			}
			return values["ok"]
		}
		if s.remote() && asked(t) != before+1 {
			t.Errorf("the store was asked %v times", asked(t)-before)
		}
		if n := counted(); n != 1 {
			t.Errorf("counted %v", n)
		}
		if a.Accept(t.Context(), g); g.Principal != want.Principal || counted() != 2 {
			t.Errorf("counted %v after the use", counted())
		}
		s.revoke("known")
		s.clock.Add(10 * time.Second) // introspection is told of nothing and has to ask again
		if _, ok := a.Recall(header); ok {
			t.Error("a revoked key is recalled")
		}
	})
}

func TestStoresExpire(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		k := record("known")
		k.ExpiresAt = testNow.Add(3 * time.Second)
		s.put("known", k, paying)
		a := s.authenticator(t)
		if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); err != nil {
			t.Fatal(err)
		}
		s.clock.Add(3 * time.Second) // well within every ttl
		var denial *auth.Denial
		if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); !errors.As(err, &denial) || denial.Reason != auth.ReasonExpired {
			t.Errorf("past its expiry: %v", err)
		}
	})
}

// A store in trouble: known keys are good within their time, everything else
// is auth.ErrUnavailable, never a refusal and never let in.
func TestStoresInTrouble(t *testing.T) {
	for state, rounds := range map[string]int{storeDown: 3, storeSlow: 1, storeGarbage: 3} {
		t.Run(state, func(t *testing.T) {
			everyStore(t, func(t *testing.T, s *testStore) {
				if !s.remote() {
					return // a file is read before it counts: TestFileStore breaks it
				}
				s.put("known", record("known"), paying)
				s.put("fresh", record("fresh"), paying)
				a := s.authenticator(t)
				if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); err != nil {
					t.Fatal(err)
				}
				s.state(state)
				for range rounds {
					if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); err != nil {
						t.Errorf("a known key: %v", err)
					}
					var wg sync.WaitGroup
					for _, key := range []string{"fresh", "nobody"} {
						wg.Go(func() {
							g, err := a.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, nil)
							if !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrInvalidKey) || g != nil {
								t.Errorf("%s: %+v, %v", key, g, err)
							}
						})
					}
					wg.Wait()
				}
				s.clock.Add(30 * time.Second)
				if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer known"}, nil); !errors.Is(err, auth.ErrUnavailable) {
					t.Errorf("past its time: %v", err)
				}
			})
		})
	}
}

// Callers at the same time share a lookup, and its answer has a time.
func TestStoresAskOnce(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		if !s.remote() {
			return // the file's keys are in memory as a whole
		}
		s.put("known", record("known"), paying)
		before := s.asked(t)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, auth.ErrUnknownKey) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.asked(t) - before; n != 1 {
			t.Errorf("100 callers asked %v times", n)
		}
		s.clock.Add(2 * time.Second)
		before = s.asked(t)
		if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, auth.ErrUnknownKey) || s.asked(t) != before+1 {
			t.Errorf("past the negative ttl: asked %v times, %v", s.asked(t)-before, err)
		}
	})
}

// A caller that leaves does not take the answer from the others.
func TestStoresOutliveTheirCaller(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		if !s.remote() {
			return // a file is not waited for
		}
		s.put("known", record("known"), paying)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.authenticator(t).AuthenticateFrom(ctx, []string{"Bearer known"}, nil)
		if err != nil && !(errors.Is(err, auth.ErrUnavailable) && errors.Is(err, context.Canceled)) {
			t.Errorf("the caller that left: %v", err)
		}
		eventually(t, "the answer is there", func() bool { return s.asked(t) == 1 })
		if _, err := s.find(t.Context(), "known"); err != nil || s.asked(t) != 1 {
			t.Errorf("the answer is not stored: %v", err)
		}
	})
}

// ByID and Authenticate say the same of a key; a store without ids says so.
func TestByID(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		a := auth.NewAuthenticator(s.Store, auth.Hasher{}, auth.Options{Now: s.clock.Now})
		expired := record("old")
		expired.ExpiresAt = testNow.Add(-time.Hour)
		for _, k := range []auth.KeyRecord{record("good"), record("gone"), expired} {
			s.put(k.ID, k, paying)
		}
		s.revoke("gone")
		s.forget()
		if _, ok := s.Store.(interface {
			DigestOf(context.Context, string) (auth.Digest, error)
		}); !ok {
			if _, err := a.ByID(t.Context(), "good"); !errors.Is(err, auth.ErrNoKeyIDs) {
				t.Errorf("without ids: %v", err)
			}
			return
		}
		for id, reason := range map[string]string{"good": "", "gone": auth.ReasonRevoked, "old": auth.ReasonExpired} {
			p, err := a.ByID(t.Context(), id)
			_, want := a.AuthenticateFrom(t.Context(), []string{"Bearer " + id}, nil)
			if p.KeyID != id || p.Account != paying.ID || (err == nil) != (reason == "") || (want == nil) != (err == nil) {
				t.Errorf("%s: %+v, %v; Authenticate says %v", id, p, err, want)
			}
			if denial, ok := errors.AsType[*auth.Denial](err); reason != "" && (!ok || denial.Reason != reason) {
				t.Errorf("%s: %v, want %s", id, err, reason)
			}
		}
		if _, err := a.ByID(t.Context(), "nobody"); !errors.Is(err, auth.ErrNoSuchKey) {
			t.Errorf("unknown: %v", err)
		}
		if !s.remote() {
			return
		}
		s.forget()
		s.state(storeDown)
		if _, err := a.ByID(t.Context(), "good"); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("with the store down: %v", err)
		}
	})
}
