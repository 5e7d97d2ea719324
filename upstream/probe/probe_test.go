package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

var acme = upstream.Request{Kind: "buyer", Account: "acme"}

// configOf is the sample's configuration with more keys, of a legacy system that serves so.
func configOf(t testing.TB, keys string, serve http.HandlerFunc, more ...string) upstream.Config {
	t.Helper()
	cfg := upstream.DefaultConfig()
	for _, text := range append([]string{testkit.SampleYAML, keys}, more...) {
		if err := yamlfile.Decode(text, &cfg); text != "" && err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(serve)
	t.Cleanup(web.Close)
	cfg.BaseURL = web.URL
	return cfg
}

// run probes the list of acme. No text of it has a secret.
func run(t testing.TB, cfg upstream.Config, o Options) *Probe {
	t.Helper()
	p, err := Run(t.Context(), cfg, acme, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil || strings.Contains(string(text), "s3cret") || strings.Contains(string(text), `"violations":null`) {
		t.Errorf("%v, %s", err, text)
	}
	return p
}

// A saved reply is read by the mapping as one that comes, nothing is sent, and no secret
// is needed.
func TestSavedReplies(t *testing.T) {
	good, stranger := testkit.SampleTicket, strings.Replace(testkit.SampleTicket, `"acme"`, `"zorg"`, 1)
	nobodys := strings.Replace(good, `{"id":"acme"}`, `{}`, 1)
	strange := strings.Replace(good, `"N"`, `"Z"`, 1)
	const lenient = "buyer: {on_owner_mismatch: drop, on_invalid_record: skip}"
	for _, tc := range []struct {
		keys, body      string
		verdict, reason string
		leftOut         int
	}{
		{"", testkit.SampleList(good), Good, "", 0},
		{"", "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200\r\nContent-Type: application/json\r\n\r\n" + testkit.SampleList(good), Good, "", 0}, // as curl -i saves it
		{"", testkit.SampleList(good, strange), Refused, "the mapping does not fit (record): record 2: status: a value that has no entry", 0},
		{"", testkit.SampleList(good, stranger, stranger), Refused, "the reply has records of another account (owner): record 2: another owner than the account; in all 2 records", 0},
		{"", testkit.SampleList(nobodys), Refused, "the mapping does not fit (record): record 1: owner: no owner", 0},
		{"", "<html>", Refused, "json", 0},
		{"", `{"a":1}`, Refused, "items", 0},
		{"", `{"a":1,"a":2}`, Refused, "duplicate", 0},
		{"", "", Refused, "json", 0},
		{"max_response_bytes: 1024", testkit.SampleTickets(9), Refused, "too_large", 0},
		// A record without an owner is counted once.
		{lenient, testkit.SampleList(good, nobodys, stranger), Good, "", 2},
	} {
		cfg := configOf(t, tc.keys, func(http.ResponseWriter, *http.Request) { t.Error("the legacy was asked") })
		cfg.Auth = upstream.AuthConfig{Type: "bearer", TokenFile: setting.NewFile("/no/such/file", "")}
		p := run(t, cfg, Options{Sample: []byte(tc.body), Records: 1})
		if p.Verdict != tc.verdict || !strings.Contains(p.Reason, tc.reason) || p.LeftOut != tc.leftOut || p.Request != nil || p.Status != 0 {
			t.Errorf("%.200s: %+v", tc.body, p)
		}
		if raw := slices.ContainsFunc(p.Violations, func(v mapping.RawViolation) bool { return v.Raw == `"Z"` }); raw != strings.Contains(tc.body, `"Z"`) {
			t.Errorf("the wrong value is not shown: %+v", p.Violations)
		}
	}
}

// What was sent and came is shown, credentials are not: neither those of headers nor those
// of a sign-in.
func TestLive(t *testing.T) {
	const auth = `headers: {X-Tenant: s3cret}
auth: {type: session, username: me, password_file: f, token: {json: token}, login: {path: /login, basic: true}}`
	cfg := configOf(t, auth, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/login" {
			_, _ = io.WriteString(w, `{"token":"s3cret-token"}`)
			return
		}
		w.WriteHeader(503)
		_, _ = io.WriteString(w, "closed for today")
	})
	cfg.Auth.PasswordFile = setting.NewFile("secret", "s3cret")
	p := run(t, cfg, Options{})
	if p.Verdict != Refused || p.Status != 503 || p.MediaType != "text/plain" || p.RefusedReply != "closed for today" || p.Took <= 0 {
		t.Errorf("%+v", p)
	}
	h := p.Request.Headers
	if !strings.HasSuffix(p.Request.URL, "/v2/tickets?customer=acme") || h["Via"] != "1.1 inquiry-gateway" {
		t.Errorf("%+v", p.Request)
	}
	if h["Authorization"] != "(hidden)" || h["X-Tenant"] != "(hidden)" {
		t.Errorf("%+v", h)
	}
}

