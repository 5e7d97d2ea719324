package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// authServer is an authorization server that is asked about keys (RFC 7662),
// with claims of its own making.
type authServer struct {
	*httptest.Server

	mu     sync.Mutex
	keys   map[string]string // answers by key; any other is inactive
	asked  map[string]int
	answer http.HandlerFunc // nil: what RFC 7662 says
}

// claimsOf is an answer about a good key.
func claimsOf(account, role, permissions string, paid bool) string {
	return fmt.Sprintf(`{"active":true,"tenant":{"id":%q},"role":%q,"scope":%s,"billing":{"api":%t},"jti":"key-of-%s"}`, account, role, permissions, paid, account)
}

func newAuthServer(t *testing.T, dir string) *authServer {
	t.Helper()
	read := `["other","` + auth.ScopeInquiriesRead + `"]`
	s := &authServer{asked: map[string]int{}, keys: map[string]string{
		"buyer":    claimsOf(legacy.BuyerTypical, "buyer", read, true),
		"seller":   claimsOf(legacy.SellerTypical, "seller", read, true),
		"unpaid":   claimsOf("unpaid", "buyer", read, false),
		"no-scope": claimsOf(legacy.BuyerTypical, "buyer", `["other"]`, true),
		"admin":    claimsOf(legacy.BuyerTypical, "admin", read, true),
		"expired":  strings.Replace(claimsOf(legacy.BuyerTypical, "buyer", read, true), "{", `{"exp":1600000000,`, 1),
	}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.introspect))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	testkit.Certificate(t, dir, "id")
	s.TLS = tlsOf(t, dir)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *authServer) introspect(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("token")
	s.mu.Lock()
	s.asked[key]++
	answer := s.answer
	text, known := s.keys[key]
	s.mu.Unlock()
	if id, secret, _ := r.BasicAuth(); id != "gateway" || secret != "s3cr3t" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if answer != nil {
		answer(w, r)
		return
	}
	if !known {
		text = `{"active":false}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text) // a gateway that left is not the test's business
}

// change does something between two answers.
func (s *authServer) change(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

func (s *authServer) askedAbout(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[key]
}

// introspecting starts a gateway whose keys are those of an authorization
// server; every name in the server's keys is the key itself.
func introspecting(t *testing.T, section string, changes ...func(*setup)) (*program, *authServer) {
	t.Helper()
	dir := t.TempDir()
	s := newAuthServer(t, dir)
	wanted := setup{
		prepare: func(p *program) { p.write("client-secret", "s3cr3t\n") },
		auth: fmt.Sprintf(`{introspection: {url: %q, client_id: gateway, client_secret_file: client-secret, ca_file: %q, timeout: 500ms,
  claims: {account: tenant.id, kind: role, api_access: billing.api}}, %s}`, s.URL+"/introspect", filepath.Join(dir, "ca.pem"), section),
	}
	for _, change := range changes {
		change(&wanted)
	}
	p := start(t, wanted)
	clear(p.keys)
	for key := range s.keys {
		p.keys[key] = key
	}
	p.keys["nobody"], p.keys["nobody else"] = "nobodys-key", "nobody-elses-key"
	return p, s
}

// What the server's claims say is what the gateway grants, and no more.
func TestIntrospectionGrants(t *testing.T) {
	p, s := introspecting(t, "cache_ttl: 10m")
	for _, row := range []struct {
		key, list, code string
		status          int
	}{
		{"buyer", buyerList, "", 200}, {"buyer", sellerList, "wrong_key_kind", 403},
		{"seller", sellerList, "", 200}, {"unpaid", buyerList, "api_access_required", 403},
		{"no-scope", buyerList, "insufficient_scope", 403}, {"admin", buyerList, "invalid_api_key", 401},
		{"expired", buyerList, "invalid_api_key", 401}, {"nobody", buyerList, "invalid_api_key", 401},
	} {
		for range 3 {
			a := p.get(row.list, row.key)
			if a.status != row.status || !bytes.Contains(a.body, []byte(row.code)) {
				t.Errorf("%s at %s: %d %.300s", row.key, row.list, a.status, a.body)
			}
		}
	}
	if a := p.get(buyerList, "buyer"); !bytes.Equal(a.body, truth(p.system, "buyer", legacy.BuyerTypical, "", "")) {
		t.Errorf("another list: %.300s", a.body)
	}
	for key := range p.keys {
		if n := s.askedAbout(p.keys[key]); n > 2 { // a refused key is asked for again after 2 s
			t.Errorf("asked %d times about %s, whose answer is stored", n, key)
		}
	}
	if text := p.logs.String(); strings.Contains(text, "nobodys-key") || strings.Contains(text, "s3cr3t") || !strings.Contains(text, `"key_id":"key-of-acme"`) {
		t.Error("the log has a key or a secret, or has not the key's id")
	}
}

// The time of a request is one for all that it waits for: a key store that is
// slower than that is unavailable, and not the legacy too slow.
func TestRequestTimeoutBoundsAuthentication(t *testing.T) {
	p, s := introspecting(t, "cache_ttl: 10s", func(s *setup) {
		s.auth = strings.Replace(s.auth, "timeout: 500ms", "timeout: 10s", 1)
		s.yaml, s.upstream = "request_timeout: 500ms", []string{"timeout: 2s", "timeout: 400ms"}
	})
	release := make(chan bool)
	s.change(func() { s.answer = func(http.ResponseWriter, *http.Request) { <-release } })
	timer := time.AfterFunc(5*time.Second, func() { close(release) })
	begun := time.Now()
	a := p.get(buyerList, "buyer")
	if took := time.Since(begun); a.status != http.StatusServiceUnavailable || !bytes.Contains(a.body, []byte("auth_unavailable")) || took < 400*time.Millisecond || took > 4*time.Second {
		t.Errorf("after %v: %d %s", took, a.status, a.body)
	}
	if timer.Stop() {
		close(release)
	}
}
