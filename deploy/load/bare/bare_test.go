package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func ask(h http.Handler, target, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandlerWritesTheBodyOfTheQuery(t *testing.T) {
	dir := t.TempDir()
	bodies, keys := filepath.Join(dir, "bodies.json"), filepath.Join(dir, "keys.json")
	for file, text := range map[string]string{bodies: `{"": "all", "status=x": "some"}`, keys: `{"good": "acme"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		keys, target, key string
		code              int
		body, account     string
	}{
		{"", "/", "anybody", 200, "all", ""},
		{"", "/?status=x", "anybody", 200, "some", ""},
		{"", "/?status=y", "anybody", 404, "404 page not found\n", ""},
		{keys, "/", "good", 200, "all", ""},
		{keys, "/?status=x", "good", 200, "some", ""},
		{keys, "/", "bad", 401, "", ""},
		{keys, "/auth", "good", 204, "", "acme"},
		{keys, "/auth", "bad", 401, "", ""},
	} {
		h, err := newHandler(bodies, c.keys)
		if err != nil {
			t.Fatal(err)
		}
		w := ask(h, c.target, c.key)
		if w.Code != c.code || w.Body.String() != c.body || w.Header().Get("X-Account") != c.account {
			t.Errorf("%s with keys %q: %d %q %v", c.target, c.keys, w.Code, w.Body, w.Header())
		}
	}
	if _, err := newHandler(filepath.Join(dir, "absent.json"), ""); err == nil {
		t.Error("bodies that are not there were taken")
	}
}

func TestProxyPassesTheReplyOn(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.RequestURI())
		_, _ = w.Write([]byte("reply"))
	}))
	defer behind.Close()
	h, err := newProxy(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "/first/20?a=b", "x"); w.Body.String() != "reply" || w.Header().Get("X-Path") != "/first/20?a=b" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
}
