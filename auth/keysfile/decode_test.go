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

func TestDecodeKeys(t *testing.T) {
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
		t.Fatalf("decoded %+v", doc.Listing)
	}
}

// A digest may consist of digits only, or look like a number with an exponent.
func TestDecodeDigestsThatLookLikeNumbers(t *testing.T) {
	for _, hex := range []string{
		strings.Repeat("1", 64), strings.Repeat("0", 63) + "7", "1e" + strings.Repeat("9", 62), strings.Repeat("1", 31) + "e" + strings.Repeat("2", 32),
		"0b" + strings.Repeat("1", 62),
	} {
		text := "accounts: [{id: a}]\nkeys: [{id: k, kind: buyer, account: a, sha256: " + hex + "}]\n"
		doc, err := decode("keys.yaml", []byte(text), auth.Hasher{})
		if err != nil || doc.Keys[0].Digest.Hex() != hex {
			t.Errorf("%s: %v", hex, err)
		}
	}
}

func TestDecodeKeysProblems(t *testing.T) {
	key := func(fields string) string {
		return "accounts: [{id: a}]\nkeys:\n- {" + fields + "}\n"
	}
	digest := "sha256: " + digestOf("k")
	good := "id: k, kind: buyer, account: a, " + digest
	tests := map[string]struct {
		text string
		want []string // every problem, in order
	}{
		"empty":             {"", []string{"f:1: the file is empty"}},
		"comments only":     {"# nothing\n", []string{"f:1: the file is empty"}},
		"two documents":     {"keys: []\n---\nkeys: []\n", []string{"f:3: a keys file is one YAML document"}},
		"a list":            {"- a\n", []string{"f:1: must be a mapping of accounts, keys"}},
		"not YAML":          {"keys: [\n", []string{"f:1: "}},
		"unknown section":   {"key: []\n", []string{"f:1: key: is not known here"}},
		"section twice":     {"keys: []\nkeys: []\n", []string{"f:2: mapping key"}},
		"no list":           {"keys: k1\n", []string{"f:1: keys: must be a list"}},
		"no mapping":        {"keys:\n- k1\n", []string{"f:2: keys[0]: must be a mapping"}},
		"unknown field":     {key(good + ", scope: x"), []string{"f:3: keys[0].scope: is not known here"}},
		"all missing":       {key("revoked: false"), []string{"keys[0].id: is missing", "keys[0].kind: is \"\"", "keys[0].account: is missing", "keys[0].sha256: is missing"}},
		"bad hex":           {key("id: k, kind: buyer, account: a, sha256: abc"), []string{"f:3: keys[0].sha256: must be 64 hexadecimal digits"}},
		"bad kind":          {key("id: k, kind: admin, account: a, " + digest), []string{`f:3: keys[0].kind: is "admin": use buyer or seller`}},
		"unknown account":   {key("id: k, kind: buyer, account: b, " + digest), []string{`f:3: keys[0].account: there is no account "b"`}},
		"bad scope":         {key(good + ", scopes: [\"inquiry read\"]"), []string{"f:3: keys[0].scopes[0]: may hold visible"}},
		"scope twice":       {key(good + `, scopes: ["inquiries:read", "inquiries:read"]`), []string{"f:3: keys[0].scopes[1]: stands here twice"}},
		"scopes no list":    {key(good + `, scopes: "inquiries:read"`), []string{"keys[0].scopes: must be a list"}},
		"bad time":          {key(good + ", expires_at: 2027-01-01"), []string{`f:3: keys[0].expires_at: is "2027-01-01": write a time as`}},
		"bad bool":          {key(good + `, revoked: "yes"`), []string{"f:3: keys[0].revoked: must be true or false"}},
		"bad id":            {key(`id: "a b", kind: buyer, account: a, ` + digest), []string{"keys[0].id: may hold visible ASCII"}},
		"long id":           {key(`id: ` + strings.Repeat("i", 129) + `, kind: buyer, account: a, ` + digest), []string{"keys[0].id: is longer than 128"}},
		"null id":           {key(`id: ~, kind: buyer, account: a, ` + digest), []string{"keys[0].id: has no value"}},
		"alias":             {"accounts: [{id: &x a}]\nkeys: []\n", []string{"accounts[0].id: anchors, aliases and tags"}},
		"merge key":         {"accounts: [{id: a, <<: {plan: p}}]\nkeys: []\n", []string{"accounts[0].<<: is not known"}},
		"wrong sort":        {key("id: k, kind: buyer, account: a, hmac_sha256: " + digestOf("k")), []string{"keys[0].hmac_sha256: is a digest made with a pepper"}},
		"duplicate id":      {key(good) + "- {id: k, kind: buyer, account: a, sha256: " + digestOf("l") + "}\n", []string{"f:4: keys[1].id: is the same as in line 3"}},
		"duplicate digest":  {key(good) + "- {id: l, kind: buyer, account: a, " + digest + "}\n", []string{"f:4: keys[1].sha256: is the same as in line 3"}},
		"duplicate account": {"accounts: [{id: a}, {id: a}]\n", []string{"f:1: accounts[1].id: is the same as in line 1"}},
		"bad access":        {"accounts:\n- id: a\n  api_access: free\n", []string{`f:3: accounts[0].api_access: is "free": use paid or none`}},
		"bad plan":          {"accounts:\n- id: a\n  plan: a b\n", []string{"f:3: accounts[0].plan: may hold visible ASCII"}},
		"several at once": {"accounts: [{id: a, api_access: x}]\nkeys:\n- {id: k}\n- {id: k}\n", []string{
			"accounts[0].api_access", "keys[0].kind", "keys[0].account", "keys[0].sha256", "keys[1].kind", "keys[1].account", "keys[1].sha256", "keys[1].id: is the same",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode("f", []byte(tt.text), auth.Hasher{})
			if err == nil {
				t.Fatal("was accepted")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("%d problems instead of %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("problem %q, want %q", lines[i], want)
				}
			}
			var fe *FileError
			if !errors.As(err, &fe) || fe.Line < 1 {
				t.Errorf("%v is no FileError", err)
			}
		})
	}
}

