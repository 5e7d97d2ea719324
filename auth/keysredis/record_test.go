package keysredis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
)

func FuzzRedisRecord(f *testing.F) {
	f.Add("k1", "buyer", "acme", "inquiries:read", "2027-01-01T00:00:00Z", "1", "paid", "pro")
	f.Add("", "", "", "", "", "", "", "")
	f.Add("k", "seller", "a", " ", "x", "0", "none", "a b")
	f.Fuzz(func(t *testing.T, id, kind, account, scopes, expires, revoked, access, plan string) {
		k, err := parseKey(auth.Digest{}, []any{id, kind, account, scopes, expires, revoked})
		if err == nil && len(auth.KeyRecord{ID: k.ID, Kind: k.Kind, Account: k.Account}.Problems()) > 0 || err != nil && !errors.Is(err, auth.ErrGarbage) {
			t.Fatalf("key %+v, %v", k, err)
		}
		if err == nil && revoked == revokedMark && !k.Revoked {
			t.Fatal("a revoked key is good")
		}
		a, err := parseAccount("acme", []any{access, plan})
		if err == nil && a.Validate() != nil || err != nil && !errors.Is(err, auth.ErrGarbage) {
			t.Fatalf("account %+v, %v", a, err)
		}
		if err == nil && (a.APIAccess == auth.AccessPaid) != (access == auth.AccessPaid) {
			t.Fatalf("%q is paid access", access)
		}
	})
}

func FuzzChange(f *testing.F) {
	f.Add("5 key " + hexOf("k"))
	f.Add("5 account acme")
	f.Add("-1  ")
	f.Add("99999999999999999999 key x")
	f.Fuzz(func(t *testing.T, message string) {
		n, what, id := parseChange(message)
		if n == 0 && (what != "" || id != "") && !strings.HasPrefix(strings.TrimLeft(message, "+-"), "0") {
			t.Fatalf("%q: %d %q %q", message, n, what, id)
		}
	})
}

// What is stored in Redis comes back as it was.
func FuzzKeyValues(f *testing.F) {
	f.Add("k1", "acme", int64(1_800_000_000), true)
	f.Add("k2", "4711", int64(0), false)
	f.Fuzz(func(t *testing.T, id, account string, expires int64, revoked bool) {
		k := auth.KeyRecord{ID: id, Kind: auth.KindBuyer, Account: account, Scopes: []string{auth.ScopeInquiriesRead}, Revoked: revoked}
		if expires > 0 && expires < 1<<35 {
			k.ExpiresAt = time.Unix(expires, 0).UTC()
		}
		if k.Validate() != nil {
			return
		}
		values := make([]any, len(keyFields))
		written := keyValues(k)
		for i := 0; i < len(written); i += 2 {
			for j, field := range keyFields {
				if field == written[i] {
					values[j] = written[i+1]
				}
			}
		}
		got, err := parseKey(auth.Digest{}, values)
		if err != nil || !got.Equal(k) {
			t.Fatalf("%+v came back as %+v, %v", k, got, err)
		}
	})
}
