package upstream

import (
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/mapping"
)

// lines writes a probe the way a table would, for comparison.
func lines(p *Explained) string {
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

const explained = `{"result":{"items":[` +
	`{"uuid":"6f1c2a34-1111-4222-8333-944455566677","customer":{"id":"acme","vip":true},"subject":"Late","body":{"text":"as 7f1c2a34-1111-4222-8333-944455566677"},"state":"N","category":null,"opened":"2026-03-01 09:30:00","extra":[{"a":1},{"a":"x"}],` +
	`"replies":[{"uuid":"u-000001","text":"On its way","by":{"role":"S","name":"x"},"at":"2026-03-02T01:02:03Z"}]},` +
	`{"uuid":"7f1c2a34-1111-4222-8333-944455566677","customer":{"id":"zorg"},"subject":7,"body":{"text":"b"},"state":"Z","opened":"then","replies":[{"uuid":"x-000002"}]},` +
	`{"customer":{}},5]}}`

func TestExplain(t *testing.T) {
	f := newFixture(t, serveJSON(explained))
	p, err := f.Explain(t.Context(), acme, 3, FirstReply)
	if err != nil || p.Problem != nil || p.Items != 4 || len(p.Records) != 3 {
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
	for _, want := range []Request{{Kind: "x", Account: "a"}, {Kind: "buyer"}} {
		if _, err := f.Explain(t.Context(), want, 3, FirstReply); err == nil {
			t.Errorf("%+v was accepted", want)
		}
	}
}

func TestExplainSaysHowTheListGoesOn(t *testing.T) {
	for _, tc := range []struct{ paging, lie, want string }{
		{"{style: page, param: page, total: total}", "", "30 records in all"},
		{"{style: page, param: page, total_pages: pages}", "", "3 pages in all"},
		{"{style: page, param: page}", "", "until a page is the last"},
		{"{style: next_url, next: next}", "", "cursor=10"},
		{"{style: next_url, next: next}", "another host", "nowhere: "},
		{"{style: page, param: page, total: nosuch}", "", "nowhere: "},
	} {
		p, err := pagedFixture(t, pagedLegacy{total: 30, size: 10, lie: tc.lie}, tc.paging).Explain(t.Context(), acme, 3, FirstOfEach)
		if err != nil || !strings.Contains(p.NextPage, tc.want) {
			t.Errorf("%s %s: %q %v", tc.paging, tc.lie, p.NextPage, err)
		}
	}
	p, err := newFixture(t, serveJSON(testkit.SampleList(testkit.SampleTicket))).Explain(t.Context(), acme, 3, FirstOfEach)
	if err != nil || p.NextPage != "" {
		t.Errorf("without pages: %q %v", p.NextPage, err)
	}
}

func TestExplainSecondCall(t *testing.T) {
	f := newFixture(t, (&commentLegacy{tickets: 2}).ServeHTTP, responses(t, fetches["each"]))
	p, err := f.Explain(t.Context(), acme, 3, FirstOfEach)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(p), "1 responses <- uuid = t-0:  -> 1 responses, the last: re 0, by [removed] | customer")
	f = newFixture(t, (&commentLegacy{tickets: 2}).ServeHTTP, responses(t, `{path: "/v2/tickets/{id}/comments", id: uuid, paging: {style: page, param: p, total: nosuch}}`))
	if p, err = f.Explain(t.Context(), acme, 3, FirstOfEach); err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(p), "! 1 responses: legacy system: invalid (paging)")
}

// A first page without records beside a total of some is no empty list.
func TestExplainAnEmptyFirstPage(t *testing.T) {
	f := newFixture(t, serveJSON(`{"total":13,"result":{"items":[]}}`), func(c *Config) {
		c.Buyer.Paging = mapping.PagingConfig{Style: "page", Param: "page", Total: "total"}
	})
	p, err := f.Explain(t.Context(), acme, 3, FirstOfEach)
	if err != nil || p.Problem == nil || !strings.Contains(p.Problem.Error(), "tells of 13") || !strings.Contains(p.Problem.Error(), "paging.first") {
		t.Errorf("%+v %v", p, err)
	}
}
