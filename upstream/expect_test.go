package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
	"inquiry-gateway/upstream/mapping"
)

// A 200 with an error code is bad content: it opens no breaker, and the log holds
// nothing of it.
func TestExpect(t *testing.T) {
	code := `"0"`
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		serveJSON(`{"result":{"items":[`+sample.Ticket+`]},"rc":`+code+`}`)(w, r)
	}, func(c *Config) {
		c.Breaker.MinRequests = 1
		c.Buyer.Expect = []mapping.Condition{{Path: "rc", Equals: mapping.Default{Set: true, Value: "0"}}}
	})
	for _, code = range []string{`"0"`, `"E4711"`, `"E4711"`, `"0"`} {
		if code == `"0"` {
			if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 1 {
				t.Fatalf("%+v %v", list, err)
			}
			continue
		}
		e := failed(t, f, t.Context(), "invalid", "expect")
		if verdictOf(e) != well || !strings.Contains(e.Error(), "buyer.expect[0]: rc must be 0; found: string") || strings.Contains(e.Error()+f.log.String(), "E4711") {
			t.Errorf("%v\n%s", e, f.log.String())
		}
		p, err := f.Probe(t.Context(), acme, ProbeOptions{})
		if err != nil || !strings.HasSuffix(p.Problem, "found: string") || p.Found != `"E4711"` {
			t.Errorf("%q %q %v", p.Problem, p.Found, err)
		}
	}
}

// Each of the second requests has conditions of its own.
func TestExpectOfSecondReplies(t *testing.T) {
	const expect = `, expect: [{path: rc, equals: 0, missing: include}]}`
	for more, want := range map[string]string{"": "", `,"rc":0`: "", `,"rc":5`: "expect"} {
		for name, fetch := range fetches {
			f := secondFixture(t, &commentLegacy{tickets: 2, more: more}, strings.TrimSuffix(fetch, "}")+expect, nil)
			got := ""
			if _, err := f.Fetch(t.Context(), acme); err != nil {
				got = asError(err).Reason
			}
			if got != want {
				t.Errorf("%s, %q: %q, want %q", name, more, got, want)
			}
		}
	}
	for total, want := range map[int]string{5: "", 6: "expect"} {
		details := strings.Replace(detailEach, "id: id", fmt.Sprintf("id: id, expect: [{path: total, equals: %d}]", total), 1)
		f := detailsFixture(t, `"@this"`, details, `[{"id":"tick-1"}]`, nil)
		got := ""
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			got = asError(err).Reason
		}
		if got != want {
			t.Errorf("details, total must be %d: %q, want %q", total, got, want)
		}
	}
}
