package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return testNow.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// The states a key store can be in.
const (
	storeUp      = "up"
	storeDown    = "down"
	storeSlow    = "slow"
	storeGarbage = "garbage"
)

// testStore is a store with the means to change what it holds. Changes are in
// force when put and revoke return, but for what is remembered.
type testStore struct {
	Store
	clock  *clock
	put    func(key string, k KeyRecord, a Account)
	revoke func(id string)     // effective once it is no longer remembered
	state  func(string)        // nil: the store asks nobody and knows no states
	forget func()              // drops what is remembered
	asked  func() float64      // questions to the store so far
	memory func() *cachedStore // nil: nothing is remembered
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
	writeFile(t, path, "accounts: []\nkeys: []\n")
	c := &clock{}
	store, err := NewFileStore(path, Hasher{}, Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	file := NewKeysFile(path, Hasher{})
	then := func(err error) {
		t.Helper()
		if err := errors.Join(err, store.Reload()); err != nil {
			t.Fatal(err)
		}
	}
	return &testStore{
		Store: store, clock: c,
		put:    func(_ string, k KeyRecord, a Account) { then(file.Add(t.Context(), k, &a)) },
		revoke: func(id string) { then(file.Revoke(t.Context(), id)) },
		forget: func() {},
	}
}

func newTestRedis(t *testing.T) *testStore {
	server := redistest.Start(t)
	client := server.Client()
	c := &clock{}
	cfg := DefaultRedisConfig()
	cfg.Poll = 20 * time.Millisecond
	store, err := NewRedisStore(client, "iq", Hasher{}, cfg, Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	admin := NewRedisKeys(client, "iq", Hasher{})
	// A change is in force when the node has heard of it and nothing else is
	// on its way.
	then := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		version, err := client.Get(t.Context(), store.keys.version()).Float64()
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node hears of it", func() bool { return value(t, store.taken) == version })
	}
	then(admin.SetAccount(t.Context(), AccountChange{ID: "somebody", Create: true}))
	paused := false
	return &testStore{
		Store: store, clock: c,
		put:    func(_ string, k KeyRecord, a Account) { then(admin.Add(t.Context(), k, &a)) },
		revoke: func(id string) { then(admin.Revoke(t.Context(), id)) },
		state: func(state string) {
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
					then(client.Set(t.Context(), store.keys.key(digestOf(key)), "garbage", 0).Err())
				}
			}
		},
		forget: store.forgetAll,
		asked:  func() float64 { return asked(t, store.cachedStore) },
		memory: func() *cachedStore { return store.cachedStore },
	}
}

func asked(t *testing.T, r *cachedStore) float64 {
	n := 0.0
	for _, result := range []string{lookupFound, lookupUnknown, lookupFailed, lookupGarbage} {
		n += value(t, r.metrics.byResult[result])
	}
	return n
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
	c := &clock{}
	cfg := DefaultIntrospectionConfig()
	cfg.URL, cfg.Timeout = server.URL, 300*time.Millisecond
	store, err := NewIntrospectionStore(cfg, Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return &testStore{
		Store: store, clock: c,
		put: func(key string, k KeyRecord, a Account) {
			claims := map[string]any{
				"active": true, "sub": k.Account, "kind": k.Kind, "jti": k.ID,
				"scope": string(JoinScopes(k.Scopes)), "api_access": a.APIAccess, "plan": a.Plan,
			}
			if !k.ExpiresAt.IsZero() {
				claims["exp"] = k.ExpiresAt.Unix()
			}
			p.set(func() { p.keys[key] = claims })
		},
		revoke: func(id string) {
			p.set(func() {
				for key, claims := range p.keys {
					if claims["jti"] == id {
						delete(p.keys, key)
					}
				}
			})
		},
		state:  func(state string) { p.set(func() { p.state = state }) },
		forget: store.forgetAll,
		asked:  func() float64 { return asked(t, store.cachedStore) },
		memory: func() *cachedStore { return store.cachedStore },
	}
}

func (s *testStore) find(ctx context.Context, key string) (*Grant, error) {
	return s.Find(ctx, Credential{Digest: Hasher{}.Hash(key), Key: Secret(key)})
}

func (s *testStore) authenticator(t *testing.T) *Authenticator {
	t.Helper()
	a, err := NewAuthenticator(s, Hasher{}, Options{Now: s.clock.now})
	if err != nil {
		t.Fatal(err)
	}
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

var paying = Account{ID: "acme", APIAccess: AccessPaid, Plan: "pro"}

func TestStoresGrant(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		k := testRecord("known")
		k.ExpiresAt = testNow.Add(time.Hour)
		s.put("known", k, paying)
		s.put("plain", KeyRecord{ID: "plain", Digest: Hasher{}.Hash("plain"), Kind: KindBuyer, Account: "poor"}, Account{APIAccess: AccessNone})
		g, err := s.find(t.Context(), "known")
		if err != nil {
			t.Fatal(err)
		}
		want := Principal{Kind: KindSeller, Account: "acme", KeyID: "known", Scopes: ScopeInquiriesRead, PaidAccess: true, Plan: "pro"}
		if g.Principal != want || g.Revoked || !g.ExpiresAt.Equal(k.ExpiresAt) || g.Digest != k.Digest {
			t.Errorf("grant %+v", g)
		}
		g, err = s.find(t.Context(), "plain")
		if err != nil || g.Principal != (Principal{Kind: KindBuyer, Account: "poor", KeyID: "plain"}) || !g.ExpiresAt.IsZero() {
			t.Errorf("grant %+v, %v", g, err)
		}
		if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("an unknown key: %v", err)
		}
	})
}

