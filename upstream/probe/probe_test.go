package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

var acme = upstream.Request{Kind: "buyer", Account: "acme"}

// configOf is the sample's configuration, of a legacy system that serves so.
func configOf(t testing.TB, serve http.HandlerFunc) upstream.Config {
	t.Helper()
	cfg := upstream.DefaultConfig()
	if err := yamlfile.Decode(testkit.SampleYAML, &cfg); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(serve)
	t.Cleanup(web.Close)
	cfg.BaseURL = web.URL
	return cfg
}

func serve(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// A saved reply is read by the mapping as one that comes, nothing is sent, and no secret
// is needed.
func TestSavedReplies(t *testing.T) {
	cfg := configOf(t, func(http.ResponseWriter, *http.Request) { t.Error("the legacy was asked") })
	cfg.Auth = upstream.AuthConfig{Type: "bearer", TokenFile: secretfile.New("/no/such/file", "")}
	strange := strings.Replace(testkit.SampleTicket, `"N"`, `"Z"`, 1)
	for body, want := range map[string]struct{ verdict, reason string }{
		testkit.SampleList(testkit.SampleTicket): {Good, ""}, testkit.SampleList(strange): {Refused, "1 record that the mapping cannot accept"},
		testkit.SampleList(strings.Replace(testkit.SampleTicket, `"acme"`, `"zorg"`, 1)): {Refused, "1 record of another account or of none"},
		"<html>": {Refused, "json"}, `{"a":1}`: {Refused, "items"}, `{"a":1,"a":2}`: {Refused, "duplicate"}, "": {Refused, "json"},
	} {
		p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body), Records: 1})
		if err != nil || p.Verdict != want.verdict || !strings.Contains(p.Reason, want.reason) || p.Request != nil || p.Status != 0 {
			t.Errorf("%s: %+v %v", body, p, err)
			continue
		}
		if text, err := json.Marshal(p); err != nil || strings.Contains(string(text), `"violations":null`) || strings.Contains(body, `"Z"`) != strings.Contains(string(text), `"raw":"\"Z\""`) {
			t.Errorf("%s %v", text, err)
		}
	}
	small := cfg
	small.MaxResponseBytes = 1024
	if p, err := Run(t.Context(), small, acme, Options{Sample: []byte(testkit.SampleTickets(9))}); err != nil || !strings.Contains(p.Reason, "too_large") {
		t.Errorf("%+v %v", p, err)
	}
}

// What was sent and came is shown, credentials are not: neither those of headers nor those
// of a sign-in, nor what has their name.
func TestLive(t *testing.T) {
	cfg := configOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			serve(200, "application/json", `{"token":"s3cret-token"}`)(w, r)
			return
		}
		serve(503, "text/plain", "closed for today")(w, r)
	})
	cfg.Headers = map[string]string{"X-Tenant": "s3cret"}
	cfg.Auth = upstream.AuthConfig{Type: "session", User: secretfile.User{Username: "me", PasswordFile: secretfile.New("secret", "s3cret")}, Token: "token", SendAs: "bearer",
		Login: upstream.LoginConfig{RequestConfig: mapping.RequestConfig{Path: "/login"}, Basic: true}}
	p, err := Run(t.Context(), cfg, upstream.Request{Kind: "buyer", Account: "acme", Status: "pending"}, Options{})
	if err != nil || p.Verdict != Refused || p.Status != 503 || p.MediaType != "text/plain" || p.Refused != "closed for today" || p.Took <= 0 {
		t.Fatalf("%+v %v", p, err)
	}
	if r := p.Request; !strings.HasSuffix(r.URL, "/v2/tickets?customer=acme&state=N") || r.Headers["Authorization"] != address.Hidden || r.Headers["X-Tenant"] != address.Hidden || r.Headers["Via"] != "1.1 inquiry-gateway" {
		t.Errorf("%+v", r)
	}
	if text, _ := json.Marshal(p); strings.Contains(string(text), "s3cret") {
		t.Errorf("a secret shows: %s", text)
	}
}

// Of a list without pages a number beside it that is larger than it is told.
func TestNumbersBesideTheList(t *testing.T) {
	cfg := configOf(t, nil)
	body := `{"treffer":"40","took":1,"kunde":4711,"at":1770000000,"result":{"pages":{"of":3},"items":[` + testkit.SampleTicket + `]}}`
	p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body)})
	if err != nil || !slices.Equal(p.Beside, []string{"kunde = 4711", "result.pages.of = 3", "treffer = 40"}) {
		t.Errorf("%q %v", p.Beside, err)
	}
	cfg.Buyer.Paging = mapping.PagingConfig{Style: "next_url", Next: "next"}
	if p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body)}); err != nil || p.Beside != nil {
		t.Errorf("%q %v", p.Beside, err)
	}
}

// A record without an owner is refused, and counted once, where foreign ones are dropped.
func TestLeftOut(t *testing.T) {
	cfg := configOf(t, nil)
	cfg.Buyer.OnForeignRecord, cfg.Buyer.OnInvalidRecord = "drop", "skip"
	body := testkit.SampleList(testkit.SampleTicket, strings.Replace(testkit.SampleTicket, `{"id":"acme"}`, `{}`, 1), strings.Replace(testkit.SampleTicket, `"acme"`, `"zorg"`, 1))
	if p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body)}); err != nil || p.LeftOut != 2 || p.Verdict != Good || len(p.Served) != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// What the user sends as credentials in query or body is hidden, and so is a reply that
// repeats it.
func TestCredentialsInBodies(t *testing.T) {
	cfg := configOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "no access with %s at %s", body, r.RequestURI)
	})
	cfg.Buyer.Method, cfg.Buyer.Query = http.MethodPost, map[string]string{"service_key": "k+9/=="}
	cfg.Buyer.Body = map[string]any{"customer": "{account}", "state": "{status}", "login": map[string]any{"user": "gw", "password": `hunter"2`}}
	p, err := Run(t.Context(), cfg, acme, Options{})
	if err != nil || p.Status != 403 {
		t.Fatalf("%+v %v", p, err)
	}
	want := `{"customer":"acme","login":{"password":"(hidden)","user":"gw"}}`
	if p.Request.Body != want || !strings.HasSuffix(p.Request.URL, "?service_key=(hidden)") || p.Request.Headers["Idempotency-Key"] != "" || p.Refused != "no access with "+want+" at /v2/tickets?service_key=(hidden)" {
		t.Errorf("%+v\n%s", p.Request, p.Refused)
	}
}

func FuzzSavedReply(f *testing.F) {
	f.Add(testkit.SampleList(testkit.SampleTicket, "5"))
	f.Add(`{"result":{"items":[]}}`)
	cfg := configOf(f, nil)
	f.Fuzz(func(t *testing.T, body string) {
		p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body), Records: 3})
		if err != nil || p.Problem == "" && p.Items < len(p.Records) || p.Verdict == Good && p.Problem != "" {
			t.Errorf("%+v %v", p, err)
		}
	})
}
