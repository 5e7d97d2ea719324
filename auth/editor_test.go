package auth_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/testkit/redistest"
)

// everyEditor runs a test over the stores that tools can change.
func everyEditor(t *testing.T, test func(t *testing.T, e *auth.Editor)) {
	t.Run("file", func(t *testing.T) {
		test(t, keysfile.NewEditor(filepath.Join(t.TempDir(), "keys.yaml"), auth.Hasher{}))
	})
	t.Run("redis", func(t *testing.T) {
		test(t, keysredis.NewEditor(redistest.Start(t).Client(), "iq", auth.Hasher{}))
	})
}

func TestEditorsKeys(t *testing.T) {
	everyEditor(t, func(t *testing.T, e *auth.Editor) {
		ctx := t.Context()
		k1 := record("k1")
		k1.ExpiresAt = testNow.Add(time.Hour + time.Millisecond)
		if err := e.Add(ctx, k1, nil); !errors.Is(err, auth.ErrNoSuchAccount) {
			t.Fatalf("without an account: %v", err)
		}
		if err := e.Add(ctx, k1, &paying); err != nil {
			t.Fatal(err)
		}
		if err := e.Add(ctx, record("also"), &auth.Account{APIAccess: auth.AccessNone}); err != nil { // the account stays as it is
			t.Fatal(err)
		}
		for i, at := range []time.Time{testNow, testNow.Add(time.Hour)} {
			if old, err := e.Rotate(ctx, "k1", record([]string{"k2", "k3"}[i]), at); err != nil || !old.ExpiresAt.Equal(testNow) {
				t.Fatalf("%+v, %v", old, err)
			}
		}
		if err := errors.Join(e.Revoke(ctx, "k1"), e.Revoke(ctx, "k1")); err != nil {
			t.Errorf("revoking twice: %v", err)
		}
		want := []auth.KeyRecord{k1, record("also"), record("k2"), record("k3")}
		want[0].Revoked, want[0].ExpiresAt = true, testNow
		if k, err := e.Get(ctx, "k1"); err != nil || !k.Equal(want[0]) {
			t.Errorf("%+v, %v", k, err)
		}
		l, err := e.List(ctx)
		slices.SortFunc(l.Keys, func(a, b auth.KeyRecord) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(want, func(a, b auth.KeyRecord) int { return strings.Compare(a.ID, b.ID) })
		if err != nil || !l.Equal(auth.Listing{Accounts: []auth.Account{paying}, Keys: want}) {
			t.Fatalf("lists %+v, %v", l, err)
		}
	})
}

func TestEditorsAccounts(t *testing.T) {
	everyEditor(t, func(t *testing.T, e *auth.Editor) {
		pro, none := "pro", ""
		for _, c := range []auth.AccountChange{
			{ID: "acme", Create: true}, {ID: "true", APIAccess: auth.AccessPaid, Plan: &pro, Create: true}, {ID: "acme", Plan: &pro}, {ID: "true", Plan: &none},
		} {
			if err := e.SetAccount(t.Context(), c); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		l, err := e.List(t.Context())
		if err != nil || !slices.Equal(l.Accounts, []auth.Account{{ID: "acme", APIAccess: auth.AccessNone, Plan: "pro"}, {ID: "true", APIAccess: auth.AccessPaid}}) {
			t.Fatalf("lists %+v, %v", l.Accounts, err)
		}
	})
}

func TestEditorsRefuse(t *testing.T) {
	everyEditor(t, func(t *testing.T, e *auth.Editor) {
		ctx, bad := t.Context(), "a b"
		gone := record("gone")
		gone.Revoked = true
		if err := errors.Join(e.Add(ctx, record("k1"), &paying), e.Add(ctx, gone, nil)); err != nil {
			t.Fatal(err)
		}
		before, err := e.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		add := func(change func(*auth.KeyRecord)) error {
			k := record("k2")
			change(&k)
			return e.Add(ctx, k, nil)
		}
		rotate := func(id string, next auth.KeyRecord) error { _, err := e.Rotate(ctx, id, next, testNow); return err }
		_, getErr := e.Get(ctx, "nothing")
		account := func(c auth.AccountChange) error { return e.SetAccount(ctx, c) }
		for name, tt := range map[string]struct {
			got  error
			err  error
			text string
		}{
			"same id":           {add(func(k *auth.KeyRecord) { k.ID = "k1" }), auth.ErrDuplicate, "k1"},
			"same digest":       {add(func(k *auth.KeyRecord) { k.Digest = auth.Hasher{}.Hash("k1") }), auth.ErrDuplicate, "k2"},
			"revoked":           {add(func(k *auth.KeyRecord) { k.ID = "gone" }), auth.ErrDuplicate, "gone"},
			"no such account":   {add(func(k *auth.KeyRecord) { k.Account = "other" }), auth.ErrNoSuchAccount, "other"},
			"bad id":            {add(func(k *auth.KeyRecord) { k.ID = "a\nb" }), nil, "key id may hold"},
			"bad kind":          {add(func(k *auth.KeyRecord) { k.Kind = "admin" }), nil, "kind is"},
			"bad scope":         {add(func(k *auth.KeyRecord) { k.Scopes = []string{"x y"} }), nil, "scopes[0] may hold"},
			"scope twice":       {add(func(k *auth.KeyRecord) { k.Scopes = []string{"a", "a"} }), nil, "twice"},
			"far future":        {add(func(k *auth.KeyRecord) { k.ExpiresAt = testNow.AddDate(9000, 0, 0) }), nil, "expires_at is after"},
			"get nothing":       {getErr, auth.ErrNoSuchKey, "nothing"},
			"revoke nothing":    {e.Revoke(ctx, "nothing"), auth.ErrNoSuchKey, "nothing"},
			"rotate nothing":    {rotate("nothing", record("k2")), auth.ErrNoSuchKey, "nothing"},
			"rotate revoked":    {rotate("gone", record("k2")), auth.ErrRevoked, "gone"},
			"rotate into one":   {rotate("k1", record("gone")), auth.ErrDuplicate, "gone"},
			"account unknown":   {account(auth.AccountChange{ID: "x", Plan: &bad}), auth.ErrNoSuchAccount, "x"},
			"account access":    {account(auth.AccountChange{ID: "acme", APIAccess: "free"}), nil, "api_access is"},
			"account plan":      {account(auth.AccountChange{ID: "acme", Plan: &bad}), nil, "plan may hold"},
			"account, nothing":  {account(auth.AccountChange{ID: "acme"}), auth.ErrNothingToChange, ""},
			"account without":   {account(auth.AccountChange{Create: true}), nil, "account id is missing"},
			"new account, plan": {account(auth.AccountChange{ID: "new", Plan: &bad, Create: true}), nil, "plan may hold"},
		} {
			if tt.got == nil || tt.err != nil && !errors.Is(tt.got, tt.err) || !strings.Contains(tt.got.Error(), tt.text) {
				t.Errorf("%s: %v, want %v %q", name, tt.got, tt.err, tt.text)
			}
		}
		if l, err := e.List(ctx); err != nil || !l.Equal(before) {
			t.Errorf("something was changed: %+v, %v", l, err)
		}
	})
}
