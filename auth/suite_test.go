package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Reconnecting()) }

var (
	testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	paying  = auth.Account{ID: "acme", APIAccess: auth.AccessPaid, Plan: "pro"}
)

func fixedNow() time.Time { return testNow }

func record(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: digestOf(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead}}
}

// The states a remote store can be in.
const (
	storeDown    = "down"
	storeSlow    = "slow"
	storeGarbage = "garbage"
)

// testStore is a store with the means to change what it holds. Changes are in force when put and
// revoke return, but for what is stored on the node.
type testStore struct {
	auth.Store
	*auth.Authenticator
	clock  *testkit.Clock
	reg    *prometheus.Registry
	put    func(k auth.KeyRecord, a auth.Account) // the key itself is the record's id
	revoke func(id string)
	state  func(string) // nil: the store asks nobody and knows no states
	forget func()       // drops what is stored on the node
}

// everyStore runs a test over all stores.
func everyStore(t *testing.T, test func(t *testing.T, s *testStore)) {
	for name, open := range map[string]func(*testing.T, *testStore, auth.Options){
		"file": openFile, "redis": openRedis, "introspection": openIntrospection,
	} {
		t.Run(name, func(t *testing.T) {
			s := &testStore{clock: testkit.NewClock(testNow), reg: prometheus.NewRegistry(), forget: func() {}}
			opts := auth.Options{Now: s.clock.Now, Registerer: s.reg}
			open(t, s, opts)
			s.Authenticator = auth.NewAuthenticator(s.Store, auth.Hasher{}, opts)
			test(t, s)
		})
	}
}

func openFile(t *testing.T, s *testStore, opts auth.Options) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("keys: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := keysfile.New(path, auth.Hasher{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	editor := keysfile.NewEditor(path, auth.Hasher{})
	then := func(err error) {
		if err := errors.Join(err, store.Reload(false)); err != nil {
			t.Fatal(err)
		}
	}
	s.Store = store
	s.put = func(k auth.KeyRecord, a auth.Account) { then(editor.Add(t.Context(), k, &a)) }
	s.revoke = func(id string) { then(editor.Revoke(t.Context(), id)) }
}

func openRedis(t *testing.T, s *testStore, opts auth.Options) {
	server := redistest.Start(t)
	cfg := redisclient.DefaultConfig()
	cfg.Addrs, cfg.Timeout = []string{server.Addr}, time.Second
	client, err := redisclient.Open(cfg, redisclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := keysredis.New(client, "iq", auth.Hasher{}, 30*time.Second, opts)
	t.Cleanup(func() { store.Close(); _ = client.Close() })
	editor := keysredis.NewEditor(client, "iq", auth.Hasher{})
	redistest.Eventually(t, "the node follows the changes", func() bool {
		return client.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_xrevrange") != ""
	})
	then := func(err error) { // a change is in force when the node has read it
		if err != nil {
			t.Fatal(err)
		}
		newest, err := client.XRevRangeN(t.Context(), "iq:{keys}:changes", "+", "-", 1).Result()
		if err != nil || len(newest) == 0 {
			t.Fatal(newest, err)
		}
		ms, seq := 0.0, 0.0
		if _, err := fmt.Sscanf(newest[0].ID, "%f-%f", &ms, &seq); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "the node reads it", func() bool {
			return math.Abs(counted(t, s.reg, "inquiry_gateway_auth_last_change_timestamp_seconds")[""]-ms/1000-seq/1e6) < 5e-7
		})
	}
	_, err = editor.SetAccount(t.Context(), auth.AccountChange{ID: "somebody", Create: true})
	then(err)
	s.Store, s.forget = store, func() { store.Invalidate(everything) }
	s.put = func(k auth.KeyRecord, a auth.Account) { then(editor.Add(t.Context(), k, &a)) }
	s.revoke = func(id string) { then(editor.Revoke(t.Context(), id)) }
	s.state = func(state string) {
		switch state {
		case storeDown:
			server.Kill()
		case storeSlow:
			server.Pause()
			t.Cleanup(server.Resume)
		case storeGarbage:
			for _, key := range []string{"known", "fresh", "nobody"} {
				then(client.Set(t.Context(), "iq:key:sha256:"+digestOf(key).Hex(), "garbage", 0).Err())
			}
		}
	}
}

