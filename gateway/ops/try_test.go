package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The playground takes what it can bound, one thing at a time, and asks the legacy
// system only for those who have the token.
func TestTrial(t *testing.T) {
	trial := Trial{
		Mapping: func(kind string) string { return "items: of " + kind },
		Try: func(_ context.Context, want TryRequest) (any, error) {
			if want.Reply == "bad" {
				return nil, fmt.Errorf("%w: no", ErrTry)
			}
			return want, nil
		},
		Sample: func(_ context.Context, want SampleRequest) (Sample, error) {
			if want.Account == "away" {
				return Sample{}, errors.New("the legacy system is away")
			}
			return Sample{Reply: "reply of " + want.Account}, nil
		},
	}
	sessions := NewSessions("s3cret", nil)
	h := newListener("", Options{Trial: trial, Sessions: sessions})
	const subject = `{"kind":"buyer","account":"a"`
	for _, tt := range []struct {
		name, method, path, body string
		code                     int
		says                     string
	}{
		{"mapping", "GET", "/ops/mapping?kind=buyer", "", 200, "items: of buyer"},
		{"mapping of no kind", "GET", "/ops/mapping?kind=x", "", 400, "buyer or seller"},
		{"try", "POST", "/ops/try", subject + `,"mapping":"m","reply":"r"}`, 200, `"reply":"r"`},
		{"not to be tried", "POST", "/ops/try", subject + `,"reply":"bad"}`, 400, "cannot be tried: no"},
		{"no kind", "POST", "/ops/try", `{"account":"a"}`, 400, "kind must be"},
		{"no account", "POST", "/ops/try", `{"kind":"buyer"}`, 400, "account wants"},
		{"unknown key", "POST", "/ops/try", `{"url":"http://elsewhere"}`, 400, "unknown field"},
		{"two values", "POST", "/ops/try", subject + `}{}`, 400, "more than one value"},
		{"too large", "POST", "/ops/try", `{"reply":"` + strings.Repeat("x", maxTryBytes) + `"}`, 413, "8192 KiB"},
		{"sample", "POST", "/ops/sample", subject + "}", 200, "reply of a"},
		{"no sample", "POST", "/ops/sample", `{"kind":"buyer","account":"away"}`, 502, "is away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			if w := serveWith(h, r); w.Code != http.StatusUnauthorized {
				t.Errorf("without the token: %d", w.Code)
			}
			r = httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer s3cret")
			if w := serveWith(h, r); w.Code != tt.code || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	sessions.SetTokens("", "") // by a reload
	r := httptest.NewRequest("POST", "http://127.0.0.1/ops/sample", strings.NewReader(subject+"}"))
	if w := serveWith(h, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "ops.token_file") {
		t.Errorf("without a token a real reply: %d %s", w.Code, w.Body)
	}
	r = httptest.NewRequest("POST", "http://127.0.0.1/ops/try", strings.NewReader(subject+"}"))
	r.Header.Set("Origin", "http://elsewhere.example")
	if w := serveWith(h, r); w.Code < 400 {
		t.Errorf("a page of another origin: %d", w.Code)
	}
}

func serveWith(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
