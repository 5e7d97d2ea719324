package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/internal/sample"
)

// authority is a private CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// issue gives a certificate and its key in PEM form.
func (a *authority) issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

// newTLSLegacy asks for client certificates of the authority and answers with
// the name in it.
func newTLSLegacy(t testing.TB, ca *authority) *httptest.Server {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	certPEM, keyPEM := ca.issue(t, "legacy")
	cert, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		serveJSON(`{"result":{"items":[`+strings.Replace(sample.Ticket, "Late", name, 1)+`]}}`)(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func TestTLSWithReload(t *testing.T) {
	ca := newAuthority(t, "ca")
	srv := newTLSLegacy(t, ca)
	dir := t.TempDir()
	files := TLSConfig{CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	client := func(name string) {
		cert, key := ca.issue(t, name)
		write(t, files.CertFile, cert)
		write(t, files.KeyFile, key+strings.Repeat("\n", len(name))) // another size each time
	}
	write(t, files.CAFile, ca.pem)
	client("one")
	f := newFixture(t, nil, func(c *Config) { c.BaseURL, c.TLS = srv.URL, files })
	clock := newClock()
	f.http.GetClient().Transport.(*transport).now = clock.now
	title := func(want string) {
		t.Helper()
		clock.forward(2 * time.Second)
		list, err := f.Fetch(t.Context(), acme)
		if err != nil || list.Inquiries[0].Title != want {
			t.Fatalf("%+v %v, want %s", list.Inquiries, err, want)
		}
	}
	title("one")
	client("second")
	title("second")
	write(t, files.CertFile, "garbage")
	title("second")
	if !strings.Contains(f.log.String(), "cannot be used") {
		t.Errorf("logged %q", f.log.String())
	}
	client("third one")
	title("third one")
	write(t, files.CAFile, newAuthority(t, "other").pem+"\n")
	clock.forward(2 * time.Second)
	failed(t, f, t.Context(), FailureUpstream, "tls")
	plain := newFixture(t, serveJSON("{}"), func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http:", "https:", 1) })
	failed(t, plain, t.Context(), FailureUpstream, "tls")
}

func TestTLSConfig(t *testing.T) {
	section := strings.Replace(sample.YAML, "http://", "https://", 1)
	for tls, where := range map[string]string{
		"{cert_file: a}": "tls.key_file", "{key_file: a}": "tls.cert_file",
	} {
		if found := wrongIn(t, section+"tls: "+tls+"\n"); found[where] == "" {
			t.Errorf("%s: %v", tls, found)
		}
	}
	if found := wrongIn(t, sample.YAML+"tls: {ca_file: a}\n"); found["tls"] == "" {
		t.Errorf("files without TLS: %v", found)
	}
	for _, files := range []TLSConfig{{CAFile: secretIn(t, "no PEM")}, {CAFile: "/nonexistent"}, {CertFile: secretIn(t, "x"), KeyFile: secretIn(t, "y")}} {
		cfg := configFrom(t, section)
		cfg.TLS = files
		var field *invalid.Error
		if _, err := New(cfg, Options{}); !errors.As(err, &field) || !strings.HasPrefix(field.Field(), "tls.") {
			t.Errorf("%+v: %v", files, err)
		}
	}
}
