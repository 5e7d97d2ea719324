package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// tokenServer is an authorization server of RFC 6749 and, by its method guard,
// the check of its tokens in front of a legacy system.
type tokenServer struct {
	*httptest.Server

	mu      sync.Mutex
	secret  string
	expires int // seconds
	issued  int
	refused int
	good    string // the one token that the legacy accepts
}

func newTokenServer(t *testing.T, secret string) *tokenServer {
	t.Helper()
	s := &tokenServer{secret: secret, expires: 3600}
	s.Server = httptest.NewServer(http.HandlerFunc(s.token))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	id, secret, _ := r.BasicAuth()
	if id != "gateway" || secret != s.secret || r.PostFormValue("grant_type") != "client_credentials" || r.PostFormValue("scope") != "tickets.read" {
		s.refused++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"%s is not the secret of %s"}`, secret, id)
		return
	}
	s.issued++
	s.good = fmt.Sprintf("token-%d", s.issued)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, s.good, s.expires)
}

// guard lets those through to the legacy who bring the good token.
func (s *tokenServer) guard(system http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		good := s.good != "" && r.Header.Get("Authorization") == "Bearer "+s.good
		s.mu.Unlock()
		if !good {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		system.ServeHTTP(w, r)
	})
}

// counts are the tokens given and the requests refused so far.
func (s *tokenServer) counts() (issued, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued, s.refused
}

// tokenTime starts a gateway that needs tokens for its legacy.
func tokenTime(t *testing.T, s *tokenServer, secret string) *program {
	t.Helper()
	section := `timeout: 2s
  auth: {type: oauth2_client_credentials, token_url: "` + s.URL + `/token", client_id: gateway, client_secret_file: client-secret, scopes: [tickets.read]}`
	return start(t, setup{
		backend:  s.guard(legacy.New(legacy.Options{})),
		upstream: []string{"timeout: 2s", section},
		prepare:  func(p *program) { p.write("client-secret", secret+"\n") },
	})
}

// A wrong secret is the operator's mistake: callers get a 502 that says nothing
// of it, and neither the log nor any page of the ops listener has the secret.
func TestWrongSecretForTheLegacy(t *testing.T) {
	s := newTokenServer(t, "right")
	p := tokenTime(t, s, "almost-right")
	for range 30 { // more than open a breaker
		a := p.get(buyerList, "buyer")
		var envelope struct {
			Errors []struct{ Code, Detail string }
		}
		if err := json.Unmarshal(a.body, &envelope); err != nil || a.status != http.StatusBadGateway || len(envelope.Errors) != 1 || envelope.Errors[0].Code != "upstream_error" {
			t.Fatalf("%d %s %v", a.status, a.body, err)
		}
		if bytes.Contains(a.body, []byte("secret")) || bytes.Contains(a.body, []byte("token")) || a.header.Get("Www-Authenticate") != "" {
			t.Errorf("the caller is told of it: %s", a.body)
		}
	}
	if _, refused := s.counts(); refused >= 30 {
		t.Error("every request asked for a token")
	}
	p.eventually("the log says why", func() bool { return strings.Contains(p.logs.String(), "the token endpoint answers status 401") })
	p.write("client-secret", "right\n")
	p.eventually("the right secret is taken", func() bool { return p.get(buyerList, "buyer").status == http.StatusOK })
	seen := p.logs.String()
	for _, page := range []string{"/metrics", "/ops/config", "/ops/explain?account=acme&kind=buyer", "/readyz"} {
		seen += string(p.ops(page).body)
	}
	for _, secret := range []string{"almost-right", `"right"`, "token-1"} {
		if strings.Contains(seen, secret) {
			t.Errorf("%s is in the log or on a page", secret)
		}
	}
}

// mutualLegacy is a legacy system that wants the certificate of client's folder,
// and whose own is in the folder server.
func mutualLegacy(t *testing.T, server, client string) *httptest.Server {
	t.Helper()
	system := httptest.NewUnstartedServer(legacy.New(legacy.Options{}))
	system.Config.ErrorLog = log.New(io.Discard, "", 0)
	system.TLS = tlsOf(t, server)
	system.TLS.ClientAuth, system.TLS.ClientCAs = tls.RequireAndVerifyClientCert, poolOf(t, client)
	system.StartTLS()
	t.Cleanup(system.Close)
	return system
}

// tlsOf serves with the certificate in a folder.
func tlsOf(t *testing.T, dir string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// poolOf trusts the authority of a folder.
func poolOf(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("read the authority: %v", err)
	}
	return pool
}

// The gateway shows its certificate to the legacy and knows the legacy's; with
// another one on either side it is 502 until the files are right.
func TestCertificatesBetweenGatewayAndLegacy(t *testing.T) {
	t.Parallel() // it waits
	server, client, stranger := t.TempDir(), t.TempDir(), t.TempDir()
	testkit.Certificate(t, server, "legacy")
	testkit.Certificate(t, client, "gateway")
	testkit.Certificate(t, stranger, "stranger")
	system := mutualLegacy(t, server, client)
	take := func(p *program, from, file, to string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		p.write(to, string(text))
	}
	p := start(t, setup{
		upstream: []string{"base_url: " + demoLegacyURL, "base_url: " + system.URL + "\n  tls: {ca_file: ca.pem, cert_file: cert.pem, key_file: key.pem}\n  breaker: {open_for: 100ms}"},
		prepare: func(p *program) {
			take(p, server, "ca.pem", "ca.pem")
			take(p, client, "cert.pem", "cert.pem")
			take(p, client, "key.pem", "key.pem")
		},
		yaml: "cache: {buyer: {ttl: 1ms, stale_while_revalidate: 0s, stale_if_error: 0s}}",
	})
	answers := func(what string, status int) {
		t.Helper()
		p.eventually(what, func() bool { return p.get(buyerList, "buyer").status == status })
	}
	if a := p.get(buyerList, "buyer"); a.status != http.StatusOK || !bytes.Equal(a.body, truth(p.system, "buyer", legacy.BuyerTypical, "", "")) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	take(p, stranger, "key.pem", "key.pem")
	take(p, stranger, "cert.pem", "cert.pem")
	answers("the legacy does not know the certificate", http.StatusBadGateway)
	take(p, client, "cert.pem", "cert.pem")
	take(p, client, "key.pem", "key.pem")
	answers("it knows this one", http.StatusOK)
	take(p, stranger, "ca.pem", "ca.pem")
	answers("the gateway does not know the legacy", http.StatusBadGateway)
	take(p, server, "ca.pem", "ca.pem")
	answers("it knows it again", http.StatusOK)
	if strings.Contains(p.logs.String(), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}
