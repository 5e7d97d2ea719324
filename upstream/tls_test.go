package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// newTLSLegacy asks for client certificates of the authority and answers with
// the name in it.
func newTLSLegacy(t testing.TB, ca *testkit.Authority) *httptest.Server {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	certPEM, keyPEM, err := ca.Issue("legacy")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		serveJSON(`{"result":{"items":[`+strings.Replace(goodTicket, "Late", name, 1)+`]}}`)(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func TestTLSWithReload(t *testing.T) {
	ca, err := testkit.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	srv := newTLSLegacy(t, ca)
	dir := t.TempDir()
	files := TLSConfig{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	client := func(name string) {
		if err := ca.WriteFiles(dir, name); err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		write(t, files.KeyFile, string(key)+strings.Repeat("\n", len(name))) // another size each time
	}
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
	other, err := testkit.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.CAFile, string(other.PEM)+"\n")
	clock.forward(2 * time.Second)
	failed(t, f, t.Context(), FailureUpstream, "tls")
	plain := newFixture(t, serveJSON("{}"), func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http:", "https:", 1) })
	failed(t, plain, t.Context(), FailureUpstream, "tls")
}

func TestTLSConfig(t *testing.T) {
	section := strings.Replace(mappingYAML, "http://", "https://", 1)
	for tls, where := range map[string]string{
		"{cert_file: a}": "tls.key_file", "{key_file: a}": "tls.cert_file",
	} {
		if found := fieldsOf(t, configFrom(t, section+"tls: "+tls+"\n").Validate()); found[where] == "" {
			t.Errorf("%s: %v", tls, found)
		}
	}
	if found := fieldsOf(t, configFrom(t, mappingYAML+"tls: {ca_file: a}\n").Validate()); found["tls"] == "" {
		t.Errorf("files without TLS: %v", found)
	}
	for _, files := range []TLSConfig{{CAFile: secretIn(t, "no PEM")}, {CAFile: "/nonexistent"}, {CertFile: secretIn(t, "x"), KeyFile: secretIn(t, "y")}} {
		cfg := configFrom(t, section)
		cfg.TLS = files
		var field *fieldError
		if _, err := New(cfg, Options{}); !errors.As(err, &field) || !strings.HasPrefix(field.Field(), "tls.") {
			t.Errorf("%+v: %v", files, err)
		}
	}
}
