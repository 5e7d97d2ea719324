package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

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
