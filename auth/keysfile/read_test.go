package keysfile

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
)

// digestOf is the hexadecimal SHA-256 of a key.
func digestOf(key string) string { return auth.Hasher{}.Hash(key).Hex() }

// oneKey is a file with an account and a key of these fields, in its third line.
func oneKey(fields string) string { return "accounts: [{id: a}]\nkeys:\n- {" + fields + "}\n" }

// goodKey is what oneKey needs for a good key with the digest of "k".
var goodKey = "id: k, kind: buyer, account: a, sha256: " + digestOf("k")

func TestRead(t *testing.T) {
	text := `
accounts: [{id: acme, api_access: paid, plan: pro}, {id: 4711}]  # numbers are ids too
keys:
  - {id: k1, sha256: ` + digestOf("k1") + `, kind: buyer, account: acme, scopes: ["inquiries:read"], expires_at: 2027-01-01T00:00:00+09:00, revoked: false}
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
	want := auth.Listing{
		Accounts: []auth.Account{{ID: "acme", APIAccess: auth.AccessPaid, Plan: "pro"}, {ID: "4711", APIAccess: auth.AccessNone}},
		Keys: []auth.KeyRecord{
			{ID: "k1", Digest: auth.Hasher{}.Hash("k1"), Kind: auth.KindBuyer, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead},
				ExpiresAt: time.Date(2026, 12, 31, 15, 0, 0, 0, time.UTC)},
			{ID: "k2", Digest: auth.Hasher{}.Hash("k2"), Kind: auth.KindSeller, Account: "4711", Revoked: true},
		},
	}
	if !doc.Listing.Equal(want) {
		t.Errorf("read %+v", doc.Listing)
	}
	for _, hex := range []string{ // a digest may look like a number
		strings.Repeat("1", 64), strings.Repeat("0", 63) + "7", "1e" + strings.Repeat("9", 62), strings.Repeat("1", 31) + "e" + strings.Repeat("2", 32),
		"0b" + strings.Repeat("1", 62),
	} {
		doc, err := decode("keys.yaml", []byte(oneKey("id: k, kind: buyer, account: a, sha256: "+hex)), auth.Hasher{})
		if err != nil || doc.Keys[0].Digest.Hex() != hex {
			t.Errorf("%s: %v", hex, err)
		}
	}
}

// Every mistake is told at its line, in order, and all of them at once.
func TestMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"empty":             {"", []string{"f:1: the file is empty"}},
		"comments only":     {"# nothing\n", []string{"f:1: the file is empty"}},
		"two documents":     {"keys: []\n---\nkeys: []\n", []string{"f:3: a keys file is one YAML document"}},
		"a list":            {"- a\n", []string{"f:1: must be a mapping of accounts, keys"}},
		"not YAML":          {"keys: [\n", []string{"f:1: "}},
		"a record not YAML": {"keys:\n  - {id: k\n", []string{"f:2: "}},
		"unknown section":   {"key: []\n", []string{"f:1: key: is not known here"}},
		"section twice":     {"keys: []\nkeys: []\n", []string{"f:2: mapping key"}},
		"no list":           {"keys: k1\n", []string{"f:1: keys: must be a list"}},
		"no mapping":        {"keys:\n- k1\n", []string{"f:2: keys[0]: must be a mapping"}},
		"unknown field":     {oneKey(goodKey + ", scope: x"), []string{"f:3: keys[0].scope: is not known here"}},
		"all missing":       {oneKey("revoked: false"), []string{"keys[0].id: is missing", "keys[0].kind: is \"\"", "keys[0].account: is missing", "keys[0].sha256: is missing"}},
		"bad digest":        {oneKey("id: k, kind: buyer, account: a, sha256: abc"), []string{"f:3: keys[0].sha256: must be 64 hexadecimal digits"}},
		"bad kind":          {strings.Replace(oneKey(goodKey), "buyer", "admin", 1), []string{`f:3: keys[0].kind: is "admin": use buyer or seller`}},
		"bad scope":         {oneKey(goodKey + `, scopes: ["inquiry read"]`), []string{"f:3: keys[0].scopes[0]: may hold visible"}},
		"scopes no list":    {oneKey(goodKey + `, scopes: "inquiries:read"`), []string{"keys[0].scopes: must be a list"}},
		"bad time":          {oneKey(goodKey + ", expires_at: 2027-01-01"), []string{`f:3: keys[0].expires_at: is "2027-01-01": write a time as`}},
		"bad bool":          {oneKey(goodKey + `, revoked: "yes"`), []string{"f:3: keys[0].revoked: must be true or false"}},
		"no value":          {"accounts: [{id: ~}]\n", []string{"f:1: accounts[0].id: has no value"}},
		"no text":           {"accounts: [{id: [a]}]\n", []string{"f:1: accounts[0].id: must be a text"}},
		"anchor":            {"accounts: [{id: &x a}]\n", []string{"f:1: accounts[0].id: anchors, aliases and tags"}},
		"merge key":         {"accounts: [{id: a, <<: {plan: p}}]\n", []string{"f:1: accounts[0].<<: is not known"}},
		"with a pepper":     {oneKey("id: k, kind: buyer, account: a, hmac_sha256: " + digestOf("k")), []string{"f:3: keys[0].hmac_sha256: is a digest made with a pepper"}},
		"id twice":          {oneKey(goodKey) + "- {id: k, kind: buyer, account: a, sha256: " + digestOf("l") + "}\n", []string{"f:4: keys[1].id: is the same as in line 3"}},
		"digest twice":      {oneKey(goodKey) + "- {id: l, kind: buyer, account: a, sha256: " + digestOf("k") + "}\n", []string{"f:4: keys[1].sha256: is the same as in line 3"}},
		"account twice":     {"accounts: [{id: a}, {id: a}]\n", []string{"f:1: accounts[1].id: is the same as in line 1"}},
		"account not there": {strings.Replace(oneKey(goodKey), "account: a", "account: b", 1), []string{`f:3: keys[0].account: there is no account "b"`}},
		"bad access":        {"accounts:\n- id: a\n  api_access: free\n", []string{`f:3: accounts[0].api_access: is "free": use paid or none`}},
		"several": {"accounts: [{id: a, api_access: x}]\nkeys:\n- {id: k}\n- {id: k}\n", []string{
			"accounts[0].api_access", "keys[0].kind", "keys[0].account", "keys[0].sha256", "keys[1].kind", "keys[1].account", "keys[1].sha256", "keys[1].id: is the same",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode("f", []byte(tt.text), auth.Hasher{})
			lines := strings.Split(fmt.Sprint(err), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("%d mistakes instead of %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("mistake %q, want %q", lines[i], want)
				}
			}
			if told, ok := errors.AsType[*FileError](err); !ok || told.File != "f" || told.Line < 1 {
				t.Errorf("%v is no FileError", err)
			}
		})
	}
	_, err := decode("f", []byte("keys:\n"+strings.Repeat("- x\n", 500)), auth.Hasher{})
	if err == nil || strings.Count(err.Error(), "\n") != 50 || !strings.HasSuffix(err.Error(), "f: 450 more problems") {
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

// A large file is read in little memory, and in another form refused: as a whole it would take a
// hundred times its size.
func TestLargeFileTakesLittleMemory(t *testing.T) {
	testkit.Computes(t)
	const size, most = 1 << 20, 32 << 20
	var inLines, inFlow strings.Builder
	inLines.WriteString("accounts: [{id: acme}]\nkeys:\n")
	inFlow.WriteString("accounts: [{id: acme}]\nkeys: [\n")
	for i := 0; inLines.Len() < size; i++ {
		record := keyRecord(testRecord(fmt.Sprint("k", i)), auth.Hasher{})
		inLines.WriteString("  - " + record + "\n")
		inFlow.WriteString(record + ",\n")
	}
	inFlow.WriteString("]\n")
	peak := func(text string) (grown uint64, doc *document, err error) {
		defer debug.SetGCPercent(debug.SetGCPercent(50))
		data := []byte(text)
		runtime.GC()
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(heap)
		before := heap[0].Value.Uint64()
		done := make(chan bool)
		go func() {
			defer close(done)
			doc, err = decode("f", data, auth.Hasher{})
		}()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return grown, doc, err
			case <-tick.C:
				metrics.Read(heap)
				grown = max(grown, heap[0].Value.Uint64()-min(before, heap[0].Value.Uint64()))
			}
		}
	}
	grown, doc, err := peak(inLines.String())
	if err != nil || len(doc.Keys) < 5000 || grown > most {
		t.Errorf("%d bytes more for %d bytes, %v", grown, inLines.Len(), err)
	}
	grown, _, err = peak(inFlow.String())
	if err == nil || !strings.Contains(err.Error(), "f:1: is too long for this form") || grown > most {
		t.Errorf("%d bytes more, %v", grown, err)
	}
	_, err = decode("f", []byte("accounts:\n  - {id: a}\n  - {id: "+strings.Repeat("b", maxParsed)+"}\n"), auth.Hasher{})
	if err == nil || err.Error() != "f:3: accounts[1]: is too long" {
		t.Errorf("a long record: %v", err)
	}
}

// decodeWhole is decode without the division into parts.
func decodeWhole(text []byte) (auth.Listing, error) {
	r := newReader("f", auth.Hasher{})
	if body := r.body(bytes.TrimPrefix(text, []byte(byteOrderMark))); body != nil {
		root := r.mapping(body, "", fieldAccounts, fieldKeys)
		for i, n := range r.list(root, fieldAccounts) {
			r.readAccount(n, fmt.Sprint(i))
		}
		for i, n := range r.list(root, fieldKeys) {
			r.readKey(n, fmt.Sprint(i))
		}
	}
	return r.listing, errors.Join(r.problems...)
}

// What is read holds only good records of accounts that are there, and is what the file says as a whole.
func FuzzRead(f *testing.F) {
	f.Add(oneKey(goodKey + `, scopes: ["inquiries:read"]`))
	f.Add("accounts:\n- id: a\n  api_access: paid\nkeys:\n- id: k\n  revoked: true\n")
	f.Add("")
	f.Add("keys: &a [*a]\n")
	f.Add("# c\n---\naccounts: # c\n# c\n- id: a\n\n  api_access: paid\n\nkeys:\n  # c\n  - {id: k, kind: buyer,\n     account: a, sha256: " + digestOf("k") + "}\n  -\n    id: l\n# c\n")
	f.Add("accounts:\n  - id: 'a\n\n    b'\n  - id: |\n      - x\n    plan: >-\n     p\n")
	f.Add("? {a: b}\n: [c]\n")
	f.Add("<<: {a: b}\nkeys: !!binary x\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		if want, err := decodeWhole([]byte(text)); err != nil || !doc.Listing.Equal(want) {
			t.Fatalf("in parts %+v, as a whole %+v, %v", doc.Listing, want, err)
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
