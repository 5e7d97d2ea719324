package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/upstream/legacy"
)

// says makes the authorization server answer every question like this.
func (s *authServer) says(status int, text string) {
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

// activeToken is what the server says of an active access token of a buyer; the claims replace those of
// the same name.
func activeToken(claims ...string) string {
	answer := map[string]any{"active": true, "sub": legacy.BuyerTypical, "kind": "buyer", "scope": "inquiries:read", "api_access": "paid"}
	for i := 0; i < len(claims); i += 2 {
		if claims[i+1] == "" {
			delete(answer, claims[i])
			continue
		}
		answer[claims[i]] = json.RawMessage(claims[i+1])
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Only bearer access tokens of an account are let in. The caller learns no more than that its key is not
// valid; the log says why.
func TestIntrospectedTokens(t *testing.T) {
	t.Parallel()
	server, s := introspecting(t, "5s", "cache_ttl: 10s", setup{})
	p := start(t, s)
	for i, tt := range []struct {
		status int // of the server
		answer string
		code   string // what the caller gets; empty: 200
		cause  string // in the log
	}{
		{200, activeToken("token_use", `"access_token"`, "token_type", `"Bearer"`), "", ""},
		{200, activeToken("exp", "0"), "", ""},
		{200, activeToken("token_use", `"refresh_token"`), "invalid_api_key", "token_use says"},
		{200, activeToken("token_use", `"id"`), "invalid_api_key", "token_use says"},
		{200, activeToken("token_usage", `"refresh_token"`), "invalid_api_key", "token_usage says"},
		{200, activeToken("token_type", `"refresh_token"`), "invalid_api_key", "token_type says"},
		{200, activeToken("typ", `"Refresh"`), "invalid_api_key", "typ says"},
		{200, activeToken("typ", `"Offline"`), "invalid_api_key", "typ says"},
		{200, activeToken("cnf", `{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`), "invalid_api_key", "cnf binds the token"},
		{200, activeToken("cnf", `{"x5t#S256":"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}`), "invalid_api_key", "cnf binds the token"},
		{200, activeToken("sub", ""), "invalid_api_key", "the active token has no claim sub"},
		{200, activeToken("kind", ""), "invalid_api_key", "the active token has no claim kind"},
		{200, `{"active":false}`, "invalid_api_key", "unknown"},
		{400, `{"error":"unsupported_token_type"}`, "invalid_api_key", "unknown"},
	} {
		server.says(tt.status, tt.answer)
		begun := len(p.logs.String())
		key := fmt.Sprint("token-", i)
		a := p.get(buyerList, "", "Authorization", "Bearer "+key)
		if tt.code == "" {
			if a.status != http.StatusOK {
				t.Errorf("%s: %d %s", tt.answer, a.status, a.body)
			}
			continue
		}
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), `"code":"`+tt.code+`"`) || strings.Contains(string(a.body), "claim") {
			t.Errorf("%d %s: %d %s", tt.status, tt.answer, a.status, a.body)
		}
		p.eventually("the log says "+tt.cause, func() bool { return strings.Contains(p.logs.String()[begun:], tt.cause) })
		if logged := p.logs.String()[begun:]; strings.Contains(logged, key) {
			t.Errorf("%d %s is logged as %s", tt.status, tt.answer, logged)
		}
	}
	server.says(http.StatusOK, activeToken("sub", ""))
	p.gets(http.StatusUnauthorized, buyerList, "", "Authorization", "Bearer another")
	if line := p.consoleSays("tokens", "the active token has no claim sub"); !strings.Contains(line.Do, "auth.introspection.claims") {
		t.Errorf("%+v", line)
	}
}

// A token may have 8 KiB, by every protocol; one more byte is refused without asking the server.
func TestLargeTokens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"clear", "TLS"} {
		server, s := introspecting(t, "5s", "cache_ttl: 10s", setup{})
		if name == "TLS" {
			s = overTLS(s)
		}
		p := start(t, s)
		server.says(http.StatusOK, activeToken())
		for _, h2 := range []bool{false, true} {
			transport := &http.Transport{
				Protocols:       new(http.Protocols),
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
			}
			transport.Protocols.SetHTTP1(!h2)
			transport.Protocols.SetHTTP2(h2)
			transport.Protocols.SetUnencryptedHTTP2(h2)
			p.client.Transport = transport
			for bytes, want := range map[int]int{600: http.StatusOK, 4096: http.StatusOK, 8192: http.StatusOK, 8193: http.StatusUnauthorized} {
				// What a JWT consists of, for the compression of HTTP/2.
				key := strings.Repeat("eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhY21lIn0.Zm9v_b-Y", 200)[:bytes-1] + map[bool]string{false: "1", true: "2"}[h2]
				res, err := p.client.Do(p.request(http.MethodGet, buyerList, "", "Authorization", "Bearer "+key, "User-Agent", strings.Repeat("u", 200)))
				must(t, err)
				must(t, res.Body.Close())
				if res.StatusCode != want || (res.ProtoMajor == 2) != h2 {
					t.Errorf("%s, HTTP/2 %t: %d bytes: %d over %s", name, h2, bytes, res.StatusCode, res.Proto)
				}
			}
			transport.CloseIdleConnections()
		}
		for key := range server.asked {
			if len(key) > 8192 {
				t.Errorf("%s: the server was asked about %d bytes", name, len(key))
			}
		}
	}
}

// An authorization server that refuses the gateway's own client is told from one that is down, with what to do.
func TestTheServerRefusesOurClient(t *testing.T) {
	t.Parallel()
	server, s := introspecting(t, "5s", "cache_ttl: 10s", setup{})
	p := start(t, s)
	ready := func() (r ops.Readiness) {
		must(t, json.Unmarshal(p.ops("/readyz").body, &r))
		return r
	}
	for _, tt := range []struct {
		status int
		answer string
		cause  string
		state  string
	}{
		{http.StatusUnauthorized, `{"error":"invalid_client"}`, "status 401 invalid_client: it refuses the gateway's own client; set auth.introspection.client_id", "refused"},
		{http.StatusInternalServerError, ``, "status 500", "down"},
	} {
		server.says(tt.status, tt.answer)
		for i := range 3 {
			a := p.get(buyerList, "", "Authorization", fmt.Sprintf("Bearer %d-%d", tt.status, i))
			if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "auth_unavailable") {
				t.Errorf("%d: %d %s", tt.status, a.status, a.body)
			}
		}
		line := p.consoleSays("keystore", tt.cause)
		if strings.Contains(line.Do, "keys list") || strings.Contains(line.Do, "keys -c") || !strings.Contains(line.Do, server.URL) || !strings.Contains(line.Do, "client_secret_file") {
			t.Errorf("%d: the console advises %s", tt.status, line.Do)
		}
		if r := ready(); r.Status != ops.StatusDegraded || r.Parts["introspection"] != tt.state {
			t.Errorf("%d: %+v", tt.status, r)
		}
		p.logsEventually(tt.cause)
	}
	server.says(http.StatusOK, activeToken())
	if a := p.get(buyerList, "", "Authorization", "Bearer good"); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if r := ready(); r.Status != ops.StatusReady || r.Parts["introspection"] != "ok" {
		t.Errorf("%+v", r)
	}
}
