package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/upstream/mapping"
)

// lines writes a probe the way a table would, for comparison.
func lines(p *Probe) string {
	var b strings.Builder
	for _, r := range p.Records {
		for _, f := range r.Fields {
			fmt.Fprintf(&b, "%d %s <- %s: %s -> %s %s\n", r.Number, f.Field, f.Path, f.Raw, f.Mapped, f.Problem)
		}
	}
	for _, v := range p.Violations {
		fmt.Fprintf(&b, "! %d %s: %s\n", v.Record, v.Field, v.Problem)
	}
	fmt.Fprintf(&b, "owner %+v\n", p.Owner)
	for _, id := range p.InternalIDs {
		fmt.Fprintf(&b, "id %s %d %q\n", id.Path, id.Found, id.Quoted)
	}
	for _, u := range p.Unused {
		fmt.Fprintf(&b, "unused %s %s\n", u.Path, strings.Join(u.Types, "|"))
	}
	return b.String()
}

func wantLines(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}

const probeBody = `{"result":{"items":[` +
	`{"uuid":"6f1c2a34-1111-4222-8333-944455566677","customer":{"id":"acme","vip":true},"subject":"Late","body":{"text":"as 7f1c2a34-1111-4222-8333-944455566677"},"state":"N","category":null,"opened":"2026-03-01 09:30:00","extra":[{"a":1},{"a":"x"}],` +
	`"replies":[{"uuid":"u-000001","text":"On its way","by":{"role":"S","name":"x"},"at":"2026-03-02T01:02:03Z"}]},` +
	`{"uuid":"7f1c2a34-1111-4222-8333-944455566677","customer":{"id":"zorg"},"subject":7,"body":{"text":"b"},"state":"Z","opened":"then","replies":[{"uuid":"x-000002"}]},` +
	`{"customer":{}},5]}}`

func TestProbeSample(t *testing.T) {
	f := newFixture(t, serveJSON("{}"))
	p, err := f.Probe(t.Context(), acme, ProbeOptions{Sample: []byte(probeBody)})
	if err != nil || p.Problem != "" || p.Items != 4 || p.Request != nil || f.calls.Load() != 0 || len(p.Records) != 3 {
		t.Fatalf("%+v %v", p, err)
	}
	wantLines(t, lines(p),
		"1 title <- subject: \"Late\" -> Late \n",
		"1 status <- state: \"N\" -> pending \n",
		"1 inquiry_type <- category: null -> null \n",
		"1 created_at <- opened: \"2026-03-01 09:30:00\" -> 2026-03-01T00:30:00.000Z \n",
		"1 responses <- replies: [{", "-> 1 responses, the last: On its way | staff | 2026-03-02T01:02:03Z",
		"2 title <- subject: 7 -> 7 \n",
		"! 2 status: a value that has no entry", "! 2 created_at: not a time", "! 2 responses.content: missing",
		"! 3 title: missing", "! 4 record: not an object",
		"owner {Path:customer.id Matches:1 Missing:[3] Foreign:[2] Case:0}",
		`id uuid 2 ["record 1 content"]`, `id replies.#.uuid 2 []`,
		"unused customer.vip boolean", "unused extra.#.a number|string", "unused replies.#.by.name string",
	)
	if strings.Contains(lines(p), "unused subject") || strings.Contains(lines(p), "unused replies.#.text") || strings.Contains(lines(p), "unused uuid") {
		t.Errorf("a used field counts as unused:\n%s", lines(p))
	}
	if b, err := json.Marshal(p); err != nil || strings.Contains(string(b), `"violations":null`) {
		t.Errorf("%s %v", b, err)
	}
}

func TestProbeBadSamples(t *testing.T) {
	f := newFixture(t, serveJSON("{}"))
	for body, says := range map[string]string{"<html>": "json", `{"a":1}`: "items", `{"a":1,"a":2}`: "duplicate", "": "json"} {
		p, err := f.Probe(t.Context(), acme, ProbeOptions{Sample: []byte(body)})
		if err != nil || !strings.Contains(p.Problem, says) {
			t.Errorf("%s: %+v %v", body, p, err)
		}
	}
	if _, err := f.Probe(t.Context(), Request{Kind: "x"}, ProbeOptions{}); err == nil {
		t.Error("an unknown kind was accepted")
	}
	if _, err := f.Probe(t.Context(), Request{Kind: "buyer"}, ProbeOptions{}); err == nil {
		t.Error("no account was accepted")
	}
}

