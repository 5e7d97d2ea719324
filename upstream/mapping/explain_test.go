package mapping

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// What an operator is told of a list. What is wanted has bars between its lines; a line that
// must not be there has "-" before it.
func TestExplain(t *testing.T) {
	eachLine(t, "testdata/explain.txt", func(at string, settings map[string]string, given, want string) {
		c := newCase(t, at, settings, given)
		x := c.plan.Explainer(c.want, 100)
		_, _ = x.Take(c.body)
		x.Finish()
		compare(t, at, explained(x), want)
	})
}

// Whatever a system calls what tells that a list goes on, probe shows it; and it doubts a list with one of
// the names by which a list is refused, even where this one has no next page.
func TestSignsOfPagesAreShown(t *testing.T) {
	signs := []string{ // as they were met in real interfaces, with a value of the last or only page
		`"offset":"itrX/recY"`, `"end_of_stream":false`, `"after_url":"https://l.test/t?c=1"`, `"next_page":null`, `"nextPageToken":"abc"`, `"nextLink":null`, `"has_more":false`, `"hasNext":false`,
		`"next_cursor":""`, `"cursor":"c1"`, `"endCursor":"c1"`, `"after":"c1"`, `"after_cursor":null`, `"marker":"m"`, `"NextMarker":null`, `"NextToken":null`, `"nextRecordsUrl":null`, `"scroll_id":"s"`,
		`"_scroll_id":"s"`, `"pageToken":"t"`, `"continuationToken":"t"`, `"continue":"t"`, `"bookmark":"g1"`, `"next_start":100`, `"last":true`, `"isLast":true`, `"is_last_page":true`, `"done":true`,
		`"incomplete_results":true`, `"truncated":false`, `"timed_out":false`, `"exceededTransferLimit":true`, `"total":165`, `"total_count":165`, `"totalSize":165`, `"totalElements":165`, `"totalPages":4`,
		`"page_count":4`, `"numFound":165`, `"count":1`, `"recordsTotal":165`, `"recordsFiltered":1`, `"resultSize":1`, `"numberOfResults":165`, `"remaining":12`, `"startAt":0`, `"maxResults":50`, `"limit":50`,
		`"per_page":20`, `"page":1`, `"meta":{"pagination":{"more_items_in_collection":false}}`, `"paging":{"next":null}`, `"sync_token":"x"`, `"@odata.count":165`, `"previous":null`,
	}
	for _, sign := range signs {
		x := planOf(t).Explainer(acme, 1)
		body := strings.Replace(testkit.SampleList(testkit.SampleTicket), "{", "{"+sign+",", 1)
		if _, err := x.Take(body); err != nil {
			t.Fatal(err)
		}
		_ = x.CheckEnd(End{Records: 1, Pages: 1})
		x.Finish()
		name, value := strings.Trim(strings.Split(sign, ":")[0], `"`), sign[strings.LastIndex(sign, ":")+1:]
		if len(x.Beside) != 1 || !strings.HasPrefix(x.Beside[0], name) || !strings.HasSuffix(x.Beside[0], strings.TrimRight(value, "}")) {
			t.Errorf("%s: %q", sign, x.Beside)
		}
		leaf := name
		if i := strings.LastIndex(sign, `{"`); i > 0 {
			leaf = strings.Split(sign[i+2:], `"`)[0]
		}
		doubted := slices.ContainsFunc(x.Doubts, func(d Doubt) bool { return strings.Contains(d.Text, "name the next page") })
		if doubted != isNextMark(leaf) {
			t.Errorf("%s: doubts %v", sign, x.Doubts)
		}
	}
	x := planOf(t, "paging: {style: page, param: page, total: total}").Explainer(acme, 1)
	if _, err := x.Take(strings.Replace(testkit.SampleList(testkit.SampleTicket), "{", `{"total":1,"next_page":"/list?page=2",`, 1)); err != nil || len(x.Doubts) > 0 {
		t.Errorf("a list that is read in pages: %v, doubts %v", err, x.Doubts)
	}
	x = planOf(t).Explainer(acme, 1)
	_, _ = x.Take(testkit.SampleList(testkit.SampleTicket))
	if _ = x.CheckEnd(End{Header: http.Header{"X-Pagination": {`{"TotalCount":165,"HasNext":true}`}, "Date": {"x"}}}); len(x.Beside) != 1 || !strings.Contains(x.Beside[0], "X-Pagination") {
		t.Errorf("%q", x.Beside)
	}
}

