package upstream

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/internal/sample"
)

// authority is a private CA.
type authority struct{ *testkit.Authority }

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	a, err := testkit.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return authority{a}
}

// files name a certificate that the authority issues, and the authority.
func (a authority) files(t testing.TB, name string) secretfile.TLS {
	t.Helper()
	cert, key, err := a.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return secretfile.TLS{
		CAFile: secretfile.New("ca", string(a.PEM)), CertFile: secretfile.New("cert", string(cert)), KeyFile: secretfile.New("key", string(key)),
	}
}

// newTLSLegacy asks for client certificates of the authority and answers with
// the name in it.
func newTLSLegacy(t testing.TB, ca authority) *httptest.Server {
	t.Helper()
	var problems invalid.Problems
	own := ca.files(t, "legacy").Config("tls", &problems)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		serveJSON(`{"result":{"items":[`+strings.Replace(sample.Ticket, "Late", name, 1)+`]}}`)(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: own.Certificates, ClientCAs: own.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t, "ca")
	srv := newTLSLegacy(t, ca)
	f := newFixture(t, nil, func(c *Config) { c.BaseURL, c.TLS = srv.URL, ca.files(t, "one") })
	client := f.Client
	title := func(want string) {
		t.Helper()
		list, err := client.Fetch(t.Context(), acme)
		if err != nil || list.Inquiries[0].Title != want {
			t.Fatalf("%+v %v, want %s", list.Inquiries, err, want)
		}
	}
	title("one")
	// A client that takes its place shows the certificate of the files as they are then.
	replace := func(files secretfile.TLS) {
		t.Helper()
		cfg := f.cfg
		cfg.TLS = files
		next, err := New(cfg, Options{Before: client})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Close)
		client = next
	}
	replace(ca.files(t, "second"))
	title("second")
	files := ca.files(t, "third")
	files.CAFile = newAuthority(t, "other").files(t, "x").CAFile
	replace(files)
	failed(t, &fixture{Client: client}, t.Context(), "upstream", "tls")
	plain := newFixture(t, serveJSON("{}"), func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http:", "https:", 1) })
	failed(t, plain, t.Context(), "upstream", "tls")
}

func TestTLSConfig(t *testing.T) {
	no := secret("no PEM")
	for where, files := range map[string]secretfile.TLS{
		"tls.ca_file": {CAFile: no}, "tls.key_file": {CertFile: no}, "tls.cert_file": {CertFile: no, KeyFile: no},
	} {
		cfg := configFrom(t, strings.Replace(sample.YAML, "http://", "https://", 1))
		cfg.TLS = files
		if found := wrongKeys(t, cfg.Validate()); found[where] == "" {
			t.Errorf("%+v: %v", files, found)
		}
	}
	cfg := configFrom(t, sample.YAML)
	cfg.TLS = newAuthority(t, "ca").files(t, "one")
	if found := wrongKeys(t, cfg.Validate()); found["tls"] == "" {
		t.Errorf("files without TLS: %v", found)
	}
}