// openIntrospection asks an authorization server that holds claims by key.
func openIntrospection(t *testing.T, s *testStore, opts auth.Options) {
	var state atomic.Value
	var keys sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, known := keys.Load(r.PostFormValue("token"))
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		switch {
		case state.Load() == storeSlow:
			<-r.Context().Done()
		case state.Load() == storeDown:
			w.WriteHeader(http.StatusServiceUnavailable)
		case state.Load() == storeGarbage:
			fmt.Fprint(w, `{"active": "yes"}`)
		case !known:
			fmt.Fprint(w, `{"active": false}`)
		default:
			_ = json.NewEncoder(w).Encode(claims) // a client that left is not the test's business
		}
	}))
	t.Cleanup(server.Close)
	cfg := introspect.DefaultConfig()
	cfg.URL, cfg.Timeout = server.URL, time.Second
	store := introspect.New(cfg, 10*time.Second, opts)
	t.Cleanup(store.Close)
	s.Store, s.forget = store, func() { store.Invalidate(everything) }
	s.state = func(next string) { state.Store(next) }
	s.put = func(k auth.KeyRecord, a auth.Account) {
		claims := map[string]any{
			"active": true, "sub": k.Account, "kind": k.Kind, "jti": k.ID,
			"scope": strings.Join(k.Scopes, " "), "api_access": a.APIAccess, "plan": a.Plan,
		}
		if !k.ExpiresAt.IsZero() {
			claims["exp"] = k.ExpiresAt.Unix()
		}
		keys.Store(k.ID, claims)
	}
	s.revoke = func(id string) { keys.Delete(id) }
}

// counted reads the counters of one name by the values of their labels.
func counted(t testing.TB, reg prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	values, err := testkit.Values(reg, name)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func (s *testStore) authenticate(t *testing.T, key string) (*auth.Grant, error) {
	return s.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, caller("192.0.2.1"))
}

// What issuers say of a key and its account is what is granted, and no more.
func TestStoresGrant(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		known := record("known")
		known.ExpiresAt = testNow.Add(time.Hour)
		known.Scopes = append(known.Scopes, "openid") // another service's: it is kept, and gives nothing
		s.put(known, paying)
		plain := auth.KeyRecord{ID: "plain", Digest: digestOf("plain"), Kind: auth.KindBuyer, Account: "poor"}
		s.put(plain, auth.Account{APIAccess: auth.AccessNone})
		for key, want := range map[string]struct {
			auth.Principal
			expires time.Time
		}{
			"known": {auth.Principal{
				Kind: auth.KindSeller, Account: "acme", KeyID: "known", Scopes: "inquiries:read openid", PaidAccess: true, Plan: "pro",
			}, known.ExpiresAt},
			"plain": {auth.Principal{Kind: auth.KindBuyer, Account: "poor", KeyID: "plain"}, time.Time{}},
		} {
			g, err := s.authenticate(t, key)
			if err != nil || g.Principal != want.Principal || g.Revoked || !g.ExpiresAt.Equal(want.expires) || g.Digest != digestOf(key) {
				t.Errorf("%s: %+v, %v", key, g, err)
			}
		}
		if _, err := s.authenticate(t, "nobody"); !errors.Is(err, auth.ErrInvalidKey) {
			t.Errorf("an unknown key: %v", err)
		}
	})
}

