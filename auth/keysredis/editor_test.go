package keysredis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestRedisKeys(t *testing.T) {
	client := redistest.Start(t).Client()
	admin := NewEditor(client, "iq", auth.Hasher{})
	ctx := t.Context()
	k1 := testRecord("k1")
	k1.ExpiresAt = testNow.Add(time.Hour + time.Millisecond)
	if err := admin.Add(ctx, k1, nil); !errors.Is(err, auth.ErrNoSuchAccount) {
		t.Fatalf("without an account: %v", err)
	}
	if err := admin.Add(ctx, k1, &paying); err != nil {
		t.Fatal(err)
	}
	same := testRecord("k1")
	same.Digest = auth.Hasher{}.Hash("another")
	twin := testRecord("k9")
	twin.Digest = k1.Digest
	bad := testRecord("k9")
	bad.Kind = "admin"
	for name, k := range map[string]auth.KeyRecord{"id": same, "digest": twin, "both": k1} {
		if err := admin.Add(ctx, k, nil); !errors.Is(err, auth.ErrDuplicate) {
			t.Errorf("the same %s: %v", name, err)
		}
	}
	if err := admin.Add(ctx, bad, nil); err == nil {
		t.Error("a bad kind was stored")
	}
	old, err := admin.Rotate(ctx, "k1", testRecord("k2"), testNow)
	if err != nil || !old.ExpiresAt.Equal(testNow) {
		t.Fatalf("%+v, %v", old, err)
	}
	if old, err = admin.Rotate(ctx, "k1", testRecord("k3"), testNow.Add(time.Hour)); err != nil || !old.ExpiresAt.Equal(testNow) {
		t.Fatalf("%+v, %v", old, err)
	}
	if err := errors.Join(admin.Revoke(ctx, "k1"), admin.Revoke(ctx, "k1")); err != nil {
		t.Errorf("revoking twice: %v", err)
	}
	if _, err := admin.Rotate(ctx, "k1", testRecord("k4"), testNow); !errors.Is(err, auth.ErrRevoked) {
		t.Errorf("a revoked key has a follower: %v", err)
	}
	if err := admin.Add(ctx, k1, nil); !errors.Is(err, auth.ErrDuplicate) {
		t.Errorf("a revoked key was made good again: %v", err)
	}
	if err := admin.Revoke(ctx, "nothing"); !errors.Is(err, auth.ErrNoSuchKey) {
		t.Errorf("revoking nothing: %v", err)
	}
	if _, err := admin.Rotate(ctx, "nothing", testRecord("k4"), testNow); !errors.Is(err, auth.ErrNoSuchKey) {
		t.Errorf("rotating nothing: %v", err)
	}
	want := auth.Listing{Accounts: []auth.Account{paying}, Keys: []auth.KeyRecord{k1, testRecord("k2"), testRecord("k3")}}
	want.Keys[0].Revoked, want.Keys[0].ExpiresAt = true, testNow
	l, err := admin.List(ctx)
	if err != nil || !l.Equal(want) {
		t.Fatalf("lists %+v, %v", l, err)
	}
}

func TestRedisAccounts(t *testing.T) {
	client := redistest.Start(t).Client()
	admin := NewEditor(client, "iq", auth.Hasher{})
	ctx := t.Context()
	pro, none, bad := "pro", "", "a b"
	for name, tt := range map[string]struct {
		change auth.AccountChange
		err    error
	}{
		"nothing":    {auth.AccountChange{ID: "acme"}, auth.ErrNothingToChange},
		"no account": {auth.AccountChange{ID: "acme", Plan: &pro}, auth.ErrNoSuchAccount},
	} {
		if err := admin.SetAccount(ctx, tt.change); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []auth.AccountChange{{ID: "", Create: true}, {ID: "x", APIAccess: "free", Create: true}, {ID: "x", Plan: &bad, Create: true}} {
		if err := admin.SetAccount(ctx, c); err == nil {
			t.Errorf("%+v was stored", c)
		}
	}
	for _, c := range []auth.AccountChange{
		{ID: "acme", Create: true}, {ID: "rich", APIAccess: auth.AccessPaid, Plan: &pro, Create: true}, {ID: "acme", Plan: &pro}, {ID: "rich", Plan: &none},
	} {
		if err := admin.SetAccount(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	l, err := admin.List(ctx)
	if err != nil || !slices.Equal(l.Accounts, []auth.Account{{ID: "acme", APIAccess: auth.AccessNone, Plan: "pro"}, {ID: "rich", APIAccess: auth.AccessPaid}}) {
		t.Fatalf("lists %+v, %v", l, err)
	}
}

// What is read back is what was stored, and nothing that is stored makes a key that was not meant.
func FuzzRedisRecord(f *testing.F) {
	f.Add(`{"id":"k1","kind":"buyer","account":"acme","scopes":["inquiries:read"],"expires_at":"2027-01-01T00:00:00Z","revoked":true}`)
	f.Add(`{"id":"acme","api_access":"paid","plan":"pro"}`)
	f.Add(`{"id":"k1","kind":"buyer","account":"acme"}{}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseKey(auth.Digest{}, text)
		switch {
		case text == "" && !errors.Is(err, auth.ErrUnknownKey), text != "" && err != nil && !errors.Is(err, auth.ErrGarbage):
			t.Fatal(err)
		case err == nil:
			if again, err := parseKey(auth.Digest{}, encode(k)); err != nil || k.Validate() != nil || !again.Equal(k) {
				t.Fatalf("%+v came back as %+v, %v", k, again, err)
			}
		}
		if a, err := parseAccount("acme", text); err == nil && (a.ID != "acme" || a.Validate() != nil) || err != nil && !errors.Is(err, auth.ErrGarbage) {
			t.Fatalf("%+v, %v", a, err)
		}
	})
}

func TestRedisListOfMany(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client().WithTimeout(10 * time.Second) // how fast Redis is does not matter here
	admin := NewEditor(client, "iq", auth.Hasher{})
	ctx := t.Context()
	const n = 700 // more than one step of a scan
	for i := range n {
		if err := admin.Add(ctx, testRecord(fmt.Sprint("k", i)), &paying); err != nil {
			t.Fatal(err)
		}
	}
	l, err := admin.List(ctx)
	if err != nil || len(l.Keys) != n || len(l.Accounts) != 1 {
		t.Fatalf("lists %d keys, %v", len(l.Keys), err)
	}
}
