package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The page is a frame without figures: nothing inline, nothing that a caller or
// the legacy system wrote.
func TestPage(t *testing.T) {
	c, _ := newConsole(t, Options{TopAccounts: NewTopAccounts(4), Version: "v9"})
	for _, path := range []string{"/", "/console/runbook"} {
		w := ask(c, httptest.NewRequest(http.MethodGet, path, nil))
		body := w.Body.String()
		if w.Code != 200 || w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		for _, bad := range []string{"style=", "<style", "onclick", "javascript:", `id="ttl"`} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %s", path, bad)
			}
		}
		if n, files := strings.Count(body, "<script"), strings.Count(body, "<script defer src="); n != files {
			t.Errorf("%s: %d scripts, %d of them files", path, n, files)
		}
	}
	if w := ask(c, httptest.NewRequest(http.MethodPost, "/", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/other", nil)); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
}

func TestAssets(t *testing.T) {
	c, _ := newConsole(t, Options{Sessions: NewSessions("s3cret", nil)})
	for name, file := range c.site {
		w := ask(c, httptest.NewRequest(http.MethodGet, "/"+name, nil))
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/assets/../pages/home.html", nil)); w.Code == 200 {
		t.Error("a template is served")
	}
	if w := ask(c, httptest.NewRequest(http.MethodPost, "/"+c.site.url("console.js"), nil)); w.Code != 404 {
		t.Errorf("POST: %d", w.Code)
	}
}

// What is vendored is what the package holds.
func TestVendored(t *testing.T) {
	n := 0
	read := func(name string) []byte {
		body, err := files.ReadFile("assets/uplot/" + name)
		if err != nil {
			t.Error(err)
		}
		return body
	}
	for line := range strings.Lines(string(read("SHA256SUMS"))) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sum := sha256.Sum256(read(name))
		if hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file of the package", name)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d files", n)
	}
}

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"0": count(0), "999": count(999), "1,267": count(1267), "1,234,568": count(1234567.8),
		"0 %": percent(0), "<0.01 %": percent(.00001), "0.1 %": percent(.001), "4.2 %": percent(.042), "38 %": percent(.38), "99 %": percent(.998), ">99.9 %": percent(.9999), "100 %": percent(1),
		"42 s": duration(42), "119 s": duration(119.9), "2 min": duration(120), "15 min": duration(900),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