func TestDecodeKeysWithPepper(t *testing.T) {
	h, err := auth.NewHasher([]byte("0123456789abcdef-pepper"))
	if err != nil {
		t.Fatal(err)
	}
	text := "accounts: [{id: a}]\nkeys: [{id: k, kind: buyer, account: a, %s: " + h.Hash("k").Hex() + "}]\n"
	if _, err := decode("f", []byte(fmt.Sprintf(text, auth.FieldHMAC)), h); err != nil {
		t.Error(err)
	}
	if _, err := decode("f", []byte(fmt.Sprintf(text, auth.FieldSHA256)), h); err == nil || !strings.Contains(err.Error(), "without a pepper") {
		t.Errorf("a plain digest next to a pepper: %v", err)
	}
}

func TestDecodeKeysBoundsItsReport(t *testing.T) {
	text := "keys:\n" + strings.Repeat("- x\n", 10*maxProblems)
	_, err := decode("f", []byte(text), auth.Hasher{})
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.HasSuffix(err.Error(), "f: 450 more problems") {
		t.Fatalf("reports %v", err)
	}
}

// A key that was pasted into the wrong place must not end up in a log whole.
func TestDecodeKeysDoesNotRepeatKeys(t *testing.T) {
	key, err := auth.Generate(auth.KindBuyer)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"kind", "account", "sha256", "expires_at", "revoked", "scopes", key} {
		text := "accounts: []\nkeys: [{id: k, " + field + ": " + key + "}]\n"
		_, err := decode("f", []byte(text), auth.Hasher{})
		if err == nil || strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%s: %v", field, err)
		}
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

// The largest file is read in little memory, and in another form refused: as a whole it would
// take a hundred times its size.
func TestLargeFileTakesLittleMemory(t *testing.T) {
	testkit.Computes(t)
	var inLines, inFlow strings.Builder
	inLines.WriteString("accounts: [{id: acme}]\nkeys:\n")
	inFlow.WriteString("accounts: [{id: acme}]\nkeys: [\n")
	for i := 0; inLines.Len() < MaxSize-200; i++ {
		record := keyRecord(testRecord(fmt.Sprint("k", i)), auth.Hasher{})
		inLines.WriteString("  - " + record + "\n")
		inFlow.WriteString(record + ",\n")
	}
	inFlow.WriteString("]\n")
	peak := func(text string) (grown uint64, doc *document, err error) {
		defer debug.SetGCPercent(debug.SetGCPercent(50))
		data := []byte(text)
		runtime.GC()
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		done := make(chan bool)
		go func() {
			defer close(done)
			doc, err = decode("f", data, auth.Hasher{})
		}()
		for {
			select {
			case <-done:
				return grown, doc, err
			default:
				metrics.Read(sample)
				grown = max(grown, sample[0].Value.Uint64()-min(before, sample[0].Value.Uint64()))
				runtime.Gosched()
			}
		}
	}
	grown, doc, err := peak(inLines.String())
	if err != nil || len(doc.Keys) < 20_000 || grown > 64<<20 {
		t.Errorf("%d bytes more for %d bytes, %v", grown, inLines.Len(), err)
	}
	t.Logf("%d KiB more", grown>>10)
	grown, _, err = peak(inFlow.String())
	if err == nil || !strings.Contains(err.Error(), "f:1: is too long for this form") || grown > 64<<20 {
		t.Errorf("%d bytes more, %v", grown, err)
	}
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add("accounts: [{id: a}]\nkeys: [{id: k, kind: buyer, account: a, sha256: " + digestOf("k") + ", scopes: [\"inquiries:read\"]}]\n")
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
		known := make(map[string]bool)
		for _, a := range doc.Accounts {
			if a.Validate() != nil {
				t.Fatalf("account %+v", a)
			}
			known[a.ID] = true
		}
		for _, k := range doc.Keys {
			if k.Validate() != nil || !known[k.Account] || k.Digest == (auth.Digest{}) {
				t.Fatalf("key %+v", k)
			}
		}
	})
}
