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
)

// certificate names files of a certificate that the authority issues, and of the authority.
func certificate(t testing.TB, a *testkit.Authority, name string) secretfile.TLS {
	t.Helper()
	cert, key, err := a.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return secretfile.TLS{
		CA:   secretfile.CA{CAFile: secretfile.New("ca", string(a.PEM))},
		Pair: secretfile.Pair{CertFile: secretfile.New("cert", string(cert)), KeyFile: secretfile.New("key", string(key))},
	}
}

func newAuthority(t testing.TB) *testkit.Authority {
	t.Helper()
	a, err := testkit.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The legacy asks for a client certificate. A client that takes the place of another shows
// that of the files as they are then.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	var problems invalid.Problems
	own := certificate(t, ca, "legacy").Config("tls", &problems)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveJSON(`{"result":{"items":[`+strings.Replace(testkit.SampleTicket, "Late", r.TLS.PeerCertificates[0].Subject.CommonName, 1)+`]}}`)(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: own.Certificates, ClientCAs: own.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	f := newFixture(t, nil, func(c *Config) { c.BaseURL, c.TLS = srv.URL, certificate(t, ca, "one") })
	other := certificate(t, ca, "third")
	other.CAFile = certificate(t, newAuthority(t), "x").CAFile
	for _, step := range []struct {
		files secretfile.TLS
		title string // empty: refused
	}{{f.cfg.TLS, "one"}, {certificate(t, ca, "second"), "second"}, {other, ""}} {
		cfg := f.cfg
		cfg.TLS = step.files
		next, err := New(cfg, Options{Before: f.Client})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Close)
		list, err := next.Fetch(t.Context(), acme)
		if step.title == "" && (err == nil || asError(err).Reason != "tls") || step.title != "" && (err != nil || list.Inquiries[0].Title != step.title) {
			t.Errorf("%q: %+v %v", step.title, list.Inquiries, err)
		}
	}
	plain := newFixture(t, serveJSON("{}"), func(c *Config) { c.BaseURL = strings.Replace(c.BaseURL, "http:", "https:", 1) })
	failed(t, plain, t.Context(), "upstream", "tls")
}

func TestTLSConfig(t *testing.T) {
	cfg := configFrom(t, testkit.SampleYAML)
	cfg.TLS = certificate(t, newAuthority(t), "one")
	if found := wrongKeys(t, cfg.Validate()); found["tls"] == "" {
		t.Errorf("files without TLS: %v", found)
	}
}