// For a good key that the node knows nobody is asked, and the wrong header does not get its
// grant. When it has been revoked it is not good any more, whatever is forgotten.
func TestStoresRecallAndRevoke(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		s.put(record("known"), paying)
		lookups := func() (n float64) {
			for _, v := range counted(t, s.reg, "inquiry_gateway_auth_lookups_total") {
				n += v
			}
			return n
		}
		want, err := s.authenticate(t, "known")
		if err != nil {
			t.Fatal(err)
		}
		asked := lookups()
		g, err := s.authenticate(t, "known")
		good := counted(t, s.reg, "inquiry_gateway_auth_requests_total")["ok"]
		if err != nil || g.Principal != want.Principal || lookups() != asked || good != 2 {
			t.Fatalf("%+v, %v, %v lookups, counted %v", g, err, lookups()-asked, good)
		}
		for _, other := range [][]string{nil, {""}, {"Basic known"}, {"Bearer known", "Bearer known"}} {
			if g, err := s.AuthenticateFrom(t.Context(), other, caller("192.0.2.1")); err == nil {
				t.Errorf("%q is %+v", other, g)
			}
		}

		s.revoke("known")
		s.clock.Add(10 * time.Second) // an authorization server tells nobody, and is asked again
		for range 2 {
			if _, err := s.authenticate(t, "known"); !errors.Is(err, auth.ErrInvalidKey) {
				t.Errorf("a revoked key: %v", err)
			}
			s.forget()
		}
	})
}

// A store in trouble: known keys are good within their time. All other keys are neither refused
// nor let in.
func TestStoresInTrouble(t *testing.T) {
	for state, rounds := range map[string]int{storeDown: 3, storeSlow: 1, storeGarbage: 3} {
		t.Run(state, func(t *testing.T) {
			everyStore(t, func(t *testing.T, s *testStore) {
				if s.state == nil {
					return // a file is read before it counts: TestFileStore breaks it
				}
				for _, id := range []string{"known", "fresh"} {
					s.put(record(id), paying)
				}
				if _, err := s.authenticate(t, "known"); err != nil {
					t.Fatal(err)
				}
				s.state(state)
				for range rounds {
					if _, err := s.authenticate(t, "known"); err != nil {
						t.Errorf("a known key: %v", err)
					}
					var wg sync.WaitGroup
					for _, key := range []string{"fresh", "nobody"} {
						wg.Go(func() {
							if g, err := s.authenticate(t, key); !errors.Is(err, auth.ErrUnavailable) || g != nil {
								t.Errorf("%s: %+v, %v", key, g, err)
							}
						})
					}
					wg.Wait()
				}
				s.clock.Add(30 * time.Second)
				if _, err := s.authenticate(t, "known"); !errors.Is(err, auth.ErrUnavailable) {
					t.Errorf("past its time: %v", err)
				}
			})
		})
	}
}

// CheckByID says of a key what AuthenticateFrom does; a store without ids says so.
func TestCheckByID(t *testing.T) {
	everyStore(t, func(t *testing.T, s *testStore) {
		old := record("old")
		old.ExpiresAt = testNow.Add(-time.Hour)
		for _, k := range []auth.KeyRecord{record("good"), record("gone"), old} {
			s.put(k, paying)
		}
		s.revoke("gone")
		s.forget()
		if _, err := s.CheckByID(t.Context(), "good"); strings.HasSuffix(t.Name(), "introspection") {
			if !errors.Is(err, auth.ErrNoKeyIDs) {
				t.Errorf("without ids: %v", err)
			}
			return
		}
		for _, id := range []string{"good", "gone", "old"} {
			p, err := s.CheckByID(t.Context(), id)
			if _, want := s.authenticate(t, id); p.KeyID != id || p.Account != "acme" || fmt.Sprint(err) != fmt.Sprint(want) {
				t.Errorf("%s: %+v, %v; AuthenticateFrom says %v", id, p, err, want)
			}
		}
		if _, err := s.CheckByID(t.Context(), "nobody"); !errors.Is(err, auth.ErrNoSuchKey) {
			t.Errorf("unknown: %v", err)
		}
		if s.state != nil {
			s.forget()
			s.state(storeDown)
			if _, err := s.CheckByID(t.Context(), "good"); !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("with the store down: %v", err)
			}
		}
	})
}

// list gives all that an editor lists.
func list(ctx context.Context, e *auth.Editor) (l auth.KeySet, err error) {
	err = errors.Join(e.Accounts(ctx, func(some []auth.Account) error {
		l.Accounts = append(l.Accounts, some...)
		return nil
	}), e.Keys(ctx, func(page auth.KeySet) error {
		l.Keys = append(l.Keys, page.Keys...)
		return nil
	}))
	return l, err
}

