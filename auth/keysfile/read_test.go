package keysfile

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/cases"
)

// digestOf is the hexadecimal SHA-256 of a key.
func digestOf(key string) string { return auth.Hasher{}.Hash(key).Hex() }

// oneKey is a file with an account and a key of these fields, in its third line.
func oneKey(fields string) string { return "accounts: [{id: a}]\nkeys:\n- {" + fields + "}\n" }

// goodKey is what oneKey needs for a good key.
var goodKey = "id: k, kind: buyer, account: a, sha256: " + digestOf("k")

func TestRead(t *testing.T) {
	text := `
accounts: [{id: acme, api_access: paid, plan: pro}, {id: 4711}]  # numbers are ids too
keys:
  - {id: k1, sha256: ` + digestOf("k1") + `, kind: buyer, account: acme, scopes: ["inquiries:read"],
     expires_at: 2027-01-01T00:00:00+09:00, revoked: false}
  - id: k2
    sha256: "` + strings.ToUpper(digestOf("k2")) + `"
    kind: seller
    account: 4711
    expires_at: null
    revoked: true
`
	doc, err := decode("keys.yaml", []byte(text), auth.Hasher{})
	if err != nil {
		t.Fatal(err)
	}
	want := auth.KeySet{
		Accounts: []auth.Account{{ID: "acme", APIAccess: auth.AccessPaid, Plan: "pro"}, {ID: "4711", APIAccess: auth.AccessNone}},
		Keys: []auth.KeyRecord{
			{ID: "k1", Digest: auth.Hasher{}.Hash("k1"), Kind: auth.KindBuyer, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead},
				ExpiresAt: time.Date(2026, 12, 31, 15, 0, 0, 0, time.UTC)},
			{ID: "k2", Digest: auth.Hasher{}.Hash("k2"), Kind: auth.KindSeller, Account: "4711", Revoked: true},
		},
	}
	if !doc.KeySet.Equal(want) {
		t.Errorf("read %+v", doc.KeySet)
	}
	for _, hex := range []string{ // a digest may look like a number
		strings.Repeat("1", 64), strings.Repeat("0", 63) + "7", "0b" + strings.Repeat("1", 62),
		"1e" + strings.Repeat("9", 62), strings.Repeat("1", 31) + "e" + strings.Repeat("2", 32),
	} {
		doc, err := decode("keys.yaml", []byte(oneKey("id: k, kind: buyer, account: a, sha256: "+hex)), auth.Hasher{})
		if err != nil || doc.Keys[0].Digest.Hex() != hex {
			t.Errorf("%s: %v", hex, err)
		}
	}
}

// withDigests puts the digest of k in the place of <k>.
func withDigests(text string) string {
	return regexp.MustCompile("<k.?>").ReplaceAllStringFunc(text, func(name string) string { return digestOf(strings.Trim(name, "<>")) })
}

// Every mistake is told at its line, and all of them at once.
func TestMistakes(t *testing.T) {
	cases.Results(t, "testdata/mistakes.txt", func(t *testing.T, text string) []string {
		_, err := decode("f", []byte(withDigests(text)), auth.Hasher{})
		return strings.Split(fmt.Sprint(err), "\n")
	})
	_, err := decode("f", []byte("keys:\n"+strings.Repeat("- x\n", 500)), auth.Hasher{})
	if err == nil || strings.Count(err.Error(), "\n") != 100 || !strings.HasSuffix(err.Error(), "f: 400 more problems") {
		t.Errorf("500 mistakes: %v", err)
	}
	peppered, err := auth.NewHasher([]byte("0123456789abcdef-pepper"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode("f", []byte(strings.Replace(oneKey(goodKey), "sha256", "hmac_sha256", 1)), peppered); err != nil {
		t.Errorf("a digest made with the pepper: %v", err)
	}
	if _, err := decode("f", []byte(oneKey(goodKey)), peppered); err == nil || !strings.Contains(err.Error(), "without a pepper") {
		t.Errorf("a digest without the pepper: %v", err)
	}
}

// A key that was pasted into the wrong place does not end up in a log whole.
func TestMistakesDoNotRepeatKeys(t *testing.T) {
	key, err := auth.Generate(auth.KindBuyer)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"kind", "account", "sha256", "expires_at", "revoked", "scopes", key} {
		_, err := decode("f", []byte("accounts: []\nkeys: [{id: k, "+field+": "+key+"}]\n"), auth.Hasher{})
		if err == nil || strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Twenty thousand keys take at most most bytes beside what the test itself has.
func TestLargeFileTakesLittleMemory(t *testing.T) {
	testkit.SkipUnderRace(t)
	const most = 96 << 20
	var text strings.Builder
	text.WriteString("accounts: [{id: acme}]\nkeys:\n")
	for i := range 20_000 {
		text.WriteString("  - " + keyRecord(testRecord(fmt.Sprint("k", i)), auth.Hasher{}) + "\n")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	runtime.GC()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	before, peak := heap[0].Value.Uint64(), uint64(0)
	done := make(chan bool)
	go func() {
		defer close(done)
		if doc, err := decode("f", []byte(text.String()), auth.Hasher{}); err != nil || len(doc.Keys) != 20_000 {
			t.Errorf("read %d keys, %v", len(doc.Keys), err)
		}
	}()
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-done:
			if grown := peak - before; grown > most {
				t.Errorf("%d bytes more for %d bytes", grown, text.Len())
			}
			return
		case <-tick.C:
			metrics.Read(heap)
			peak = max(peak, before, heap[0].Value.Uint64())
		}
	}
}

// What is read holds only good records of accounts that are there.
func FuzzRead(f *testing.F) {
	f.Add(oneKey(goodKey + `, scopes: ["inquiries:read"]`))
	f.Add("accounts:\n- id: a\n  api_access: paid\nkeys:\n- id: k\n  revoked: true\n")
	f.Add("")
	f.Add("keys: &a [*a]\n")
	f.Add("# c\n---\naccounts: # c\n# c\n- id: a\n\n  api_access: paid\n\nkeys:\n  # c\n" +
		"  - {id: k, kind: buyer,\n     account: a, sha256: " + digestOf("k") + "}\n  -\n    id: l\n# c\n")
	f.Add("accounts:\n  - id: 'a\n\n    b'\n  - id: |\n      - x\n    plan: >-\n     p\n")
	f.Add("? {a: b}\n: [c]\n")
	f.Add("<<: {a: b}\nkeys: !!binary x\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		for _, a := range doc.Accounts {
			if a.Validate() != nil {
				t.Fatalf("account %+v", a)
			}
		}
		for _, k := range doc.Keys {
			if k.Validate() != nil || doc.Account(k.Account) == nil || k.Digest == (auth.Digest{}) {
				t.Fatalf("key %+v", k)
			}
		}
	})
}