func TestProbeLive(t *testing.T) {
	f := newFixture(t, pagedLegacy{total: 30, size: 10}.ServeHTTP, func(c *Config) {
		c.Headers = map[string]string{"X-Tenant": "t0p"}
		c.Auth = AuthConfig{Type: "bearer", TokenFile: secret("s3cr3t")}
		c.Buyer.Paging = mapping.PagingConfig{Style: "next_url", Next: "next", Size: 10, SizeParam: "limit"}
	})
	p, err := f.Probe(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending"}, ProbeOptions{Records: 1})
	if err != nil || p.Problem != "" || p.Status != 200 || p.Items != 10 || len(p.Records) != 1 || p.Took <= 0 || !strings.Contains(p.NextPage, "cursor=10") {
		t.Fatalf("%+v %v", p, err)
	}
	if !strings.HasSuffix(p.Request.URL, "/v2/tickets?customer=acme&state=N&limit=10") || p.Request.Headers["Authorization"] != "(hidden)" || p.Request.Headers["X-Tenant"] != "(hidden)" || p.Request.Headers["Via"] != via {
		t.Errorf("request %+v", p.Request)
	}
	b, _ := json.Marshal(p)
	if strings.Contains(string(b), "s3cr3t") || strings.Contains(string(b), "t0p") {
		t.Error("a secret shows")
	}
}

// What the user sends as credentials in query or body is hidden, and so is a reply that
// repeats it.
func TestProbeHidesCredentialsInBodies(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "no access with %s at %s", body, r.RequestURI)
	}, func(c *Config) {
		c.Buyer.Method, c.Buyer.Query = http.MethodPost, map[string]string{"service_key": "k+9/=="}
		c.Buyer.Body = map[string]any{"customer": "{account}", "state": "{status}", "login": map[string]any{"user": "gw", "password": `hunter"2`}}
	})
	p, err := f.Probe(t.Context(), acme, ProbeOptions{})
	if err != nil || p.Status != 403 {
		t.Fatalf("%+v %v", p, err)
	}
	want := `{"customer":"acme","login":{"password":"(hidden)","user":"gw"}}`
	if p.Request.Body != want || !strings.HasSuffix(p.Request.URL, "?service_key=(hidden)") || p.Refused != "no access with "+want+" at /v2/tickets?service_key=(hidden)" {
		t.Errorf("%+v\n%s", p.Request, p.Refused)
	}
}

func TestProbeLiveFailures(t *testing.T) {
	f := newFixture(t, status(503))
	p, err := f.Probe(t.Context(), acme, ProbeOptions{})
	if err != nil || p.Status != 503 || p.Problem == "" || f.calls.Load() != 1 || f.BreakerState("buyer") != "closed" {
		t.Errorf("%+v %v", p, err)
	}
	f = newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	})
	if p, err := f.Probe(t.Context(), acme, ProbeOptions{}); err != nil || !strings.Contains(p.Problem, "the reply is text/html") {
		t.Errorf("%+v %v", p, err)
	}
}

func TestProbeSaysHowTheListGoesOn(t *testing.T) {
	for _, tc := range []struct{ paging, lie, want string }{
		{"{style: page, param: page, total: total}", "", "30 records in all"},
		{"{style: page, param: page, total_pages: pages}", "", "3 pages in all"},
		{"{style: page, param: page}", "", "until a page is the last"},
		{"{style: next_url, next: next}", "", "cursor=10"},
		{"{style: next_url, next: next}", "another host", "nowhere: "},
		{"{style: page, param: page, total: nosuch}", "", "nowhere: "},
	} {
		p, err := pagedFixture(t, pagedLegacy{total: 30, size: 10, lie: tc.lie}, tc.paging).Probe(t.Context(), acme, ProbeOptions{})
		if err != nil || !strings.Contains(p.NextPage, tc.want) {
			t.Errorf("%s %s: %q %v", tc.paging, tc.lie, p.NextPage, err)
		}
	}
	p, err := newFixture(t, serveJSON(probeBody)).Probe(t.Context(), acme, ProbeOptions{})
	if err != nil || p.NextPage != "" {
		t.Errorf("without pages: %q %v", p.NextPage, err)
	}
}

func TestProbeSecondCall(t *testing.T) {
	f := newFixture(t, (&commentLegacy{tickets: 2}).ServeHTTP, responses(t, fetches["each"]))
	p, err := f.Probe(t.Context(), acme, ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(p), "1 responses <- uuid = t-0:  -> 1 responses, the last: re 0, by [removed] | customer")
	f = newFixture(t, (&commentLegacy{tickets: 2}).ServeHTTP, responses(t, `{path: "/v2/tickets/{id}/comments", id: uuid, paging: {style: page, param: p, total: nosuch}}`))
	if p, err = f.Probe(t.Context(), acme, ProbeOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(p), "! 1 responses: legacy system: invalid (paging)")
}

func FuzzProbe(f *testing.F) {
	f.Add(probeBody)
	f.Add(`{"result":{"items":[]}}`)
	fix := newFixture(f, serveJSON("{}"))
	f.Fuzz(func(t *testing.T, body string) {
		p, err := fix.Probe(t.Context(), acme, ProbeOptions{Sample: []byte(body)})
		if err != nil || p.Problem == "" && p.Items < len(p.Records) {
			t.Errorf("%+v %v", p, err)
		}
	})
}

// A first page without records beside a total of some is no empty list.
func TestProbeOfAnEmptyFirstPage(t *testing.T) {
	f := newFixture(t, serveJSON(`{"total":13,"result":{"items":[]}}`), func(c *Config) {
		c.Buyer.Paging = mapping.PagingConfig{Style: "page", Param: "page", Total: "total"}
	})
	p, err := f.Probe(t.Context(), acme, ProbeOptions{})
	if err != nil || !strings.Contains(p.Problem, "tells of 13") || !strings.Contains(p.Problem, "paging.first") {
		t.Errorf("%+v %v", p, err)
	}
}
