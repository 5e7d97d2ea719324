package introspect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const activeAnswer = `{"active":true,"sub":"acme","kind":"buyer","scope":"inquiries:read","api_access":"paid"}`

// introspecting is a store that asks a server, which ends with the test.
func introspecting(t *testing.T, server *httptest.Server, change func(*Config)) *Store {
	t.Helper()
	t.Cleanup(server.Close)
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = server.URL+"/introspect", 5*time.Second
	if change != nil {
		change(&cfg)
	}
	s := New(cfg, time.Minute, auth.Options{})
	t.Cleanup(s.Close)
	return s
}

func stateOf(s *Store) string { state, _, _ := s.State(); return state }

func find(t *testing.T, s *Store, key string) (*auth.Grant, error) {
	return s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key), Key: auth.Secret(key)})
}

// typed is a server that gives one answer.
func typed(media, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{media}
		_, _ = io.WriteString(w, text) // a client that left is not the test's business
	}
}

// The server is asked as RFC 7662 says, with the gateway's own credentials as RFC 6749 does, and
// without what it has set about another key.
func TestRequest(t *testing.T) {
	const common = "token=k%2B%26%3D&token_type_hint=access_token"
	for method, want := range map[string]struct{ authorization, body string }{
		"none":  {"", common},
		"basic": {"Basic Z2F0ZSt3YXklMkYxOnMlM0FjcmV0JTI1", common}, // gate+way%2F1:s%3Acret%25
		"post":  {"", "client_id=gate+way%2F1&client_secret=s%3Acret%25&" + common},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			_, replayed := r.Header["Idempotency-Key"]
			if err != nil || r.Method != http.MethodPost || r.RequestURI != "/introspect" || string(body) != want.body ||
				r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" ||
				r.Header.Get("Authorization") != want.authorization || r.Header.Get("Cookie") != "" || replayed {
				t.Errorf("%s: asked with %v %v %s, %v", method, r.URL, r.Header, body, err)
			}
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "of another key"})
			typed("application/json; charset=utf-8", activeAnswer)(w, r)
		}))
		s := introspecting(t, server, func(c *Config) {
			if method != "none" {
				c.ClientID, c.ClientSecretFile, c.ClientAuth = "gate way/1", setting.NewFile("secret", "s:cret%\n"), method
			}
		})
		for range 2 {
			if _, err := find(t, s, "k+&="); err != nil {
				t.Fatal(err)
			}
			s.Invalidate(func(*auth.Grant) bool { return true })
		}
	}
}

// Whatever is no answer to the question says nothing about the key; the error tells neither key nor
// address. State tells what kind of trouble it is.
func TestTrouble(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for _, tt := range []struct {
		name   string
		state  string
		answer http.HandlerFunc
	}{
		{"500", StateDown, status(http.StatusInternalServerError)},
		{"503", StateDown, status(http.StatusServiceUnavailable)},
		{"429", StateDown, status(http.StatusTooManyRequests)},
		{"400", StateOK, status(http.StatusBadRequest)},
		{"401 to us", StateRefused, status(http.StatusUnauthorized)},
		{"403 to us", StateRefused, status(http.StatusForbidden)},
		{"another path", StateDown, status(http.StatusNotFound)},
		{"redirect", StateDown, func(w http.ResponseWriter, r *http.Request) { // with the key
			if r.URL.Path == "/introspect" {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
				return
			}
			typed("application/json", activeAnswer)(w, r)
		}},
		{"login page", StateDown, typed("text/html", activeAnswer)},
		{"no type", StateDown, typed("", activeAnswer)},
		{"empty", StateDown, typed("application/json", "")},
		{"too large", StateDown, typed("application/json", `{"active":false}`+strings.Repeat(" ", maxIntrospection))},
		{"cut off", StateDown, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			typed("application/json", activeAnswer)(w, nil)
		}},
		{"not HTTP", StateDown, func(w http.ResponseWriter, _ *http.Request) { // net/http quotes it
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, "a-secret-key\r\n\r\n")
			_ = c.Close()
		}},
		{"dropped", StateDown, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		server := httptest.NewServer(tt.answer)
		s := introspecting(t, server, nil)
		g, err := find(t, s, "a-secret-key")
		if g != nil || err == nil || errors.Is(err, auth.ErrUnknownKey) || stateOf(s) != tt.state {
			t.Fatalf("%s: %+v, %v, state %s", tt.name, g, err, stateOf(s))
		}
		if strings.Contains(err.Error(), "a-secret-key") || strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: tells too much: %v", tt.name, err)
		}
	}
}

