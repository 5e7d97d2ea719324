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

	"github.com/gofrs/flock"
	"pgregory.net/rapid"

	"inquiry-gateway/auth"
)

func testRecord(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead}}
}

// Changes of a listing that has the account acme.
func addK2(l *auth.Listing) error { l.Keys = append(l.Keys, testRecord("k2")); return nil }

func revokeK1(l *auth.Listing) error {
	k, err := l.Key("k1")
	if err == nil {
		k.Revoked = true
	}
	return err
}

func payAcme(l *auth.Listing) error {
	if a := l.Account("acme"); a != nil {
		a.APIAccess = auth.AccessPaid
	}
	return nil
}

// A change writes its record in a line of its own and keeps all other lines; what stands
// otherwise is left to a person.
func TestEditsKeepTheirSurroundings(t *testing.T) {
	k1 := "id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme" // by hand
	block := "id: k1\n    sha256: " + digestOf("k1") + " # by hand\n    kind: buyer\n    account: acme\n"
	revoked := `{id: k1, kind: buyer, account: acme, scopes: [], revoked: true, sha256: "` + digestOf("k1") + `"}`
	k2 := `{id: k2, kind: seller, account: acme, scopes: ["inquiries:read"], sha256: "` + digestOf("k2") + `"}`
	acme := "accounts: [{id: acme}]\n"
	for name, tt := range map[string]struct {
		change        func(*auth.Listing) error
		before, after string // after is empty: to be edited by hand
	}{
		"add to empty":             {addK2, acme + "keys: [] # none yet\n", acme + "keys: # none yet\n  - " + k2 + "\n"},
		"add without a section":    {addK2, "accounts: [{id: acme}]", acme + "keys:\n  - " + k2 + "\n"},
		"add to a section of none": {addK2, "keys:\n  # none\n" + acme, "keys:\n  - " + k2 + "\n  # none\n" + acme},
		"add at the end": {addK2, acme + "keys:\n  - {" + k1 + "}\n  # kept\n\n# end\n",
			acme + "keys:\n  - {" + k1 + "}\n  - " + k2 + "\n  # kept\n\n# end\n"},
		"add behind a block": {addK2, "keys:\n  - " + block + "\n# who\n" + acme, "keys:\n  - " + block + "  - " + k2 + "\n\n# who\n" + acme},
		"add without indent": {addK2, acme + "keys:\n- {" + k1 + "}", acme + "keys:\n- {" + k1 + "}\n- " + k2 + "\n"},
		"add with CRLF and BOM": {addK2, "\ufeffaccounts:\r\n  - {id: acme}\r\nkeys:\r\n  - {" + k1 + "}\r\n",
			"\ufeffaccounts:\r\n  - {id: acme}\r\nkeys:\r\n  - {" + k1 + "}\r\n  - " + k2 + "\r\n"},
		"add with CRLF to nothing": {addK2, "\ufeffkeys: []\r\n" + acme, "\ufeffkeys:\r\n  - " + k2 + "\r\n" + acme},
		"revoke": {revokeK1, acme + "keys:\n  - {" + k1 + ", } # }完}\n  - " + k2 + "\n",
			acme + "keys:\n  - " + revoked + " # }完}\n  - " + k2 + "\n"},
		"revoke where it says false": {revokeK1, acme + "keys:\n-   {\"id\": 'k1', revoked: false, " + k1[len("id: k1, "):] + "}", acme + "keys:\n-   " + revoked},
		"revoke with CRLF":           {revokeK1, acme + "keys:\r\n- {" + k1 + "}\r\n", acme + "keys:\r\n- " + revoked + "\r\n"},
		"revoke again":               {revokeK1, acme + "keys: [" + revoked + "]\n", acme + "keys: [" + revoked + "]\n"},
		"pay": {payAcme, "accounts:\n  # the first\n  - {id: acme, plan: \"on\"} # best\n",
			"accounts:\n  # the first\n  - {id: acme, api_access: paid, plan: \"on\"} # best\n"},

		"add to a flow":          {addK2, acme + "keys: [{" + k1 + "}]\n", ""},
		"add to all in one line": {addK2, "{accounts: [{id: acme}], keys: []}\n", ""},
		"add to null":            {addK2, acme + "keys: ~\n", ""},
		"add behind the end":     {addK2, acme + "...\n", ""},
		"revoke in a flow":       {revokeK1, acme + "keys: [{" + k1 + "}]\n", ""},
		"revoke a block":         {revokeK1, acme + "keys:\n  - " + block, ""},
		"revoke over two lines":  {revokeK1, acme + "keys:\n  - {id: k1,\n     " + k1[len("id: k1, "):] + "}\n", ""},
		"pay in a flow":          {payAcme, acme, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			writeFile(t, path, tt.before)
			err := NewEditor(path, auth.Hasher{}).Change(t.Context(), auth.Names{}, tt.change)
			if (err != nil) != (tt.after == "") || err != nil && !errors.Is(err, ErrLayout) {
				t.Error(err)
			}
			if got, want := readFile(t, path), cmp.Or(tt.after, tt.before); got != want {
				t.Errorf("the file is\n%s\nwant\n%s", got, want)
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

// A file is made for its owner only. One that is there keeps its mode, and a link to it stays.
func TestEditsKeepModeAndLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.Symlink("real.yaml", link); err != nil {
		t.Fatal(err)
	}
	add := func(path, id string) error {
		return NewEditor(path, auth.Hasher{}).Add(t.Context(), testRecord(id), &auth.Account{APIAccess: auth.AccessPaid})
	}
	mode := func() os.FileMode {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	if err := add(link, "k1"); err == nil {
		t.Error("a link to nowhere was followed")
	}
	if err := add(file, "k 1"); err == nil {
		t.Error("a bad id was taken")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed edit left a file: %v", err)
	}
	if err := add(file, "k1"); err != nil || mode() != 0o600 {
		t.Errorf("a new file has the mode %v, %v", mode(), err)
	}
	if err := errors.Join(os.Chmod(file, 0o640), add(link, "k2")); err != nil || mode() != 0o640 {
		t.Errorf("the file has the mode %v, %v", mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	grown := readFile(t, file)
	grown += "#" + strings.Repeat(" ", MaxSize-len(grown)-2) + "\n"
	writeFile(t, file, grown)
	if err := add(file, "k3"); err == nil || !strings.Contains(err.Error(), "keep this many keys in Redis") || readFile(t, file) != grown {
		t.Errorf("a file that would be too large: %v", err)
	}
}

func TestWritersExcludeEachOther(t *testing.T) {
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

// Any good id can be added and changed: apply itself compares what the new text says with what was meant.
func TestEveryIDCanBeWritten(t *testing.T) {
	f := &records{"f", auth.Hasher{}}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[!-~]{1,12}`).Draw(t, "id")
		text, err := f.apply([]byte("accounts: # c\n  - {id: acme} # c\nkeys: []"), func(l *auth.Listing) error {
			k := testRecord(id)
			k.Account, k.Scopes = id, []string{"other:" + strings.NewReplacer(`"`, "", `\`, "").Replace(id)}
			l.Keys, l.Accounts = append(l.Keys, k), append(l.Accounts, auth.Account{ID: id, APIAccess: auth.AccessNone, Plan: id})
			return nil
		})
		if err == nil {
			text, err = f.apply(text, func(l *auth.Listing) error {
				l.Keys[0].Revoked, l.Accounts[1].Plan = true, ""
				return nil
			})
		}
		if err != nil || bytes.Count(text, []byte(" # c\n")) != 2 {
			t.Fatalf("%v: %s", err, text)
		}
	})
}

// Whatever a file looks like, an edit fails or makes what was meant of it, and loses no comment.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{
		"accounts: [{id: acme}]\nkeys: [] # none\n",
		"accounts:\n- id: acme\nkeys:\n- id: k1\n  sha256: " + digestOf("k1") + "\n  kind: buyer # c\n  account: acme\n",
		"accounts:\n  - {id: acme} # c\nkeys: # c\n  - {id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme} # c\n",
		"keys: [{id: k1, sha256: " + digestOf("k1") + ", kind: buyer, account: acme,}]\naccounts: [{id: 'acme'}]",
		"\ufeff# c\r\naccounts: [{id: \"acme\"}]\r\nkeys:\r\n",
		"accounts:\n  - {id: acme, plan: \"} # c\"} # }\n  - {id: '}'}#}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		for _, change := range []func(*auth.Listing) error{addK2, revokeK1, payAcme} {
			after, err := (&records{"f", auth.Hasher{}}).apply([]byte(text), change)
			if err != nil {
				continue
			}
			doc, err := decode("f", after, auth.Hasher{})
			if err != nil || len(doc.Keys) < len(before.Keys) || len(doc.Accounts) != len(before.Accounts) || bytes.Count(after, []byte("#")) < strings.Count(text, "#") {
				t.Fatalf("%q became %q: %v", text, after, err)
			}
		}
	})
}