// everyEditor runs a test over the stores that tools can change.
func everyEditor(t *testing.T, test func(ctx context.Context, t *testing.T, e *auth.Editor)) {
	t.Run("file", func(t *testing.T) {
		test(t.Context(), t, keysfile.NewEditor(filepath.Join(t.TempDir(), "keys.yaml"), auth.Hasher{}))
	})
	t.Run("redis", func(t *testing.T) {
		test(t.Context(), t, keysredis.NewEditor(redistest.Start(t).Client(), "iq", auth.Hasher{}))
	})
}

// An account may be called anything that can be printed.
func TestAccountsInAnyScript(t *testing.T) {
	everyEditor(t, func(ctx context.Context, t *testing.T, e *auth.Editor) {
		for i, id := range []string{"한강 무역", " a b ", `it's "x": #1, {y}, [z] & *w %`, "مثال", "می\u200cخواهم", "O'Néill – Söhne", "null", "1e3", "- x", "?", "日本"} {
			k := record(fmt.Sprint("script", i))
			k.Account = id
			if err := e.Add(ctx, k, &auth.Account{APIAccess: auth.AccessPaid}); err != nil {
				t.Errorf("account %s: %v", id, err)
			}
			if got, err := e.Get(ctx, k.ID); err != nil || got.Account != id {
				t.Errorf("account %s is read as %q, %v", id, got.Account, err)
			}
			if _, err := e.SetAccount(ctx, auth.AccountChange{ID: id, APIAccess: auth.AccessNone}); err != nil {
				t.Errorf("account %s: %v", id, err)
			}
		}
	})
	for _, id := range []string{"", "a\nb", "a\x00", "a\u0085", "a\u2028b", "a\u202eb", "\xff", strings.Repeat("가", 43)} {
		if (auth.Account{ID: id, APIAccess: auth.AccessPaid}).Validate() == nil || auth.ValidAccount(id) {
			t.Errorf("%q may be an account", id)
		}
	}
}

// What was changed is what is listed, to the second.
func TestEditorsChange(t *testing.T) {
	everyEditor(t, func(ctx context.Context, t *testing.T, e *auth.Editor) {
		pro, none := "pro", ""
		account := func(c auth.AccountChange, want auth.Account) error {
			got, err := e.SetAccount(ctx, c)
			if err == nil && got != want {
				err = fmt.Errorf("%+v, want %+v", got, want)
			}
			return err
		}
		k1 := record("k1")
		k1.ExpiresAt = testNow.Add(time.Hour + time.Millisecond)
		for i, err := range []error{
			e.Add(ctx, k1, &paying),
			e.Add(ctx, record("also"), &auth.Account{APIAccess: auth.AccessPaid}), // the account stays as it is
			account(auth.AccountChange{ID: "true", Create: true}, auth.Account{ID: "true", APIAccess: auth.AccessNone}),
			account(auth.AccountChange{ID: "true", APIAccess: auth.AccessPaid, Plan: &pro}, auth.Account{ID: "true", APIAccess: auth.AccessPaid, Plan: pro}),
			account(auth.AccountChange{ID: "true", Plan: &none}, auth.Account{ID: "true", APIAccess: auth.AccessPaid}),
		} {
			if err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
		}
		for i, at := range []time.Time{testNow, testNow.Add(time.Hour)} { // a key that ends earlier does so
			if old, err := e.Rotate(ctx, "k1", record([]string{"k2", "k3"}[i]), at); err != nil || !old.ExpiresAt.Equal(testNow) {
				t.Errorf("%+v, %v", old, err)
			}
		}
		if err := errors.Join(e.Revoke(ctx, "k1"), e.Revoke(ctx, "k1")); err != nil {
			t.Errorf("revoking twice: %v", err)
		}
		k1.Revoked, k1.ExpiresAt = true, testNow
		want := auth.KeySet{
			Accounts: []auth.Account{paying, {ID: "true", APIAccess: auth.AccessPaid}},
			Keys:     []auth.KeyRecord{record("also"), k1, record("k2"), record("k3")},
		}
		if k, err := e.Get(ctx, "k1"); err != nil || !k.Equal(k1) {
			t.Errorf("%+v, %v", k, err)
		}
		l, err := list(ctx, e)
		slices.SortFunc(l.Keys, func(a, b auth.KeyRecord) int { return strings.Compare(a.ID, b.ID) })
		if err != nil || !l.Equal(want) {
			t.Errorf("lists %+v, %v", l, err)
		}
	})
}

