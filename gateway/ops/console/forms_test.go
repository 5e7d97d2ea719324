package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func post(c *Console, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(c, r)
}

func TestPurge(t *testing.T) {
	var purged []string
	failure := error(nil)
	c, _ := newConsole(t, Options{Purge: func(_ context.Context, kind, account string) (uint64, error) {
		purged = append(purged, kind+"|"+account)
		return 42, failure
	}})
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(ask(c, request()).Body.String())[1]
	for _, step := range []struct {
		name   string
		form   url.Values
		code   int
		says   string
		purged int
	}{
		{"no token", url.Values{"account": {"acme"}, "confirmed": {"yes"}}, 403, "Nothing was purged", 0},
		{"a wrong token", url.Values{"form": {"x"}, "account": {"acme"}, "confirmed": {"yes"}}, 403, "Nothing was purged", 0},
		{"nothing chosen", url.Values{"form": {form}, "account": {" "}}, 422, "Choose a kind", 0},
		{"both", url.Values{"form": {form}, "account": {"acme"}, "kind": {"buyer"}}, 422, "Choose a kind", 0},
		{"another kind", url.Values{"form": {form}, "kind": {"admin"}, "confirmed": {"yes"}}, 422, "Choose a kind", 0},
		{"asks first", url.Values{"form": {form}, "account": {"<acme>"}}, 200, "Purge all lists of account &lt;acme&gt;?", 0},
		{"an account", url.Values{"form": {form}, "account": {"<acme>"}, "confirmed": {"yes"}}, 200, `<strong id="epoch">42</strong>`, 1},
		{"a kind", url.Values{"form": {form}, "kind": {"seller"}, "confirmed": {"yes"}}, 200, "Purged all seller lists", 2},
	} {
		w := post(c, "/console/purge", step.form)
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.says) || len(purged) != step.purged {
			t.Errorf("%s: %d, purged %q: %s", step.name, w.Code, purged, w.Body)
		}
	}
	if strings.Join(purged, " ") != "|<acme> seller|" {
		t.Errorf("purged %q", purged)
	}
	failure = errors.New("redis: timeout")
	if w := post(c, "/console/purge", url.Values{"form": {form}, "kind": {"buyer"}, "confirmed": {"yes"}}); w.Code != 502 || !strings.Contains(w.Body.String(), "redis: timeout") {
		t.Errorf("a purge that failed: %d %s", w.Code, w.Body)
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/purge?kind=buyer&confirmed=yes", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a purge by GET: %d", w.Code)
	}
}

func TestExplain(t *testing.T) {
	var asked url.Values
	c, _ := newConsole(t, Options{Explain: func(_ context.Context, q url.Values) (any, error) {
		asked = q
		if q.Get("kind") == "" {
			return nil, errors.New("give key_id, or kind and account")
		}
		return map[string]any{"outcome": "<hit>", "bytes": 12345678901, "list": []any{nil, true, ""}, "none": []int{}}, nil
	}})
	w := ask(c, httptest.NewRequest(http.MethodGet, "/console/explain?kind=buyer&account=+%22acme%22+&status=&other=1", nil))
	body := w.Body.String()
	for _, want := range []string{"&lt;hit&gt;", "12345678901", "(empty)", "(none)", ">yes<", `value="&#34;acme&#34;"`, "<option selected>buyer"} {
		if w.Code != 200 || !strings.Contains(body, want) {
			t.Errorf("%d: no %s in %s", w.Code, want, body)
		}
	}
	if asked.Encode() != "account=%22acme%22&kind=buyer" {
		t.Errorf("asked with %v", asked)
	}
	w = ask(c, httptest.NewRequest(http.MethodGet, "/console/explain", nil))
	if w.Code != 422 || !strings.Contains(w.Body.String(), "give key_id, or kind and account") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLogin(t *testing.T) {
	c, f := newConsole(t, Options{Sessions: NewSessions("s3cret", nil), Purge: func(context.Context, string, string) (uint64, error) {
		t.Error("purged without authorization")
		return 0, nil
	}})
	f.count("http_panics_total", 7)
	c.sampler.take()
	for _, path := range []string{"/", "/console/stream", "/console/ttl", "/console/explain", "/console/nothing"} {
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
	if w := post(c, "/console/purge", url.Values{"form": {c.form}, "kind": {"buyer"}, "confirmed": {"yes"}}); w.Code != 401 {
		t.Errorf("purge: %d", w.Code)
	}
	if w := post(c, "/console/login", url.Values{"token": {"s3cre"}}); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", w.Code, w.Header())
	}
	w := post(c, "/console/login", url.Values{"token": {"s3cret"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../" || len(w.Result().Cookies()) != 1 {
		t.Fatalf("the token: %d %v", w.Code, w.Header())
	}
	r := request()
	r.AddCookie(w.Result().Cookies()[0])
	if w := ask(c, r); w.Code != 200 || !strings.Contains(w.Body.String(), "inquiry_gateway_http_panics_total") {
		t.Errorf("with the session: %d", w.Code)
	}
	r = httptest.NewRequest(http.MethodPost, "/console/logout", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	if w := ask(c, r); w.Code != http.StatusSeeOther || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("sign out: %d %v", w.Code, w.Header())
	}
}
