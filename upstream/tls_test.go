package upstream

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
)

// certificate names files of a certificate that the authority issues, and of the authority.
func certificate(t testing.TB, a *testkit.Authority, name string) setting.TLS {
	t.Helper()
	cert, key, err := a.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return setting.TLS{
		CA:   setting.CA{CAFile: setting.NewFile("ca", string(a.PEM))},
		Pair: setting.Pair{CertFile: setting.NewFile("cert", string(cert)), KeyFile: setting.NewFile("key", string(key))},
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
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveJSON(rows("", r.TLS.PeerCertificates[0].Subject.CommonName))(w, r)
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	own := certificate(t, ca, "legacy").Config("tls", &setting.Problems{})
	web.TLS = &tls.Config{
		Certificates: own.Certificates, ClientCAs: own.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	web.StartTLS()
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })

	stranger := certificate(t, ca, "third")
	stranger.CAFile = certificate(t, newAuthority(t), "x").CAFile
	var before *Client
	for _, step := range []struct {
		files setting.TLS
		want  string // the client's name, or the reason
	}{{certificate(t, ca, "first"), "first"}, {certificate(t, ca, "second"), "second"}, {stranger, "tls"}} {
		cfg := configFrom(t, section)
		cfg.BaseURL, cfg.TLS = web.URL, step.files
		c, err := New(cfg, Options{Before: before})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		list, err := c.Fetch(t.Context(), acme)
		if got := titles(list); got != step.want && (err == nil || asError(err).Reason != step.want) {
			t.Errorf("want %s, got %s %v", step.want, got, err)
		}
		before = c
	}
}

// A server that does not speak TLS is told apart from one that is away.
func TestNoTLSThere(t *testing.T) {
	web := httptest.NewServer(serveJSON(""))
	t.Cleanup(web.Close)
	cfg := configFrom(t, section)
	cfg.BaseURL = strings.Replace(web.URL, "http:", "https:", 1)
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := buyer(t, c, "acme"); got != "tls" {
		t.Error(got)
	}
}
