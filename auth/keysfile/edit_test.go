package keysfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
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
	made := `{id: k1, kind: buyer, account: acme, scopes: [], sha256: "` + digestOf("k1") + `"}`
	revoked := strings.Replace(made, "[]", "[], revoked: true", 1)
	add := func(f *auth.Editor) error { return f.Add(context.Background(), testRecord("k2"), nil) }
	revoke := func(f *auth.Editor) error { return f.Revoke(context.Background(), "k1") }
	pay := func(f *auth.Editor) error {
		return f.SetAccount(context.Background(), auth.AccountChange{ID: "acme", APIAccess: auth.AccessPaid})
	}
	const acme = "accounts: [{id: acme}]\n"
	tests := map[string]struct {
		edit          func(*auth.Editor) error
		before, after string // after is empty: to be edited by hand
	}{
		"add to empty":              {add, acme + "keys: [] # none yet\n", acme + "keys: # none yet\n  - " + line("k2") + "\n"},
		"add without a section":     {add, "accounts: [{id: acme}]", acme + "keys:\n  - " + line("k2") + "\n"},
		"add to a section of none":  {add, "keys:\n  # none\n" + acme, "keys:\n  - " + line("k2") + "\n  # none\n" + acme},
		"add at the end":            {add, acme + "keys:\n  - {" + old + "}\n  # keep me\n\n# the end\n", acme + "keys:\n  - {" + old + "}\n  - " + line("k2") + "\n  # keep me\n\n# the end\n"},
		"add behind a block":        {add, "keys:\n  - " + oldBlock + "\n# who\n" + acme, "keys:\n  - " + oldBlock + "  - " + line("k2") + "\n\n# who\n" + acme},
		"add without indent":        {add, acme + "keys:\n- {" + old + "}", acme + "keys:\n- {" + old + "}\n- " + line("k2") + "\n"},
		"add with CRLF and BOM":     {add, "\ufeffaccounts:\r\n  - {id: acme}\r\nkeys:\r\n  - {" + old + "}\r\n", "\ufeffaccounts:\r\n  - {id: acme}\r\nkeys:\r\n  - {" + old + "}\r\n  - " + line("k2") + "\r\n"},
		"add with CRLF to nothing":  {add, "\ufeffkeys: []\r\n" + acme, "\ufeffkeys:\r\n  - " + line("k2") + "\r\n" + acme},
		"revoke":                    {revoke, acme + "keys:\n  - {" + old + ", } # }完}\n  - " + line("k2") + "\n", acme + "keys:\n  - " + revoked + " # }完}\n  - " + line("k2") + "\n"},
		"revoke with a false there": {revoke, acme + "keys:\n-   {\"id\": 'k1', revoked: false, " + old[len("id: k1, "):] + "}", acme + "keys:\n-   " + revoked},
		"revoke again":              {revoke, acme + "keys: [{" + old + ", revoked: true}]\n", acme + "keys: [{" + old + ", revoked: true}]\n"},
		"pay":                       {pay, "accounts:\n  # the first\n  - {id: acme, plan: \"on\"} # best\n", "accounts:\n  # the first\n  - {id: acme, api_access: paid, plan: \"on\"} # best\n"},

		"add to a flow":          {add, acme + "keys: [{" + old + "}]\n", ""},
		"add to all in one line": {add, "{accounts: [{id: acme}], keys: []}\n", ""},
		"add to null":            {add, acme + "keys: ~\n", ""},
		"add behind the end":     {add, acme + "...\n", ""},
		"revoke in a flow":       {revoke, acme + "keys: [{" + old + "}]\n", ""},
		"revoke a block":         {revoke, acme + "keys:\n  - " + oldBlock, ""},
		"revoke over two lines":  {revoke, acme + "keys:\n  - {id: k1,\n     " + old[len("id: k1, "):] + "}\n", ""},
		"pay in a flow":          {pay, acme, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			writeFile(t, path, tt.before)
			err := tt.edit(NewEditor(path, auth.Hasher{}))
			if want := cmp.Or(tt.after, tt.before); readFile(t, path) != want {
				t.Errorf("the file is\n%s\nwant\n%s", readFile(t, path), want)
			}
			if (err != nil) != (tt.after == "") || err != nil && !errors.Is(err, ErrLayout) {
				t.Error(err)
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
	lock := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewEditor(path, auth.Hasher{}).Revoke(ctx, "k1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait for the lock that was cut short: %v", err)
	}
}

// Whatever is done to a file, its comments stay, in their order, and it says
// what was done.
func TestKeysFileProperties(t *testing.T) {
	const start = "# 一\naccounts: # 二\n  - {id: acme} # 三\n# 四\nkeys: # 五\n  - {id: k0, kind: seller, account: acme, sha256: %s} # 六\n# 七\n  # 八\n"
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
	f.Add("accounts:\n  - {id: acme} # c\nkeys: # c\n  - {id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme} # c\n")
	f.Add("keys: [{id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme,}]\naccounts: [{id: 'acme'}]")
	f.Add("\ufeff# c\r\naccounts: [{id: \"acme\"}]\r\nkeys:\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		before := doc.Listing
		for _, change := range []func(*auth.Listing) error{
			func(l *auth.Listing) error { l.Keys = append(l.Keys, testRecord("new")); return nil },
			func(l *auth.Listing) error {
				k, err := l.Key("k1")
				if err == nil {
					k.Revoked = true
				}
				return err
			},
			func(l *auth.Listing) error {
				if a := l.Account("acme"); a != nil {
					a.Plan = "pro"
				}
				return nil
			},
		} {
			after, err := (&records{"f", auth.Hasher{}}).apply([]byte(text), change)
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
