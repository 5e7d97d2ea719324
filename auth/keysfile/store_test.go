package keysfile

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
)

// keysYAML is a keys file of one account with a plan and the given keys.
func keysYAML(plan string, keys ...string) string {
	var b strings.Builder
	b.WriteString("accounts: [{id: acme, api_access: paid, plan: " + plan + "}]\nkeys:\n")
	for _, k := range keys {
		b.WriteString("- {id: id-" + k + ", sha256: " + digestOf(k) + ", kind: buyer, account: acme, scopes: [\"inquiries:read\"]}\n")
	}
	return b.String()
}

var testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, s auth.Store, key string) (*auth.Grant, error) {
	t.Helper()
	return s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key), Key: auth.Secret(key)})
}

func TestFileStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, path, keysYAML("basic", "one", "two")+
		"- {id: gone, sha256: "+digestOf("gone")+", kind: buyer, account: acme, revoked: true}\n"+
		"- {id: late, sha256: "+digestOf("late")+", kind: buyer, account: acme, expires_at: 2026-11-21T12:00:00Z}\n")
	reg := prometheus.NewPedanticRegistry()
	var log bytes.Buffer
	s, err := New(path, auth.Hasher{}, auth.Options{Registerer: reg, Now: func() time.Time { return testNow }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	g, err := find(t, s, "one")
	if err != nil || g.Principal != (auth.Principal{Kind: auth.KindBuyer, Account: "acme", KeyID: "id-one", Scopes: auth.ScopeInquiriesRead, PaidAccess: true, Plan: "basic"}) {
		t.Fatalf("grant %+v, %v", g, err)
	}
	if _, err := find(t, s, "three"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("an unknown key: %v", err)
	}
	if got, err := testkit.Values(reg, "inquiry_gateway_auth_keys"); err != nil || got["active"] != 2 || got["revoked"] != 1 || got["expired"] != 1 {
		t.Errorf("keys by state: %v, %v", got, err)
	}

	writeFile(t, path, keysYAML("pro", "three"))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if g, err := find(t, s, "three"); err != nil || g.Principal.Plan != "pro" {
		t.Errorf("a new key after a reload: %v", err)
	}
	if _, err := find(t, s, "one"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("a removed key after a reload: %v", err)
	}

	for _, broken := range []string{"", "keys: [", keysYAML("pro", "x", "x")} {
		writeFile(t, path, broken)
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "stay in force") {
			t.Errorf("reload of %q: %v", broken, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reload of a file that is gone: %v", err)
	}
	if _, err := find(t, s, "three"); err != nil {
		t.Errorf("the old keys are not in force: %v", err)
	}
	if got, err := testkit.Values(reg, "inquiry_gateway_auth_reloads_total"); err != nil || got["ok"] != 2 || got["failed"] != 4 {
		t.Errorf("reloads: %v, %v", got, err)
	}
	if got, err := testkit.Values(reg, "inquiry_gateway_auth_last_reload_successful"); err != nil || got[""] != 0 {
		t.Errorf("the last reload was good: %v, %v", got, err)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 4 {
		t.Errorf("%d failed reloads in the log:\n%s", n, log.String())
	}
}

func TestNewFileStoreRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := New(filepath.Join(dir, "none.yaml"), auth.Hasher{}, auth.Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "keys new") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := New(dir, auth.Hasher{}, auth.Options{}); err == nil {
		t.Error("a folder was accepted")
	}
	path := filepath.Join(dir, "keys.yaml")
	writeFile(t, path, "keys: 1\n")
	var fe *FileError
	if _, err := New(path, auth.Hasher{}, auth.Options{}); !errors.As(err, &fe) || fe.File != path || fe.Line != 1 || fe.Key != "keys" {
		t.Errorf("a broken file: %v", err)
	}
	if err := os.Truncate(path, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := New(path, auth.Hasher{}, auth.Options{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge file: %v", err)
	}
}

// Requests see the old keys or the new ones, never a mixture or none.
func TestReloadUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, path, keysYAML("basic", "k"))
	s, err := New(path, auth.Hasher{}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := auth.NewAuthenticator(s, auth.Hasher{}, auth.Options{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				g, err := a.AuthenticateFrom(t.Context(), []string{"Bearer k"}, nil)
				if err != nil || g.Principal.Plan != "basic" && g.Principal.Plan != "pro" {
					t.Errorf("grant %+v, %v", g, err)
					return
				}
			}
		})
	}
	for i := range 60 {
		text := []string{keysYAML("basic", "k"), keysYAML("pro", "k"), "broken: ["}[i%3]
		writeFile(t, path, text)
		if err := s.Reload(); (err != nil) != (i%3 == 2) {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	close(done)
	wg.Wait()
}
