package keysfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/auth"
)

func testRecord(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead}}
}

// line is how testRecord is written.
func line(id string) string {
	return `{id: ` + id + `, kind: seller, account: acme, scopes: ["inquiries:read"], sha256: "` + digestOf(id) + `"}`
}

func TestKeysFileEdits(t *testing.T) {
	old := "id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme"
	oldBlock := "id: k1\n    sha256: " + digestOf("k1") + " # made by hand\n    kind: buyer\n    account: acme\n"
	add := func(f *Editor) error { return f.Add(context.Background(), testRecord("k2"), nil) }
	revoke := func(f *Editor) error { return f.Revoke(context.Background(), "k1") }
	pay := func(f *Editor) error {
		return f.SetAccount(context.Background(), auth.AccountChange{ID: "acme", APIAccess: auth.AccessPaid})
	}
	tests := map[string]struct {
		edit          func(*Editor) error
		before, after string
	}{
		"add to flow": {add,
			"accounts: [{id: acme}] # all\nkeys: [{" + old + "}] # one\n",
			"accounts: [{id: acme}] # all\nkeys: [{" + old + "}, " + line("k2") + "] # one\n"},
		"add to flow over lines": {add,
			"accounts: [{id: acme}]\nkeys: [\n  {" + old + "}, # one\n]\n",
			"accounts: [{id: acme}]\nkeys: [\n  {" + old + "}, # one\n" + line("k2") + "]\n"},
		"add to empty": {add,
			"accounts: [{id: acme}]\nkeys: [] # none yet\n",
			"accounts: [{id: acme}]\nkeys:\n  - " + line("k2") + " # none yet\n"},
		"add without a section": {add,
			"accounts: [{id: acme}]",
			"accounts: [{id: acme}]\nkeys:\n  - " + line("k2")},
		"add to block, at the end": {add,
			"accounts: [{id: acme}]\nkeys:\n  - {" + old + "}\n  # keep me\n\n# the end\n",
			"accounts: [{id: acme}]\nkeys:\n  - {" + old + "}\n  # keep me\n  - " + line("k2") + "\n\n# the end\n"},
		"add to block, in the middle": {add,
			"keys:\n- " + strings.ReplaceAll(oldBlock, "\n    ", "\n  ") + "\n# who\naccounts: [{id: acme}]\n",
			"keys:\n- " + strings.ReplaceAll(oldBlock, "\n    ", "\n  ") + "- " + line("k2") + "\n\n# who\naccounts: [{id: acme}]\n"},
		"add without a last line end": {add,
			"accounts: [{id: acme}]\nkeys:\n  - {" + old + "}",
			"accounts: [{id: acme}]\nkeys:\n  - {" + old + "}\n  - " + line("k2")},
		"add with CRLF and BOM": {add,
			"\ufeffaccounts: [{id: acme}]\r\nkeys:\r\n  - {" + old + "}\r\n",
			"\ufeffaccounts: [{id: acme}]\r\nkeys:\r\n  - {" + old + "}\r\n  - " + line("k2") + "\r\n"},
		"add to all in one line": {add,
			"{accounts: [{id: acme}], keys: [{" + old + "}]}\n",
			"{accounts: [{id: acme}], keys: [{" + old + "}, " + line("k2") + "]}\n"},
		"revoke flow": {revoke,
			"accounts: [{id: acme}]\nkeys: [{" + old + ", }]\n",
			"accounts: [{id: acme}]\nkeys: [{" + old + ", revoked: true}]\n"},
		"revoke block": {revoke,
			"accounts: [{id: acme}]\nkeys:\n  - " + oldBlock,
			"accounts: [{id: acme}]\nkeys:\n  - " + strings.Replace(oldBlock, "k1\n", "k1\n    revoked: true\n", 1)},
		"revoke with a false there": {revoke,
			"accounts: [{id: acme}]\nkeys:\n  - " + oldBlock + "    revoked: false # yet\n",
			"accounts: [{id: acme}]\nkeys:\n  - " + oldBlock + "    revoked: true # yet\n"},
		"revoke behind other characters": {revoke,
			"accounts: [{id: acme}] # 日本語\nkeys: [{\"id\": 'k1', " + strings.TrimPrefix(old, "id: k1, ") + ", \"revoked\": false}] # 完\n",
			"accounts: [{id: acme}] # 日本語\nkeys: [{\"id\": 'k1', " + strings.TrimPrefix(old, "id: k1, ") + ", \"revoked\": true}] # 完\n"},
		"revoke again": {revoke,
			"accounts: [{id: acme}]\nkeys: [{" + old + ", revoked: true}]\n",
			"accounts: [{id: acme}]\nkeys: [{" + old + ", revoked: true}]\n"},
		"pay": {pay,
			"accounts:\n  # the first\n  - id: acme # best\n    api_access: 'none' # for now\n",
			"accounts:\n  # the first\n  - id: acme # best\n    api_access: paid # for now\n"},
		"pay without a field": {pay,
			"accounts: [{id: acme}]\n",
			"accounts: [{id: acme, api_access: paid}]\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			writeFile(t, path, tt.before)
			if err := tt.edit(NewEditor(path, auth.Hasher{})); err != nil {
				t.Fatal(err)
			}
			if got := readFile(t, path); got != tt.after {
				t.Fatalf("the file is\n%s\nwant\n%s", got, tt.after)
			}
		})
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestKeysFileIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	f := NewEditor(path, auth.Hasher{})
	ctx := t.Context()
	if err := f.Add(ctx, testRecord("k1"), nil); !errors.Is(err, auth.ErrNoSuchAccount) {
		t.Fatalf("without an account: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a failed edit left a file")
	}
	expiring := testRecord("k1")
	expiring.ExpiresAt = testNow.Add(1500 * time.Millisecond)
	if err := f.Add(ctx, expiring, &auth.Account{APIAccess: auth.AccessPaid, Plan: "on"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(ctx, testRecord("k2"), &auth.Account{APIAccess: auth.AccessNone}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	l, err := f.List(ctx)
	if err != nil || len(l.Accounts) != 1 || l.Accounts[0] != (auth.Account{ID: "acme", APIAccess: auth.AccessPaid, Plan: "on"}) ||
		len(l.Keys) != 2 || !l.Keys[0].ExpiresAt.Equal(testNow.Add(time.Second)) || l.Keys[1].Scopes[0] != auth.ScopeInquiriesRead {
		t.Fatalf("lists %+v, %v", l, err)
	}
	if _, err := New(path, auth.Hasher{}, auth.Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestKeysFileRefuses(t *testing.T) {
	ctx := context.Background()
	plan := "a b"
	with := func(change func(*auth.KeyRecord)) func(*Editor) error {
		k := testRecord("k2")
		change(&k)
		return func(f *Editor) error { return f.Add(ctx, k, nil) }
	}
	tests := map[string]struct {
		edit func(*Editor) error
		err  error
		text string
	}{
		"same id":         {with(func(k *auth.KeyRecord) { k.ID = "k1" }), auth.ErrDuplicate, "k1"},
		"same digest":     {with(func(k *auth.KeyRecord) { k.Digest = auth.Hasher{}.Hash("k1") }), auth.ErrDuplicate, "k2"},
		"no such account": {with(func(k *auth.KeyRecord) { k.Account = "other" }), auth.ErrNoSuchAccount, "other"},
		"bad id":          {with(func(k *auth.KeyRecord) { k.ID = "a\nb" }), nil, "key id may hold"},
		"bad kind":        {with(func(k *auth.KeyRecord) { k.Kind = "admin" }), nil, "kind is"},
		"bad scope":       {with(func(k *auth.KeyRecord) { k.Scopes = []string{"x y"} }), nil, "scopes[0] may hold"},
		"scope twice":     {with(func(k *auth.KeyRecord) { k.Scopes = []string{auth.ScopeInquiriesRead, auth.ScopeInquiriesRead} }), nil, "twice"},
		"far future":      {with(func(k *auth.KeyRecord) { k.ExpiresAt = testNow.AddDate(9000, 0, 0) }), nil, "expires_at is after"},
		"no such key":     {func(f *Editor) error { return f.Revoke(ctx, "nothing") }, auth.ErrNoSuchKey, "nothing"},
		"account unknown": {func(f *Editor) error {
			return f.SetAccount(ctx, auth.AccountChange{ID: "x", APIAccess: auth.AccessPaid})
		}, auth.ErrNoSuchAccount, ""},
		"account access":   {func(f *Editor) error { return f.SetAccount(ctx, auth.AccountChange{ID: "acme", APIAccess: "free"}) }, nil, "api_access is"},
		"account plan":     {func(f *Editor) error { return f.SetAccount(ctx, auth.AccountChange{ID: "acme", Plan: &plan}) }, nil, "plan may hold"},
		"account, nothing": {func(f *Editor) error { return f.SetAccount(ctx, auth.AccountChange{ID: "acme"}) }, nil, "nothing to change"},
		"rotate unknown":   {func(f *Editor) error { _, err := f.Rotate(ctx, "nothing", testRecord("k2"), testNow); return err }, auth.ErrNoSuchKey, "nothing"},
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	before := "accounts: [{id: acme}]\nkeys: [{id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme}]\n"
	writeFile(t, path, before)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.edit(NewEditor(path, auth.Hasher{}))
			if err == nil || tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v %q", err, tt.err, tt.text)
			}
			if readFile(t, path) != before {
				t.Error("the file was changed")
			}
		})
	}
}

func TestKeysFileLayoutsItCannotEdit(t *testing.T) {
	for name, before := range map[string]string{
		"null list":      "accounts: [{id: acme}]\nkeys: ~\n",
		"one-line root":  "{accounts: [{id: acme}]}\n",
		"document's end": "accounts: [{id: acme}]\n...\n",
	} {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		writeFile(t, path, before)
		if err := NewEditor(path, auth.Hasher{}).Add(t.Context(), testRecord("k2"), nil); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v", name, err)
		}
		if readFile(t, path) != before {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestKeysFileRotate(t *testing.T) {
	ctx := t.Context()
	f := NewEditor(filepath.Join(t.TempDir(), "keys.yaml"), auth.Hasher{})
	if err := f.Add(ctx, testRecord("k1"), &auth.Account{APIAccess: auth.AccessPaid}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Rotate(ctx, "k1", testRecord("k2"), testNow); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Rotate(ctx, "k1", testRecord("k3"), testNow.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	l, err := f.List(ctx)
	if err != nil || len(l.Keys) != 3 || !l.Keys[0].ExpiresAt.Equal(testNow) || !l.Keys[2].ExpiresAt.IsZero() {
		t.Fatalf("lists %+v, %v", l.Keys, err)
	}
}

func TestGetOneKey(t *testing.T) {
	f := NewEditor(filepath.Join(t.TempDir(), "keys.yaml"), auth.Hasher{})
	if err := f.Add(t.Context(), testRecord("k1"), &auth.Account{APIAccess: auth.AccessPaid}); err != nil {
		t.Fatal(err)
	}
	if k, err := f.Get(t.Context(), "k1"); err != nil || k.Digest != testRecord("k1").Digest {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := f.Get(t.Context(), "k2"); !errors.Is(err, auth.ErrNoSuchKey) {
		t.Errorf("unknown: %v", err)
	}
}

func TestKeysFileAccounts(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	f := NewEditor(path, auth.Hasher{})
	pro, none := "pro", ""
	for _, c := range []auth.AccountChange{
		{ID: "acme", Create: true},
		{ID: "true", APIAccess: auth.AccessPaid, Plan: &pro, Create: true},
		{ID: "acme", Plan: &pro},
		{ID: "true", Plan: &none},
	} {
		if err := f.SetAccount(ctx, c); err != nil {
			t.Fatalf("%+v: %v\n%s", c, err, readFile(t, path))
		}
	}
	l, err := f.List(ctx)
	if err != nil || !slices.Equal(l.Accounts, []auth.Account{{ID: "acme", APIAccess: auth.AccessNone, Plan: "pro"}, {ID: "true", APIAccess: auth.AccessPaid}}) {
		t.Fatalf("lists %+v, %v\n%s", l.Accounts, err, readFile(t, path))
	}
}

func TestKeysFileKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "link.yaml")
	writeFile(t, file, "accounts: [{id: acme}]\n")
	if err := errors.Join(os.Chmod(file, 0o640), os.Symlink("real.yaml", link)); err != nil {
		t.Fatal(err)
	}
	if err := NewEditor(link, auth.Hasher{}).Add(t.Context(), testRecord("k1"), nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := errors.Join(os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if err := NewEditor(link, auth.Hasher{}).Add(t.Context(), testRecord("k1"), nil); err == nil {
		t.Error("a link to nowhere was followed")
	}
}

// A writer that finds no file, and then finds the one that another writer has
// just made, goes on with it.
func TestKeysFileThatAnotherWriterMakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 20_000 {
		if _, err := resolve(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeysFileWritersExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			err := NewEditor(path, auth.Hasher{}).Add(t.Context(), testRecord(fmt.Sprint("k", i)), &auth.Account{APIAccess: auth.AccessPaid})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l, err := NewEditor(path, auth.Hasher{}).List(t.Context())
	if err != nil || len(l.Keys) != writers || len(l.Accounts) != 1 {
		t.Fatalf("%d keys of %d accounts, %v", len(l.Keys), len(l.Accounts), err)
	}
	unlock, err := lockFolder(t.Context(), filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewEditor(path, auth.Hasher{}).Revoke(ctx, "k1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait for the lock that was cut short: %v", err)
	}
}

// Whatever is done to a file, its comments stay, in their order, and it says
// what was done.
func TestKeysFileProperties(t *testing.T) {
	const start = "# 一\naccounts: # 二\n  - {id: acme} # 三\n# 四\nkeys: # 五\n  - id: k0 # 六\n    kind: seller # 七\n    account: acme\n    sha256: %s\n# 八\n"
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "keys.yaml")
		if err := os.WriteFile(path, fmt.Appendf(nil, start, digestOf("k0")), 0o600); err != nil {
			t.Fatal(err)
		}
		f, ctx := NewEditor(path, auth.Hasher{}), context.Background()
		revoked := map[string]bool{"k0": false}
		ids := []string{"k0"}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				id := rapid.StringMatching(`[!-~]{1,12}`).Filter(func(s string) bool { _, taken := revoked[s]; return !taken }).Draw(t, "id")
				if err := f.Add(ctx, testRecord(id), nil); err != nil {
					t.Fatalf("add %q: %v", id, err)
				}
				revoked[id], ids = false, append(ids, id)
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "revoke")
			if err := f.Revoke(ctx, id); err != nil {
				t.Fatalf("revoke %q: %v", id, err)
			}
			revoked[id] = true
		}
		l, err := f.List(ctx)
		if err != nil || len(l.Keys) != len(ids) {
			t.Fatalf("%d keys instead of %d, %v", len(l.Keys), len(ids), err)
		}
		for i, k := range l.Keys {
			if k.ID != ids[i] || k.Revoked != revoked[k.ID] || k.Digest != (auth.Hasher{}).Hash(k.ID) {
				t.Fatalf("key %d is %+v", i, k)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		comments := strings.Map(func(r rune) rune {
			if strings.ContainsRune("一二三四五六七八", r) {
				return r
			}
			return -1
		}, string(text))
		if comments != "一二三四五六七八" {
			t.Fatalf("comments are now %s", comments)
		}
	})
}

// Whatever a file looks like, an edit either fails or makes exactly what was
// meant of it, without losing a comment.
func FuzzKeysFileEdit(f *testing.F) {
	f.Add("accounts: [{id: acme}]\nkeys: [] # none\n")
	f.Add("accounts:\n- id: acme\nkeys:\n- id: k1\n  sha256: " + digestOf("k1") + "\n  kind: buyer # c\n  account: acme\n")
	f.Add("keys: [{id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme,}]\naccounts: [{id: 'acme'}]")
	f.Add("\ufeff# c\r\naccounts: [{id: \"acme\"}]\r\nkeys:\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		before := doc.Listing
		for _, change := range []func(*auth.Listing) error{
			func(l *auth.Listing) error { return add(l, testRecord("new"), nil) },
			func(l *auth.Listing) error {
				k, err := l.Key("k1")
				if err == nil {
					k.Revoked = true
				}
				return err
			},
			func(l *auth.Listing) error { return setAccount(l, auth.AccountChange{ID: "acme", Plan: new("pro")}) },
		} {
			after, err := NewEditor("f", auth.Hasher{}).apply([]byte(text), change)
			if err != nil {
				continue
			}
			if doc, err = decode("f", after, auth.Hasher{}); err != nil {
				t.Fatalf("%q became %q: %v", text, after, err)
			}
			if len(doc.Keys) < len(before.Keys) || len(doc.Accounts) != len(before.Accounts) {
				t.Fatalf("%q became %q", text, after)
			}
			if bytes.Count(after, []byte("#")) < strings.Count(text, "#") {
				t.Fatalf("%q lost a comment: %q", text, after)
			}
		}
	})
}