// compare looks for what is wanted in the lines of an explanation.
func compare(t *testing.T, at string, all []string, want string) {
	t.Helper()
	for line := range strings.SplitSeq(want, " | ") {
		line, not := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, line) }) == not {
			t.Errorf("%s:\ngot\n%s\nwant %v %s", at, strings.Join(all, "\n"), !not, line)
		}
	}
}

// explained writes an explanation in lines.
func explained(x *Explainer) (all []string) {
	say := func(format string, args ...any) {
		all = append(all, strings.ReplaceAll(fmt.Sprintf(format, args...), " | ", " / "))
	}
	say("items %d, excluded %d", x.Items, x.Excluded)
	say("served %d", len(x.List))
	for _, r := range x.Records {
		for _, f := range r.Fields {
			say("%d %s <- %s: %s -> %s", r.Number, f.Field, f.Path, f.Raw, f.Mapped)
		}
	}
	for _, v := range x.Violations {
		say("! %d %s: %s", v.Record, v.Field, v.Problem)
	}
	o := x.Owner
	say("owner %s: %d, missing %v, foreign %v, of another case %d, such as %s", o.Path, o.Matches, o.Missing, o.Foreign, o.Case, strings.Join(o.Others, " "))
	for _, u := range x.Unused {
		say("unused %s %s", u.Path, strings.Join(u.Types, ","))
	}
	for _, p := range x.Paths {
		say("path %s", p)
	}
	for _, d := range x.Doubts {
		say("doubt %s", d.Text)
	}
	r := x.Report.Removed
	say("removed %d", r.Texts)
	for _, c := range r.Cuts {
		say("cut %d %s: %s -> %s", c.Record, c.Field, c.Before, c.After)
	}
	for _, u := range x.Suspects {
		say("stays %d %s: %s, %s, %s", u.Record, u.Field, u.Value, u.Why, u.Key)
	}
	return all
}

// What came by second requests is explained with its record, and is no member of it.
func TestExplainSecondRequests(t *testing.T) {
	plan := planOf(t, `fields.responses.fetch: {path: "/n/{id}", id: uuid, paging: {style: none}}`, "fields.responses.items: n", "fields.responses.internal_ids: [author]")
	for replies, want := range map[string]string{
		"":                                  "- doubt | - unused uuid | served 1 | - 1 responses",
		`{"n":[]}`:                          "doubt no response came for any of 1 records | - unused | served 1 | 1 responses <- uuid = 4711:  -> 0 responses",
		`{"n":[{"text":"x","author":"B"}]}`: "! 1 responses.created_at: missing | - doubt no | path internal_ids[0]: uuid found in 1 of 1 records | path fields.responses.internal_ids[0]: author found in 1 of 1 responses | served 0",
		`{"n":[7]}`:                         "! 1 responses: not an object | served 0",
	} {
		x := plan.Explainer(acme, 1)
		body := `{"result":{"items":[{"uuid":4711,"customer":{"id":"acme"},"subject":"s","body":{"text":"c"},"state":"N","category":"d","opened":"2026-03-01 09:30:00"}]}}`
		if _, err := x.Take(body); err != nil || x.CheckEnd(End{Records: 1, Pages: 1}) != nil {
			t.Fatal(err)
		}
		s, ids := x.Next()
		if replies != "" {
			_, a := s.Request(acme, ids[0])
			if _, err := a.Take(replies); err != nil {
				t.Fatal(err)
			}
			if err := x.Attach([]*Attachment{a}); err != nil {
				t.Fatal(err)
			}
		}
		x.Finish()
		compare(t, replies, explained(x), want)
	}
}