// What is refused says why, and changes nothing.
func TestEditorsRefuse(t *testing.T) {
	everyEditor(t, func(ctx context.Context, t *testing.T, e *auth.Editor) {
		bad, gone := "a b", record("gone")
		gone.Revoked = true
		if err := errors.Join(e.Add(ctx, record("k1"), &paying), e.Add(ctx, gone, nil)); err != nil {
			t.Fatal(err)
		}
		before, err := list(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		add := func(change func(*auth.KeyRecord)) error {
			k := record("k2")
			change(&k)
			return e.Add(ctx, k, nil)
		}
		rotate := func(id, next string) error { _, err := e.Rotate(ctx, id, record(next), testNow); return err }
		account := func(c auth.AccountChange) error { _, err := e.SetAccount(ctx, c); return err }
		_, getErr := e.Get(ctx, "nothing")
		for name, tt := range map[string]struct {
			got  error
			err  error
			text string
		}{
			"same id":           {add(func(k *auth.KeyRecord) { k.ID = "k1" }), auth.ErrDuplicate, "k1"},
			"same digest":       {add(func(k *auth.KeyRecord) { k.Digest = digestOf("k1") }), auth.ErrDuplicate, "k2"},
			"id of a revoked":   {add(func(k *auth.KeyRecord) { k.ID = "gone" }), auth.ErrDuplicate, "gone"},
			"no such account":   {add(func(k *auth.KeyRecord) { k.Account = "other" }), auth.ErrNoSuchAccount, "other"},
			"other access":      {e.Add(ctx, record("k2"), &auth.Account{APIAccess: auth.AccessNone}), nil, "there already with api access paid"},
			"bad id":            {add(func(k *auth.KeyRecord) { k.ID = "a\nb" }), nil, "key id may hold"},
			"long id":           {add(func(k *auth.KeyRecord) { k.ID = strings.Repeat("i", 129) }), nil, "key id is longer than 128"},
			"bad scope":         {add(func(k *auth.KeyRecord) { k.Scopes = []string{"x y"} }), nil, "scopes[0] may hold"},
			"quoted scope":      {add(func(k *auth.KeyRecord) { k.Scopes = []string{`"x"`} }), nil, "quotation marks"},
			"scope twice":       {add(func(k *auth.KeyRecord) { k.Scopes = []string{"a", "a"} }), nil, "twice"},
			"far future":        {add(func(k *auth.KeyRecord) { k.ExpiresAt = testNow.AddDate(9000, 0, 0) }), nil, "expires_at is after"},
			"get nothing":       {getErr, auth.ErrNoSuchKey, "nothing"},
			"rotate revoked":    {rotate("gone", "k2"), auth.ErrRevoked, "gone"},
			"rotate into one":   {rotate("k1", "gone"), auth.ErrDuplicate, "gone"},
			"account unknown":   {account(auth.AccountChange{ID: "x", Plan: &bad}), auth.ErrNoSuchAccount, "x"},
			"account plan":      {account(auth.AccountChange{ID: "acme", Plan: &bad}), nil, "plan may hold"},
			"account, nothing":  {account(auth.AccountChange{ID: "acme"}), auth.ErrNothingToChange, ""},
			"account without":   {account(auth.AccountChange{Create: true}), nil, "account id is missing"},
			"new account, plan": {account(auth.AccountChange{ID: "new", Plan: &bad, Create: true}), nil, "plan may hold"},
		} {
			if tt.got == nil || tt.err != nil && !errors.Is(tt.got, tt.err) || !strings.Contains(tt.got.Error(), tt.text) {
				t.Errorf("%s: %v, want %v %q", name, tt.got, tt.err, tt.text)
			}
		}
		if l, err := list(ctx, e); err != nil || !l.Equal(before) {
			t.Errorf("something was changed: %+v, %v", l, err)
		}
	})
}