// A server that has no such sort of token says something about the token, and nothing of itself.
func TestRefusedTokens(t *testing.T) {
	for code, want := range map[string]error{"unsupported_token_type": auth.ErrUnknownKey, "invalid_token": auth.ErrUnknownKey, "invalid_request": nil, "": nil} {
		s := introspecting(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"a-secret-key"}`, code)
		})), nil)
		_, err := find(t, s, "a-secret-key")
		if state := stateOf(s); err == nil || errors.Is(err, auth.ErrUnknownKey) != (want != nil) || strings.Contains(err.Error(), "a-secret-key") || state != StateOK {
			t.Errorf("%s: %v, then %s", code, err, state)
		}
	}
}

// State tells a server that refuses the gateway's client from one that is down, and ends with an answer.
func TestState(t *testing.T) {
	var answer http.HandlerFunc
	s := introspecting(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) })), nil)
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for i, tt := range []struct {
		status               int
		text, state, failure string
	}{
		{200, `{"active":false}`, StateOK, ""},
		{401, `{"error":"invalid_client"}`, StateRefused, "status 401 invalid_client: it refuses the gateway's own client"},
		{400, `{"error":"invalid_request"}`, StateRefused, "status 400 invalid_request"}, // may be about the token only
		{200, activeAnswer, StateOK, "status 400"},
		{400, `{"error":"invalid_client"}`, StateRefused, "client_secret_file"},
		{503, ``, StateDown, "status 503"},
		{200, `<html>`, StateDown, "no JSON"},
		{200, `{"active":true,"kind":"buyer"}`, StateOK, "no JSON"},
		{401, `{"error":"A <b>secret</b>"}`, StateRefused, "status 401: it refuses"},
	} {
		answer = says(tt.status, tt.text)
		_, _ = find(t, s, fmt.Sprint("key ", i))
		state, failed, unusable := s.State()
		if state != tt.state || (failed.Err == nil) != (tt.failure == "") || failed.Err != nil && !strings.Contains(failed.Err.Error(), tt.failure) || (unusable.Err != nil) != (i >= 7) {
			t.Errorf("%d %s: %s, %v, %v", tt.status, tt.text, state, failed.Err, unusable.Err)
		}
	}
}

// After ten failures of keys that the node knows callers do not wait for the server any more. New
// keys do not open the breaker, nor does an answer about what was sent; an open one holds for all.
func TestBreaker(t *testing.T) {
	const known, times = "known", 3 * breakerRequests
	for _, tt := range []struct {
		key    string
		status int // 200: the key is not active; 1: a claim of it makes no sense
		calls  int // of so many times
	}{
		{known, 500, breakerRequests}, {known, 401, breakerRequests}, {known, 429, breakerRequests},
		{known, 400, times}, {known, 404, times}, {known, 200, times}, {known, 1, times},
		{"new", 500, times}, {"new", 401, times}, {"new", 429, times}, {"new", 400, times}, {"new", 200, times},
	} {
		calls, status := 0, 0
		s := introspecting(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			switch {
			case status == 0: // at first
				typed("application/json", activeAnswer)(w, r)
			case status == http.StatusOK:
				typed("application/json", `{"active":false}`)(w, r)
			case status == 1:
				typed("application/json", `{"active":true,"sub":"a","kind":"buyer","exp":"soon"}`)(w, r)
			default:
				w.WriteHeader(status)
			}
		})), nil)
		if _, err := find(t, s, known); err != nil {
			t.Fatal(err)
		}
		calls, status = 0, tt.status
		for i := range times {
			key := tt.key
			if key != known {
				key = fmt.Sprint(key, i)
			}
			s.Invalidate(func(*auth.Grant) bool { return true })
			if _, err := find(t, s, key); err == nil || errors.Is(err, auth.ErrUnknownKey) != (tt.status == http.StatusOK) {
				t.Fatal(err)
			}
		}
		if calls != tt.calls {
			t.Errorf("%s key, status %d: %d calls got through, want %d", tt.key, tt.status, calls, tt.calls)
		}
		if _, err := find(t, s, "one more"); errors.Is(err, errOpen) != (tt.calls == breakerRequests) {
			t.Errorf("%s key, status %d: then a new key gets %v", tt.key, tt.status, err)
		}
	}
}

// No key goes to a server whose certificate is of another authority.
func TestOnlyTheRightServerGetsKeys(t *testing.T) {
	server := httptest.NewUnstartedServer(typed("application/json", activeAnswer))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is what is tested
	var authorities []setting.File                      // of one name
	for range 2 {
		dir := t.TempDir()
		testkit.Certificate(t, dir, "server")
		ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
		pair, pairErr := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
		if err := errors.Join(err, pairErr); err != nil {
			t.Fatal(err)
		}
		authorities = append(authorities, setting.NewFile("ca.pem", string(ca)))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	server.StartTLS()
	if _, err := find(t, introspecting(t, server, func(c *Config) { c.CAFile = authorities[1] }), "k"); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	for what, ca := range map[string]setting.File{"without the authority": {}, "with an old one of the same name": authorities[0]} {
		s := introspecting(t, server, func(c *Config) { c.CAFile = ca })
		if _, err := find(t, s, "k"); err == nil || errors.Is(err, auth.ErrUnknownKey) || !strings.Contains(err.Error(), "certificate signed by unknown authority") || strings.Contains(err.Error(), "not HTTP") || stateOf(s) != StateDown {
			t.Errorf("%s: %v, %s", what, err, stateOf(s))
		}
	}
}

// Keys travel to no server in clear text, but for this machine.
func TestURL(t *testing.T) {
	for url, good := range map[string]bool{
		"https://id.example.com/": true, "http://127.0.0.1:9/": true, "http://[::1]:9/": true, "http://localhost:9/": true,
		"http://id.example.com/": false, "ftp://127.0.0.1/": false, "https://a:b@id.example.com/": false, "introspect": false, "https://a b/%%": false,
	} {
		c, problems := DefaultConfig(), setting.Problems{}
		c.URL = url
		if c.Check("introspection", &problems); good != (len(problems) == 0) || !good && problems[0].Key != "introspection.url" {
			t.Errorf("%s: %v", url, problems)
		}
	}
}
