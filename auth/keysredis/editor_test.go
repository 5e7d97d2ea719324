package keysredis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
)

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
