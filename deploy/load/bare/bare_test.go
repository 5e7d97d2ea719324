package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestHandlerWritesTheBodyOfTheQuery(t *testing.T) {
	dir := t.TempDir()
	bodies, keys := filepath.Join(dir, "bodies.json"), filepath.Join(dir, "keys.json")
	for file, text := range map[string]string{bodies: `{"": "all", "status=x": "some"}`, keys: `{"good": "acme"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, keysFile := range []string{"", keys} {
		h, err := newHandler(bodies, keysFile)
		if err != nil {
			t.Fatal(err)
		}
		for target, want := range map[string]string{"/": "all", "/?status=x": "some", "/?status=y": "404 page not found\n"} {
			r := httptest.NewRequest("GET", target, nil)
			r.Header.Set("Authorization", "Bearer good")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Body.String() != want {
				t.Errorf("%s with keys %q: %q", target, keysFile, w.Body)
			}
		}
	}
	if _, err := newHandler(filepath.Join(dir, "absent.json"), ""); err == nil {
		t.Error("bodies that are not there were taken")
	}
}
