package auth

import (
	"errors"
	"slices"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestRedisKeys(t *testing.T) {
	client := redistest.Start(t).Client()
	admin := NewRedisKeys(client, "iq", Hasher{})
	ctx := t.Context()
	k1 := testRecord("k1")
	k1.ExpiresAt = testNow.Add(time.Hour + time.Millisecond)
	if err := admin.Add(ctx, k1, nil); !errors.Is(err, ErrNoSuchAccount) {
		t.Fatalf("without an account: %v", err)
	}
	if err := admin.Add(ctx, k1, &paying); err != nil {
		t.Fatal(err)
	}
	same := testRecord("k1")
	same.Digest = Hasher{}.Hash("another")
	twin := testRecord("k9")
	twin.Digest = k1.Digest
	bad := testRecord("k9")
	bad.Kind = "admin"
	for name, k := range map[string]KeyRecord{"id": same, "digest": twin, "both": k1} {
		if err := admin.Add(ctx, k, nil); !errors.Is(err, ErrDuplicate) {
			t.Errorf("the same %s: %v", name, err)
		}
	}
	if err := admin.Add(ctx, bad, nil); err == nil {
		t.Error("a bad kind was stored")
	}
	if err := errors.Join(admin.Revoke(ctx, "k1"), admin.Revoke(ctx, "k1")); err != nil {
		t.Errorf("revoking twice: %v", err)
	}
	if err := admin.Add(ctx, k1, nil); !errors.Is(err, ErrDuplicate) {
		t.Errorf("a revoked key was made good again: %v", err)
	}
	if err := admin.Revoke(ctx, "nothing"); !errors.Is(err, ErrNoSuchKey) {
		t.Errorf("revoking nothing: %v", err)
	}
	if err := admin.Rotate(ctx, "k1", testRecord("k2"), testNow); err != nil {
		t.Fatal(err)
	}
	if err := admin.Rotate(ctx, "k1", testRecord("k3"), testNow.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := admin.Rotate(ctx, "nothing", testRecord("k4"), testNow); !errors.Is(err, ErrNoSuchKey) {
		t.Errorf("rotating nothing: %v", err)
	}
	want := Listing{Accounts: []Account{paying}, Keys: []KeyRecord{k1, testRecord("k2"), testRecord("k3")}}
	want.Keys[0].Revoked, want.Keys[0].ExpiresAt = true, testNow
	l, err := admin.List(ctx)
	if err != nil || !l.equal(want) {
		t.Fatalf("lists %+v, %v", l, err)
	}
}

func TestRedisAccounts(t *testing.T) {
	client := redistest.Start(t).Client()
	admin := NewRedisKeys(client, "iq", Hasher{})
	ctx := t.Context()
	pro, none, bad := "pro", "", "a b"
	for name, tt := range map[string]struct {
		change AccountChange
		err    error
	}{
		"nothing":    {AccountChange{ID: "acme"}, errNothingToChange},
		"no account": {AccountChange{ID: "acme", Plan: &pro}, ErrNoSuchAccount},
	} {
		if err := admin.SetAccount(ctx, tt.change); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []AccountChange{{ID: "", Create: true}, {ID: "x", APIAccess: "free", Create: true}, {ID: "x", Plan: &bad, Create: true}} {
		if err := admin.SetAccount(ctx, c); err == nil {
			t.Errorf("%+v was stored", c)
		}
	}
	for _, c := range []AccountChange{
		{ID: "acme", Create: true}, {ID: "rich", APIAccess: AccessPaid, Plan: &pro, Create: true}, {ID: "acme", Plan: &pro}, {ID: "rich", Plan: &none},
	} {
		if err := admin.SetAccount(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	l, err := admin.List(ctx)
	if err != nil || !slices.Equal(l.Accounts, []Account{{"acme", AccessNone, "pro"}, {"rich", AccessPaid, ""}}) {
		t.Fatalf("lists %+v, %v", l, err)
	}
}

// An Add that was cut off half-way may be repeated, and does not spoil lists.
func TestRedisAddIsRepeatable(t *testing.T) {
	client := redistest.Start(t).Client()
	admin := NewRedisKeys(client, "iq", Hasher{})
	ctx := t.Context()
	if err := client.HSet(ctx, admin.keys.ids(), "k1", digestOf("k1")).Err(); err != nil {
		t.Fatal(err)
	}
	if l, err := admin.List(ctx); err != nil || len(l.Keys) != 0 {
		t.Fatalf("lists %+v, %v", l, err)
	}
	if err := admin.Revoke(ctx, "k1"); !errors.Is(err, ErrNoSuchKey) {
		t.Errorf("revoking what is not there: %v", err)
	}
	if err := admin.Add(ctx, testRecord("k1"), &paying); err != nil {
		t.Fatal(err)
	}
	if l, err := admin.List(ctx); err != nil || len(l.Keys) != 1 {
		t.Fatalf("lists %+v, %v", l, err)
	}
}

func TestRedisListOfMany(t *testing.T) {
	client := redistest.Start(t).Client().WithTimeout(10 * time.Second) // how fast Redis is does not matter here
	admin := NewRedisKeys(client, "iq", Hasher{})
	ctx := t.Context()
	const n = 700 // more than one step of a scan
	for i := range n {
		if err := admin.Add(ctx, testRecord(base62[i%62:i%62+1]+base62[i/62:i/62+1]), &paying); err != nil {
			t.Fatal(err)
		}
	}
	l, err := admin.List(ctx)
	if err != nil || len(l.Keys) != n || len(l.Accounts) != 1 {
		t.Fatalf("lists %d keys, %v", len(l.Keys), err)
	}
}
