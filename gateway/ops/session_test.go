package ops

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func withCookie(value string) *http.Request {
	r := request()
	r.AddCookie(&http.Cookie{Name: cookieName, Value: value})
	return r
}

func TestWhoIsAuthorized(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	s := NewSessions("s3cret", func() time.Time { return at })
	good := s.begin(request()).Value
	other := NewSessions("other", s.now).begin(request()).Value
	for name, c := range map[string]struct {
		r    *http.Request
		want bool
	}{
		"nothing":             {request(), false},
		"the token":           {request("Authorization", "Bearer s3cret"), true},
		"scheme in any case":  {request("Authorization", "bearer s3cret"), true},
		"another token":       {request("Authorization", "Bearer s3cre"), false},
		"another scheme":      {request("Authorization", "Basic s3cret"), false},
		"a session":           {withCookie(good), true},
		"of another token":    {withCookie(other), false},
		"longer":              {withCookie(good + "A"), false},
		"a part":              {withCookie(good[1:]), false},
		"the token as cookie": {withCookie("s3cret"), false},
		"empty":               {withCookie(""), false},
	} {
		if got := s.authorized(c.r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	at = at.Add(sessionLifetime - time.Second)
	if !s.authorized(withCookie(good)) {
		t.Error("the session ended before its time")
	}
	at = at.Add(time.Second)
	if s.authorized(withCookie(good)) {
		t.Error("the session outlives its time")
	}
	good = s.begin(request()).Value
	s.SetTokens("s3cret", "")
	if !s.authorized(withCookie(good)) {
		t.Error("the same token again has ended a session")
	}
	s.SetTokens("other", "")
	if s.authorized(withCookie(good)) {
		t.Error("the session outlives its token")
	}
	if !NewSessions("", nil).authorized(request()) {
		t.Error("without a token nobody is let in")
	}
}

func TestCookie(t *testing.T) {
	s := NewSessions("s3cret", nil)
	plain, secured := request(), request()
	secured.TLS = &tls.ConnectionState{}
	for _, r := range []*http.Request{plain, secured} {
		c := s.begin(r)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != (r.TLS != nil) || c.MaxAge != 43200 || strings.Contains(c.Value, "s3cret") {
			t.Errorf("%+v", c)
		}
		if end := s.end(r); end.MaxAge >= 0 || end.Name != c.Name || end.Path != c.Path || end.Value != "" {
			t.Errorf("%+v does not remove the cookie", end)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	s := NewSessions("s3cret", func() time.Time { at = at.Add(time.Second); return at })
	first, second := s.begin(request()).Value, s.begin(request()).Value
	for range maxSessions - 1 {
		s.begin(request())
	}
	if len(s.open) != maxSessions || s.authorized(withCookie(first)) || !s.authorized(withCookie(second)) {
		t.Errorf("%d sessions are open; the first one has to end alone", len(s.open))
	}
}
