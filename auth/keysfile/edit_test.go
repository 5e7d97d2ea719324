package keysfile

import (
	"bytes"
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
	"inquiry-gateway/internal/testkit/cases"
)

func testRecord(id string) auth.KeyRecord {
	return auth.KeyRecord{
		ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead},
	}
}

// Changes of a listing that has the account acme.
func addK2(l *auth.KeySet) error { l.Keys = append(l.Keys, testRecord("k2")); return nil }

func revokeK1(l *auth.KeySet) error {
	k, err := l.Key("k1")
	if err == nil {
		k.Revoked = true
	}
	return err
}

func payAcme(l *auth.KeySet) error {
	if a := l.Account("acme"); a != nil {
		a.APIAccess = auth.AccessPaid
	}
	return nil
}

// A change writes its record in a line of its own and keeps all other lines, whatever their ends;
// what stands otherwise is left to a person.
func TestEditsKeepTheirSurroundings(t *testing.T) {
	changes := map[string]func(*auth.KeySet) error{"add": addK2, "revoke": revokeK1, "pay": payAcme}
	for _, c := range cases.Read(t, "testdata/edits.txt") {
		t.Run(c.Name, func(t *testing.T) {
			what, _, _ := strings.Cut(c.Name, ":")
			before, after, possible := strings.Cut(withDigests(c.Text), "=>\n")
			for form, written := range map[string]func(string) string{
				"as it stands":        func(s string) string { return s },
				"with CRLF and a BOM": func(s string) string { return "\ufeff" + strings.ReplaceAll(s, "\n", "\r\n") },
				"without a last end":  func(s string) string { return strings.TrimSuffix(s, "\n") },
			} {
				got, err := (&editor{"f", auth.Hasher{}}).apply([]byte(written(before)), changes[what])
				if possible != (err == nil) || err != nil && !errors.Is(err, ErrLayout) {
					t.Errorf("%s: %v", form, err)
				}
				if want := written(after); possible && strings.TrimSuffix(string(got), "\n") != strings.TrimSuffix(want, "\n") {
					t.Errorf("%s: it became\n%s\nwant\n%s", form, got, want)
				}
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
	l, err := read(path, auth.Hasher{})
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

// Any good id can be written: apply itself compares what the new text says with what was meant.
func TestEveryIDCanBeWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[!-~]{1,12}`).Draw(t, "id")
		f := &editor{"f", auth.Hasher{}}
		text, err := f.apply([]byte("accounts: # c\n  - {id: acme} # c\nkeys: []"), func(l *auth.KeySet) error {
			k := testRecord(id)
			k.Account, k.Scopes = id, []string{"other:" + strings.NewReplacer(`"`, "", `\`, "").Replace(id)}
			l.Keys, l.Accounts = append(l.Keys, k), append(l.Accounts, auth.Account{ID: id, APIAccess: auth.AccessNone, Plan: id})
			return nil
		})
		if err == nil {
			text, err = f.apply(text, func(l *auth.KeySet) error { l.Keys[0].Revoked, l.Accounts[1].Plan = true, ""; return nil })
		}
		if err != nil || bytes.Count(text, []byte(" # c\n")) != 2 {
			t.Fatalf("%v: %s", err, text)
		}
	})
}

// Whatever a file looks like, an edit fails or makes what was meant of it, and loses no comment.
func FuzzEdit(f *testing.F) {
	for _, c := range cases.Read(f, "testdata/edits.txt") {
		before, _, _ := strings.Cut(withDigests(c.Text), "=>\n")
		f.Add(before)
	}
	f.Add("\ufeff# c\r\naccounts: [{id: \"acme\"}]\r\nkeys:\r\n")
	f.Add("accounts:\n  - {id: acme, plan: \"} # c\"} # }\n  - {id: '}'}#}\n")
	f.Fuzz(func(t *testing.T, text string) {
		before, err := decode("f", []byte(text), auth.Hasher{})
		if err != nil {
			return
		}
		for _, change := range []func(*auth.KeySet) error{addK2, revokeK1, payAcme} {
			after, err := (&editor{"f", auth.Hasher{}}).apply([]byte(text), change)
			if err != nil {
				continue
			}
			doc, err := decode("f", after, auth.Hasher{})
			if err != nil || len(doc.Keys) < len(before.Keys) || len(doc.Accounts) != len(before.Accounts) {
				t.Fatalf("%q became %q: %v", text, after, err)
			}
			if bytes.Count(after, []byte("#")) < strings.Count(text, "#") {
				t.Fatalf("%q lost a comment: %q", text, after)
			}
		}
	})
}
