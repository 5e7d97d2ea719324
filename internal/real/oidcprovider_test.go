//go:build real

package real

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// TestOIDCProvider has tokens of npm's oidc-provider introspected, in good times and in bad ones.
func TestOIDCProvider(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("oidc-provider@9.13.3")
	if err := os.CopyFS(s.dir, os.DirFS("testdata/oidc-provider")); err != nil {
		t.Fatal(err)
	}
	const word, other = "a word for the gateway", "another word"
	s.file("secret", word)
	s.command = bin + "/node server.mjs " + s.addr
	s.start()
	issuer := func(path string, form url.Values) string {
		return s.ask("POST", path, "issuer:a+word+for+the+issuer", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").Get("access_token").String()
	}
	issue := func(resource string) string {
		return issuer("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"inquiries:read"}, "resource": {resource}})
	}
	s.judgeTokens(word, "http://"+s.addr+"/token/introspection", "account: account", func(g *tokens) {
		const ok, invalid, unavailable = http.StatusOK, http.StatusUnauthorized, http.StatusServiceUnavailable
		token := issue("urn:opaque")
		g.want("an opaque token", token, ok)
		g.want("a token that nobody has issued", "made-up", invalid)
		// oidc-provider keeps no JWT, and says of each that it is not active.
		g.want("a JWT", issue("urn:jwt"), invalid)
		issuer("/token/revocation", url.Values{"token": {token}})
		g.until("the token is revoked", token, invalid)
		short := issue("urn:short")
		g.want("a token of 3 s", short, ok)
		g.until("it has expired", short, invalid)

		known, cold := issue("urn:opaque"), issue("urn:opaque")
		g.want("a token in use", known, ok)
		s.file("html", "")
		g.want("a page in place of the answer: a token in use", known, ok)
		g.want("a page in place of the answer: a new token", cold, unavailable)
		if err := os.Remove(filepath.Join(s.dir, "html")); err != nil {
			t.Fatal(err)
		}
		g.until("the server answers again", cold, ok)

		cold = issue("urn:opaque")
		if err := s.process.SignalGroup(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		g.until("the server hangs: a new token", cold, unavailable)
		g.until("the token in use after its time", known, unavailable)
		if err := s.process.SignalGroup(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		g.until("the server goes on", cold, ok)

		s.stop()
		g.want("the server is down: a new token", "made-up-while-down", unavailable)
		g.until("the token in use after its time", cold, unavailable)
		s.start() // with no token of before
		g.until("the server has forgotten its tokens", cold, invalid)
		fresh := issue("urn:opaque")
		g.until("a new one", fresh, ok)

		s.stop()
		s.file("secret", other)
		s.start()
		fresh = issue("urn:opaque")
		g.until("the gateway's secret is good no more", fresh, unavailable)
		g.secret(other)
		g.until("the new secret is in its file", fresh, ok)
	})
}

// tokens is the gateway in front of the sample legacy system, with an authorization server.
type tokens struct {
	*result
	t      *testing.T
	dir    string
	public string
}

// judgeTokens runs the gateway, which introspects at an endpoint as the client gateway and reads these claims.
func (s *system) judgeTokens(secret, endpoint, claims string, cases func(*tokens)) {
	t := s.t
	t.Helper()
	system := httptest.NewServer(legacy.New(legacy.Options{}))
	t.Cleanup(system.Close)
	g := &tokens{t: t, dir: t.TempDir(), result: s.newResult("introspection")}
	g.secret(secret)
	config := filepath.Join(g.dir, "gateway.yaml")
	s.file(config, fmt.Sprintf(`listen: 127.0.0.1:0
ops: {listen: "127.0.0.1:0"}
auth:
  cache_ttl: 3s
  introspection: {url: "%s", client_id: gateway, client_secret_file: client-secret, claims: {%s}}
cache: {buyer: {ttl: 1m}}
`, endpoint, claims)+gatewaytest.Mapping(system.URL))
	_, g.public, _ = gatewaytest.Serve(t, testkit.BuildGateway(t), config, g.dir)
	cases(g)
}

func (g *tokens) secret(word string) {
	testkit.Write(g.t, filepath.Join(g.dir, "client-secret"), word+"\n")
}

// status is what a caller with a token gets.
func (g *tokens) status(token string) int {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.public+"/api/v1/buyer/inquiries", http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// want compares what a token gets now.
func (g *tokens) want(what, token string, want int) {
	g.t.Helper()
	got := g.status(token)
	g.compare(got == want, "%s: %d, want %d", what, got, want)
}

// until compares what a token gets in the end.
func (g *tokens) until(what, token string, want int) {
	g.t.Helper()
	within(func() bool { return g.status(token) == want })
	g.want(what, token, want)
}
