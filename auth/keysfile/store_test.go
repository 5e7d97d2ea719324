package keysfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
)

// keysYAML is a keys file of one account on a plan with these keys.
func keysYAML(plan string, keys ...string) string {
	text := "accounts: [{id: acme, api_access: paid, plan: " + plan + "}]\nkeys:\n"
	for _, k := range keys {
		text += "- {id: id-" + k + ", sha256: " + digestOf(k) + ", kind: buyer, account: acme}\n"
	}
	return text
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A reload brings the keys of the file into force, all of them or none: a file with a mistake, or
// that is gone, leaves the old keys in force, which metrics and the log tell.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, path, keysYAML("basic", "one", "two")+
		"- {id: gone, sha256: "+digestOf("gone")+", kind: buyer, account: acme, revoked: true}\n"+
		"- {id: late, sha256: "+digestOf("late")+", kind: buyer, account: acme, expires_at: 2026-11-21T12:00:00Z}\n")
	reg := prometheus.NewPedanticRegistry()
	var log bytes.Buffer
	now := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	s, err := New(path, auth.Hasher{}, auth.Options{Registerer: reg, Now: now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	metric := func(name, want string) {
		t.Helper()
		if got, err := testkit.Values(reg, "inquiry_gateway_auth_"+name); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, want)
		}
	}
	find := func(key, plan string, want error) {
		t.Helper()
		g, err := s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key)})
		if !errors.Is(err, want) || g != nil && g.Principal.Plan != plan {
			t.Errorf("%s: %+v, %v", key, g, err)
		}
	}
	find("one", "basic", nil)
	find("three", "", auth.ErrUnknownKey)
	metric("keys", "map[active:2 expired:1 revoked:1]")
	metric("last_reload_successful", "map[:1]")

	writeFile(t, path, keysYAML("pro", "three"))
	if err := s.Reload(false); err != nil {
		t.Fatal(err)
	}
	find("three", "pro", nil)
	find("one", "", auth.ErrUnknownKey)

	for _, broken := range []string{"", "keys: [", keysYAML("pro", "x", "x")} {
		writeFile(t, path, broken)
		if err := s.Reload(false); err == nil || !strings.Contains(err.Error(), "the old keys stay in force") {
			t.Errorf("reload of %q: %v", broken, err)
		}
	}
	if err := errors.Join(os.Remove(path), s.Reload(false)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reload of a file that is gone: %v", err)
	}
	find("three", "pro", nil)
	metric("reloads_total", "map[failed:4 ok:2]")
	metric("last_reload_successful", "map[:0]")
	failures := func(what string, want int) {
		t.Helper()
		if n := strings.Count(log.String(), "level=ERROR"); n != want {
			t.Errorf("%s: %d failed reloads in the log, want %d:\n%s", what, n, want, log.String())
		}
	}
	failures("each for a reason", 4)
	for range 3 {
		_ = s.Reload(true) // the last error
	}
	failures("more tries", 4)
	writeFile(t, path, "keys: 1\n")
	_ = s.Reload(true)
	failures("another mistake", 5)
	_ = s.Reload(false)
	failures("on demand", 6)
	writeFile(t, path, keysYAML("pro", "three"))
	if err := s.Reload(true); err != nil || strings.Count(log.String(), "keys file reloaded") != 2 {
		t.Errorf("mended: %v\n%s", err, log.String())
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	refuses := func(what, path, says string) {
		t.Helper()
		if _, err := New(path, auth.Hasher{}, auth.Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses("a missing file", filepath.Join(dir, "none.yaml"), "keys new")
	refuses("a folder", dir, "folder")
	path := filepath.Join(dir, "keys.yaml")
	writeFile(t, path, "keys: 1\n")
	refuses("a broken file", path, path+":1:7: keys: wants a list")
	if err := os.Truncate(path, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	refuses("a huge file", path, "larger than")
}

// Requests see the old keys or the new ones, never a mixture or none.
func TestReloadUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, path, keysYAML("basic", "k"))
	s, err := New(path, auth.Hasher{}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	readers.Go(func() {
		for !done.Load() {
			g, err := s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash("k")})
			if err != nil || g.Principal.Plan != "basic" && g.Principal.Plan != "pro" {
				t.Errorf("grant %+v, %v", g, err)
				return
			}
		}
	})
	for i := range 30 {
		writeFile(t, path, []string{keysYAML("basic", "k"), keysYAML("pro", "k"), "broken: ["}[i%3])
		if err := s.Reload(false); (err != nil) != (i%3 == 2) {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	done.Store(true)
	readers.Wait()
}
