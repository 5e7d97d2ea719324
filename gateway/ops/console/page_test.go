package console

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"inquiry-gateway/gateway/ops"
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
		for _, bad := range []string{"style=", "<style", "onclick", "javascript:", "{{"} {
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
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/", nil)); w.Header().Get("Location") != "/" {
		t.Errorf("the console under its own name: %d %v", w.Code, w.Header())
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/other", nil)); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
}

func TestAssets(t *testing.T) {
	c, _ := newConsole(t, Options{})
	for name, a := range c.assets {
		w := ask(c, httptest.NewRequest(http.MethodGet, name, nil))
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", a.Name, w.Code, w.Header())
		}
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/assets/../pages/home.html", nil)); w.Code == 200 {
		t.Error("a template is served")
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

func post(c http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(c, r)
}

func TestLogin(t *testing.T) {
	page, f := newConsole(t, Options{})
	f.count("http_panics_total", 7)
	page.sampler.take()
	c := ops.New(ops.Options{Gatherer: f.registry, Sessions: ops.NewSessions("s3cret", nil), Console: page, Logger: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/", "/console/state", "/console/data", "/console/runbook", "/console/nothing"} {
		for _, accept := range []string{"text/html,*/*", "*/*"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept", accept)
			w := ask(c, r)
			form := strings.Contains(w.Body.String(), `type="password"`)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "panics") || form != (accept != "*/*") {
				t.Errorf("%s for %s: %d %s", path, accept, w.Code, w.Body)
			}
		}
	}
	if w := post(c, "/console/login", url.Values{"token": {"s3cre"}}); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", w.Code, w.Header())
	}
	w := post(c, "/console/login", url.Values{"token": {"s3cret"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../" || len(w.Result().Cookies()) != 1 {
		t.Fatalf("the token: %d %v", w.Code, w.Header())
	}
	r := httptest.NewRequest(http.MethodGet, "/console/data", nil)
	r.AddCookie(w.Result().Cookies()[0])
	if w := ask(c, r); w.Code != 200 || !strings.Contains(w.Body.String(), `"panics":0`) {
		t.Errorf("with the session: %d", w.Code)
	}
}
