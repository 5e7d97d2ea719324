package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func post(c *Console, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(c, r)
}

func TestLogin(t *testing.T) {
	c, f := newConsole(t, Options{Sessions: NewSessions("s3cret", nil)})
	f.count("http_panics_total", 7)
	c.sampler.take()
	for _, path := range []string{"/", "/console/stream", "/console/data", "/console/runbook", "/console/nothing"} {
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
	r = httptest.NewRequest(http.MethodPost, "/console/logout", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	if w := ask(c, r); w.Code != http.StatusSeeOther || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign out: %d %v", w.Code, w.Header())
	}
}
