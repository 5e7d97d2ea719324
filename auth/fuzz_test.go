package auth

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// Whatever a file looks like, an edit either fails or makes exactly what was
// meant of it, without losing a comment.
func FuzzKeysFileEdit(f *testing.F) {
	f.Add("accounts: [{id: acme}]\nkeys: [] # none\n")
	f.Add("accounts:\n- id: acme\nkeys:\n- id: k1\n  sha256: " + digestOf("k1") + "\n  kind: buyer # c\n  account: acme\n")
	f.Add("keys: [{id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme,}]\naccounts: [{id: 'acme'}]")
	f.Add("\ufeff# c\r\naccounts: [{id: \"acme\"}]\r\nkeys:\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := decodeKeys("f", []byte(text), Hasher{})
		if err != nil {
			return
		}
		before := doc.listing()
		for _, c := range []change{
			addKey(testRecord("new"), Hasher{}),
			setKey("k1", fieldRevoked, "true", func(k *KeyRecord) { k.Revoked = true }),
			setAccount("acme", fieldPlan, "pro", func(a *Account) { a.Plan = "pro" }),
		} {
			after, err := NewKeysFile("f", Hasher{}).apply([]byte(text), c)
			if err != nil {
				continue
			}
			if doc, err = decodeKeys("f", after, Hasher{}); err != nil {
				t.Fatalf("%q became %q: %v", text, after, err)
			}
			if now := doc.listing(); len(now.Keys) < len(before.Keys) || len(now.Accounts) != len(before.Accounts) {
				t.Fatalf("%q became %q", text, after)
			}
			if bytes.Count(after, []byte("#")) < strings.Count(text, "#") {
				t.Fatalf("%q lost a comment: %q", text, after)
			}
		}
	})
}

func FuzzRedisRecord(f *testing.F) {
	f.Add("k1", "buyer", "acme", "inquiries:read", "2027-01-01T00:00:00Z", "1", "paid", "pro")
	f.Add("", "", "", "", "", "", "", "")
	f.Add("k", "seller", "a", " ", "x", "0", "none", "a b")
	f.Fuzz(func(t *testing.T, id, kind, account, scopes, expires, revoked, access, plan string) {
		k, err := parseKey(Digest{}, []any{id, kind, account, scopes, expires, revoked})
		if err == nil && (checkID(k.ID) != "" || checkKind(k.Kind) != "" || checkID(k.Account) != "") || err != nil && !errors.Is(err, errGarbage) {
			t.Fatalf("key %+v, %v", k, err)
		}
		if err == nil && revoked == revokedMark && !k.Revoked {
			t.Fatal("a revoked key is good")
		}
		a, err := parseAccount("acme", []any{access, plan})
		if err == nil && a.validate() != nil || err != nil && !errors.Is(err, errGarbage) {
			t.Fatalf("account %+v, %v", a, err)
		}
		if err == nil && (a.APIAccess == AccessPaid) != (access == AccessPaid) {
			t.Fatalf("%q is paid access", access)
		}
	})
}

func FuzzChange(f *testing.F) {
	f.Add("5 key " + digestOf("k"))
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
		k := KeyRecord{ID: id, Kind: KindBuyer, Account: account, Scopes: []string{ScopeInquiriesRead}, Revoked: revoked}
		if expires > 0 && expires < 1<<35 {
			k.ExpiresAt = time.Unix(expires, 0).UTC()
		}
		if k.validate() != nil {
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
		got, err := parseKey(Digest{}, values)
		if err != nil || !(Listing{Keys: []KeyRecord{got}}).equal(Listing{Keys: []KeyRecord{k}}) {
			t.Fatalf("%+v came back as %+v, %v", k, got, err)
		}
	})
}
