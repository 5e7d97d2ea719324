//go:build real

package real

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"inquiry-gateway/internal/testkit"
)

// TestHydra has opaque tokens and JWTs of Ory Hydra introspected, in good times and in bad ones. Hydra's admin API
// asks for no credentials, so a proxy in front of it does.
func TestHydra(t *testing.T) {
	s := newSystem(t)
	folder := s.tools("github.com/ory/hydra/v2@v2.3.0")
	// Its go.mod replaces pop, which only the main module can do, and another module by a folder that is not published.
	s.once(folder, `rm -f go.mod go.sum
export GOFLAGS=-mod=mod CGO_ENABLED=1
go mod init hydra
go mod edit -require github.com/ory/hydra/v2@v2.3.0 -replace github.com/gobuffalo/pop/v6=github.com/ory/pop/v6@v6.2.1-0.20241121111754-e5dfc0f3344b
go build -p 2 -tags sqlite,json1 -o program github.com/ory/hydra/v2`)
	s.title = "Ory Hydra v2.3.0"

	const word, other = "a word for the gateway", "another word"
	var html atomic.Bool
	var secret atomic.Value
	secret.Store(word)
	admin := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.addr})
	admin.ErrorLog = log.New(io.Discard, "", 0)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token-hook": // Hydra asks it for claims
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"session":{"access_token":{"account":"acme","kind":"buyer","api_access":"paid"}}}`)
		case html.Load():
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Maintenance</title>")
		case client != "gateway" || password != url.QueryEscape(secret.Load().(string)): // RFC 6749, 2.3.1
			w.Header().Set("WWW-Authenticate", `Basic realm="Hydra"`)
			http.Error(w, "wrong client or secret", http.StatusUnauthorized)
		default:
			admin.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)

	public := *s // the address of Hydra's public API, for ask
	var err error
	if public.addr, err = testkit.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	publicHost, publicPort := public.hostPort()
	adminHost, adminPort := s.hostPort()
	s.file("hydra.json", asJSON(map[string]any{
		"dsn":     "memory",
		"log":     map[string]any{"level": "error"},
		"oauth2":  map[string]any{"token_hook": front.URL + "/token-hook"},
		"secrets": map[string]any{"system": []string{"a secret of Hydra's own"}},
		"serve": map[string]any{
			"admin":  map[string]any{"host": adminHost, "port": json.Number(adminPort)},
			"public": map[string]any{"host": publicHost, "port": json.Number(publicPort)},
		},
		"strategies": map[string]any{"access_token": "jwt"},
		"urls":       map[string]any{"self": map[string]any{"issuer": "http://" + public.addr}},
	}))
	s.command, s.ready = folder+"/program serve all --dev --sqa-opt-out --config hydra.json", "/health/ready"

	form := func(client, path string, values url.Values) gjson.Result {
		return public.ask("POST", path, client, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	issue := func(client string) string {
		issued := form(client, "/oauth2/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"inquiries:read"}})
		return issued.Get("access_token").String()
	}
	newClient := func(settings string) (idAndSecret string) {
		t.Helper()
		made := s.ask("POST", "/admin/clients", "", `{"client_secret":"word-of-the-client","redirect_uris":["`+front.URL+`"],"scope":"inquiries:read offline openid",
			"grant_types":["client_credentials","authorization_code","refresh_token"]`+settings+`}`)
		return made.Get("client_id").String() + ":word-of-the-client"
	}
	var opaque, jwt, short string // clients that get such tokens
	start := func() {             // Hydra, which keeps nothing
		t.Helper()
		s.start()
		opaque = newClient(`,"access_token_strategy":"opaque"`)
		jwt = newClient("") // as strategies.access_token says
		short = newClient(`,"client_credentials_grant_access_token_lifespan":"10s"`)
	}
	start()

	claims := "account: ext.account, kind: ext.kind, api_access: ext.api_access"
	s.judgeTokens(word, front.URL+"/admin/oauth2/introspect", claims, func(g *tokens) {
		const ok, invalid, unavailable = http.StatusOK, http.StatusUnauthorized, http.StatusServiceUnavailable
		g.until("a token that nobody has issued", "made-up", invalid)
		sorts := map[string]string{"an opaque token": opaque, "a JWT": jwt}
		for sort, c := range sorts {
			token := issue(c)
			g.until(sort, token, ok)
			g.until(sort+" with another signature", token[:len(token)-8]+"AAAAAAAA", invalid)
			form(c, "/oauth2/revoke", url.Values{"token": {token}})
			g.until(sort+" is revoked", token, invalid)
		}
		expires := issue(short)
		g.until("a JWT of 10 s", expires, ok)
		g.until("it has expired", expires, invalid)

		// Signing in gives a user an ID token and a refresh token, too.
		code := s.signInAtHydra(public.addr, opaque, front.URL)
		issued := form(opaque, "/oauth2/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {front.URL}})
		g.until("a user's access token", issued.Get("access_token").String(), ok)
		g.until("a user's ID token", issued.Get("id_token").String(), invalid)
		refresh := issued.Get("refresh_token").String()
		g.until("a user's refresh token", refresh, invalid)
		introspected := s.ask("POST", "/admin/oauth2/introspect", "", url.Values{"token": {refresh}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if !introspected.Get("active").Bool() {
			t.Errorf("Hydra does not call a refresh token active, so that the gateway's own refusal is not tried: %s", introspected.Raw)
		}

		for sort, c := range sorts {
			known, cold := issue(c), issue(c)
			g.until(sort+" in use", known, ok)
			html.Store(true)
			g.want("a page in place of the answer: in use, "+sort, known, ok)
			g.want("a page in place of the answer: new, "+sort, cold, unavailable)
			html.Store(false)
			g.until("the server answers again: "+sort, cold, ok)
		}

		known, cold := issue(jwt), issue(jwt)
		g.until("a JWT in use", known, ok)
		if err := s.process.SignalGroup(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		g.until("the server hangs: a new JWT", cold, unavailable)
		g.until("the JWT in use after its time", known, unavailable)
		if err := s.process.SignalGroup(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		g.until("the server goes on", cold, ok)

		fresh := issue(opaque)
		secret.Store(other)
		g.until("the gateway's secret is good no more", fresh, unavailable)
		g.secret(other)
		g.until("the new secret is in its file", fresh, ok)

		s.stop()
		g.want("the server is down: a new token", "made-up-while-down", unavailable)
		g.until("the JWT in use after its time", cold, unavailable)
		start() // signs with other keys
		g.until("the server has forgotten its JWTs", cold, invalid)
		g.until("the server has forgotten its opaque tokens", fresh, invalid)
		g.until("a new JWT", issue(jwt), ok)
		g.until("a new opaque token", issue(opaque), ok)
	})
}

// signInAtHydra has a user grant a client all scopes, and returns the authorization code.
func (s *system) signInAtHydra(public, client, redirect string) (code string) {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	// follow is the parameter of the page to which an address redirects.
	follow := func(address, parameter string) string {
		s.t.Helper()
		res, err := browser.Get(address)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = res.Body.Close()
		next, err := res.Location()
		if err != nil || next.Query().Get(parameter) == "" {
			s.t.Fatalf("%s: %s to %s without %s: %v", address, res.Status, next, parameter, err)
		}
		return next.Query().Get(parameter)
	}
	id, _, _ := strings.Cut(client, ":")
	const scopes = "inquiries:read offline openid"
	values := url.Values{"client_id": {id}, "response_type": {"code"}, "scope": {scopes}, "redirect_uri": {redirect}, "state": {uuid(0)}}
	challenge := follow("http://"+public+"/oauth2/auth?"+values.Encode(), "login_challenge")
	next := s.ask("PUT", "/admin/oauth2/auth/requests/login/accept?login_challenge="+url.QueryEscape(challenge), "", `{"subject":"user"}`)
	challenge = follow(next.Get("redirect_to").String(), "consent_challenge")
	granted := asJSON(map[string]any{"grant_scope": strings.Fields(scopes)})
	next = s.ask("PUT", "/admin/oauth2/auth/requests/consent/accept?consent_challenge="+url.QueryEscape(challenge), "", granted)
	return follow(next.Get("redirect_to").String(), "code")
}
