package introspect

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/secretfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func find(t *testing.T, s *Store, key string) (*auth.Grant, error) {
	t.Helper()
	return s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key), Key: auth.Secret(key)})
}

const activeAnswer = `{"active":true,"sub":"acme","kind":"buyer","scope":"inquiries:read","api_access":"paid"}`

func introspecting(t *testing.T, url string, change func(*auth.IntrospectionConfig)) *Store {
	t.Helper()
	cfg := auth.DefaultIntrospectionConfig()
	cfg.URL, cfg.Timeout = url, 5*time.Second
	if change != nil {
		change(&cfg)
	}
	all := auth.DefaultConfig()
	all.KeysFile, all.Introspection = "", &cfg
	if err := all.Validate(); err != nil {
		t.Fatal(err)
	}
	s := New(cfg, all.CachePolicy(), auth.Options{Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }})
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text) // a client that left is not the test's business
}

func TestIntrospectionRequest(t *testing.T) {
	secret := secretfile.New("secret", "s:cret%\n")
	for method, check := range map[string]func(*http.Request) bool{
		"none": func(r *http.Request) bool { return r.Header.Get("Authorization") == "" && len(r.PostForm) == 2 },
		"basic": func(r *http.Request) bool {
			user, pass, ok := r.BasicAuth()
			return ok && user == "gate+way%2F1" && pass == "s%3Acret%25" && len(r.PostForm) == 2
		},
		"post": func(r *http.Request) bool {
			return r.Header.Get("Authorization") == "" && r.PostFormValue("client_id") == "gate way/1" && r.PostFormValue("client_secret") == "s:cret%"
		},
	} {
		t.Run(method, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseForm(); err != nil {
					t.Error(err)
				}
				_, replayed := r.Header["Idempotency-Key"]
				if r.Method != http.MethodPost || r.URL.RawQuery != "" || r.PostFormValue("token") != "k+&=" ||
					r.PostFormValue("token_type_hint") != "access_token" || r.Header.Get("Accept") != "application/json" || replayed ||
					r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Cookie") != "" || !check(r) {
					t.Errorf("asked with %v %v %v", r.URL, r.Header, r.PostForm)
				}
				http.SetCookie(w, &http.Cookie{Name: "session", Value: "of another key"})
				answer(w, activeAnswer)
			}))
			defer server.Close()
			s := introspecting(t, server.URL+"/introspect", func(c *auth.IntrospectionConfig) {
				if method != "none" {
					c.ClientID, c.ClientSecretFile, c.ClientAuth = "gate way/1", secret, method
				}
			})
			for range 2 {
				if _, err := find(t, s, "k+&="); err != nil {
					t.Fatal(err)
				}
				s.ForgetAll()
			}
		})
	}
}

func TestIntrospectionTrouble(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"500":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"401 to us":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"login page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, activeAnswer)
		},
		"empty":       func(w http.ResponseWriter, _ *http.Request) { answer(w, "") },
		"not boolean": func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"active":1}`) },
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, `{"active":false,"x":"`+strings.Repeat("x", maxIntrospection)+`"}`)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			answer(w, activeAnswer)
		},
		"dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			s := introspecting(t, server.URL, nil)
			g, err := find(t, s, "a-secret-key")
			if g != nil || err == nil || errors.Is(err, auth.ErrUnknownKey) {
				t.Fatalf("%+v, %v", g, err)
			}
			if strings.Contains(err.Error(), "a-secret-key") || strings.Contains(err.Error(), server.URL) {
				t.Errorf("tells too much: %v", err)
			}
		})
	}
}

func TestIntrospectionBreaker(t *testing.T) {
	calls, healthy := 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		if !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, `{"active":false}`)
	}))
	defer server.Close()
	s := introspecting(t, server.URL, nil)
	for i := range 3 * breakerRequests {
		if _, err := find(t, s, fmt.Sprint("k", i)); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Fatal(err)
		}
	}
	if calls != breakerRequests {
		t.Errorf("%d calls got through", calls)
	}

	calls, healthy = 0, true
	s = introspecting(t, server.URL, nil)
	for i := range 3 * breakerRequests {
		if _, err := find(t, s, fmt.Sprint("k", i)); !errors.Is(err, auth.ErrUnknownKey) {
			t.Fatal(err)
		}
	}
	if calls != 3*breakerRequests {
		t.Errorf("unknown keys opened the breaker after %d calls", calls)
	}
}

func TestIntrospectionOverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, activeAnswer) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is what is tested
	server.StartTLS()
	defer server.Close()
	ca := secretfile.New("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if _, err := find(t, introspecting(t, server.URL, func(c *auth.IntrospectionConfig) { c.CAFile = ca }), "k"); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if _, err := find(t, introspecting(t, server.URL, nil), "k"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("without the authority: %v", err)
	}
}