func TestStoresRevoke(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		s.put("known", testRecord("known"), paying)
		a := s.authenticator(t)
		if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); err != nil {
			t.Fatal(err)
		}
		s.revoke("known")
		s.clock.advance(10 * time.Second) // introspection is told of nothing and has to ask again
		if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("a revoked key: %v", err)
		}
		s.forget()
		if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("the key came back: %v", err)
		}
	})
}

func TestStoresExpire(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		k := testRecord("known")
		k.ExpiresAt = testNow.Add(3 * time.Second)
		s.put("known", k, paying)
		a := s.authenticator(t)
		if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); err != nil {
			t.Fatal(err)
		}
		s.clock.advance(3 * time.Second) // well within every ttl
		var denial *Denial
		if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); !errors.As(err, &denial) || denial.Reason != ReasonExpired {
			t.Errorf("past its expiry: %v", err)
		}
	})
}

// A store in trouble: known keys are good within their time, everything else
// is ErrUnavailable, never a refusal and never let in.
func TestStoresInTrouble(t *testing.T) {
	for _, state := range []string{storeDown, storeSlow, storeGarbage} {
		t.Run(state, func(t *testing.T) {
			everyStore(t, func(t *testing.T, s *testStore) {
				if s.state == nil {
					return // a file is read before it counts: TestFileStore breaks it
				}
				s.put("known", testRecord("known"), paying)
				s.put("fresh", testRecord("fresh"), paying)
				a := s.authenticator(t)
				if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); err != nil {
					t.Fatal(err)
				}
				s.state(state)
				for range 3 {
					if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); err != nil {
						t.Errorf("a known key: %v", err)
					}
					for _, key := range []string{"fresh", "nobody"} {
						p, err := a.Authenticate(t.Context(), []string{"Bearer " + key})
						if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrInvalidKey) || p != (Principal{}) {
							t.Errorf("%s: %+v, %v", key, p, err)
						}
					}
				}
				s.clock.advance(30 * time.Second)
				if _, err := a.Authenticate(t.Context(), []string{"Bearer known"}); !errors.Is(err, ErrUnavailable) {
					t.Errorf("past its time: %v", err)
				}
			})
		})
	}
}

// Remembering must neither ask twice nor grow.
func TestStoresRemember(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		if s.memory == nil {
			return // the file's keys are in memory as a whole
		}
		s.put("known", testRecord("known"), paying)
		before := s.asked()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, ErrUnknownKey) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.asked() - before; n != 1 {
			t.Errorf("100 callers asked %v times", n)
		}
		s.clock.advance(2 * time.Second)
		before = s.asked()
		if _, err := s.find(t.Context(), "nobody"); !errors.Is(err, ErrUnknownKey) || s.asked() != before+1 {
			t.Errorf("past the negative ttl: asked %v times, %v", s.asked()-before, err)
		}
	})
}

// A caller that leaves does not take the answer from the others.
func TestStoresOutliveTheirCaller(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		if s.memory == nil {
			return // a file is not waited for
		}
		s.put("known", testRecord("known"), paying)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.authenticator(t).Authenticate(ctx, []string{"Bearer known"})
		if err != nil && !(errors.Is(err, ErrUnavailable) && errors.Is(err, context.Canceled)) {
			t.Errorf("the caller that left: %v", err)
		}
		eventually(t, "the answer is remembered", func() bool {
			_, ok := s.memory().good.GetIfPresent(Hasher{}.Hash("known"))
			return ok
		})
	})
}