// What the user sends as credentials in query or body is hidden, and so is a reply that
// repeats it.
func TestCredentialsInBodies(t *testing.T) {
	cfg := configOf(t, "", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "no access with %s at %s", body, r.RequestURI)
	})
	cfg.Auth.Type, cfg.Auth.SecretFile = "secret", setting.NewFile("secret", `s3cret"/==`)
	cfg.Buyer.Method, cfg.Buyer.Query = http.MethodPost, map[string]string{"service_key": "{secret}"}
	cfg.Buyer.Body = map[string]any{"customer": "{account}", "state": "{status}",
		"login": map[string]any{"user": "gw", "password": "{secret}"}}
	p := run(t, cfg, Options{Sample: []byte(testkit.SampleList(testkit.SampleTicket))})
	if p.Verdict != Good {
		t.Errorf("a saved reply is %s: %s", p.Verdict, p.Reason)
	}
	p = run(t, cfg, Options{Sample: []byte(`{"self":"/v2/tickets?service_key=s3cret%22%2F%3D%3D",` + testkit.SampleList(strings.Replace(testkit.SampleTicket, `"N"`, `"s3cret\"/=="`, 1))[1:])})
	if len(p.Beside) != 1 || len(p.Violations) != 1 || p.Violations[0].Raw != `"(hidden)"` {
		t.Errorf("%q %+v", p.Beside, p.Violations)
	}
	p = run(t, cfg, Options{})
	const want = `{"customer":"acme","login":{"password":"(hidden)","user":"gw"}}`
	r := p.Request
	if p.Status != 403 || r.Body != want || !strings.HasSuffix(r.URL, "?service_key=(hidden)") || r.Headers["Idempotency-Key"] != "" {
		t.Errorf("%+v %+v", p, r)
	}
	if p.RefusedReply != "no access with "+want+" at /v2/tickets?service_key=(hidden)" {
		t.Error(p.RefusedReply)
	}
}

// The requests for what the list does not tell of its records are shown, once for each sort,
// as serve sends them, without credentials. No response in any of them is a doubt.
func TestFurtherRequests(t *testing.T) {
	const fetch = `buyer: {method: POST, fields: {responses: {items: notes, fetch: {path: /notes, method: POST, body: {of: "{id}", password: "{secret}"}, id: no, paging: {style: none}}}}}`
	cfg := configOf(t, fetch, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		ticket := strings.Replace(testkit.SampleTicket, "{", `{"no":7,`, 1)
		body := testkit.SampleList(ticket, strings.Replace(ticket, ":7,", ":8,", 1))
		if r.ContentLength < 0 {
			t.Errorf("%s %s is sent in chunks, and not as serve sends it", r.Method, r.URL)
		}
		if r.URL.Path == "/notes" {
			body = `{"notes":[]}`
		}
		_, _ = io.WriteString(w, body)
	})
	cfg.Auth.Type, cfg.Auth.SecretFile = "secret", setting.NewFile("secret", "s3cret")
	p := run(t, cfg, Options{})
	want := []upstream.Further{{For: "responses", Times: 2, Method: "POST", URL: cfg.BaseURL + "/notes", Body: `{"of":"7","password":"(hidden)"}`}}
	if !reflect.DeepEqual(p.Further, want) {
		t.Errorf("%+v", p.Further)
	}
	if p.Verdict != Doubtful || p.Reason != "no response came for any of 2 records: every inquiry would look unanswered" {
		t.Error(p.Verdict, p.Reason)
	}
	if p := run(t, cfg, Options{MayMiss: []string{"notes"}}); p.Verdict != Good {
		t.Error(p.Verdict, p.Reason)
	}
}

// What stands beside a list and no key reads is shown.
func TestValuesBesideTheList(t *testing.T) {
	cfg := configOf(t, "", nil)
	body := `{"treffer":"40","took":1,"note":"a text of words","at":null,"result":{"pages":{"of":3},"items":[` + testkit.SampleTicket + `]}}`
	p := run(t, cfg, Options{Sample: []byte(body)})
	if want := []string{"at = null", "result.pages.of = 3", `took = 1`, `treffer = "40"`}; !slices.Equal(p.Beside, want) {
		t.Errorf("%q, want %q", p.Beside, want)
	}
	cfg.Buyer.Paging = mapping.PagingConfig{Style: "none", Total: "treffer"}
	if p := run(t, cfg, Options{Sample: []byte(body)}); slices.Contains(p.Beside, `treffer = "40"`) || p.Verdict != Refused {
		t.Errorf("%q, %s", p.Beside, p.Verdict)
	}
}

func FuzzSavedReply(f *testing.F) {
	f.Add(testkit.SampleList(testkit.SampleTicket, "5"))
	f.Add(`{"result":{"items":[]}}`)
	cfg := configOf(f, "", nil)
	f.Fuzz(func(t *testing.T, body string) {
		p, err := Run(t.Context(), cfg, acme, Options{Sample: []byte(body), Records: 3})
		if err != nil || p.Problem == "" && p.Items < len(p.Records) || p.Verdict == Good && p.Problem != "" {
			t.Errorf("%+v %v", p, err)
		}
	})
}
