package mapping

import (
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// endOf maps a reply with one record, in which $ stands for the records, and
// checks its end.
func endOf(t testing.TB, items, reply, paging string, end End) error {
	t.Helper()
	section := changed(t, "items: result.items\n", "items: "+items+"\n  paging: "+paging+"\n")
	plan := planFrom(t, section, "buyer")
	r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
	var err error
	if end.Records, err = r.Take(strings.Replace(reply, "$", "["+testkit.SampleTicket+"]", 1)); err != nil {
		t.Fatalf("%s: %v", reply, err)
	}
	end.Pages = max(end.Pages, 1)
	return r.CheckEnd(plan.Paging, end)
}

func TestMarksOfMore(t *testing.T) {
	for reply, path := range map[string]string{
		// Names a next page.
		`{"next":"https://l.test/t?page=2","result":{"items":$}}`:                                  "next",
		`{"result":{"items":$,"__next":"t?skiptoken=2"}}`:                                          "result.__next",
		`{"@odata.nextLink":"https://l.test/t?skip=60","result":{"items":$}}`:                      "@odata.nextLink",
		`{"odata.nextLink":"t?skip=60","result":{"items":$}}`:                                      "odata.nextLink",
		`{"result":{"items":$},"meta":{"next_cursor":"abc"}}`:                                      "meta.next_cursor",
		`{"result":{"items":$,"nextPageToken":"abc"}}`:                                             "result.nextPageToken",
		`{"result":{"items":$},"_links":{"self":{"href":"/t"},"next":{"href":"/t?p=2"}}}`:          "_links.next",
		`{"result":{"items":$},"links":[{"rel":"self","href":"/t"},{"rel":"Next","href":"/t?2"}]}`: "links",
		`{"result":{"items":$,"cursor":"x1"}}`:                                                     "result.cursor",
		`{"result":{"items":$},"paging":{"page":1,"next":2}}`:                                      "paging.next",
		// Says that there is more.
		`{"has_more":true,"result":{"items":$}}`:                                   "has_more",
		`{"result":{"items":$,"pageInfo":{"hasNextPage":true,"endCursor":"abc"}}}`: "result.pageInfo.hasNextPage",
		`{"result":{"items":$},"done":false}`:                                      "done",
		`{"result":{"items":$},"page":{"last":false}}`:                             "page.last",
		`{"result":{"items":$,"isLastPage":false}}`:                                "result.isLastPage",
		`{"result":{"items":$},"incomplete_results":true}`:                         "incomplete_results",
		`{"result":{"items":$},"hasMore":"true"}`:                                  "hasMore",
		// Counts more.
		`{"total":165,"result":{"items":$}}`:                           "total",
		`{"result":{"items":$,"totalCount":"165"}}`:                    "result.totalCount",
		`{"result":{"total":{"value":165,"relation":"eq"},"items":$}}`: "result.total",
		`{"result":{"items":$},"meta":{"pagination":{"total":2}}}`:     "meta.pagination.total",
		`{"@odata.count":2,"result":{"items":$}}`:                      "@odata.count",
		`{"result":{"numFound":2,"items":$}}`:                          "result.numFound",
		`{"result":{"items":$},"page":{"totalPages":3,"number":0}}`:    "page.totalPages",
		`{"last_page":3,"result":{"items":$}}`:                         "last_page",
		`{"has_more":false,"count":165,"result":{"items":$}}`:          "count",
	} {
		err := endOf(t, "result.items", reply, "{style: none}", End{})
		if reasonOf(t, err) != "paging" || !strings.Contains(err.Error(), ": "+path+" ") {
			t.Errorf("%s: %v, want %s", reply, err, path)
		}
		if err := endOf(t, "result.items", reply, `{ignore_marks: ["`+path+`"]}`, End{}); err != nil {
			t.Errorf("%s, ignored: %v", reply, err)
		}
	}
}

func TestMarksThatMeanNothing(t *testing.T) {
	for _, reply := range []string{
		`{"next":null,"previous":null,"count":1,"result":{"items":$}}`, `{"next":"","result":{"items":$}}`, `{"next":false,"nextPage":0,"result":{"items":$}}`,
		`{"next":"https://l.test/t?a=b","result":{"items":$}}`, `{"next":"?a=b","result":{"items":$}}`, `{"_links":{"self":{"href":"/x"},"next":{"href":"/x"}},"result":{"items":$}}`,
		`{"page":1,"next":1,"result":{"items":$}}`, `{"_links":{"next":{}},"result":{"items":$}}`, `{"_links":{"next":{"href":null}},"result":{"items":$}}`,
		`{"total":1,"total_pages":1,"result":{"items":$}}`, `{"total":0,"result":{"items":$}}`, `{"total":12.5,"result":{"items":$}}`,
		`{"meta":{"has_more":false,"next_cursor":"abc"},"links":{"next":"https://l.test/t?c=abc"},"result":{"items":$}}`, // an explicit end
		`{"pageInfo":{"hasNextPage":false,"endCursor":"abc"},"result":{"items":$}}`, `{"done":true,"last":true,"truncated":false,"result":{"items":$}}`,
		`{"info":{"pages":3,"total":165},"result":{"items":$}}`,                               // not the list's
		`{"user":{"next":"x","total":9},"facets":{"open":{"count":40}},"result":{"items":$}}`, // not about pages
		`{"links":[{"rel":"self","href":"/t"},{"rel":"last","href":"/t?2"}],"result":{"items":$}}`, `{"meta":{"a":1,"pagination":{"links":{"next":"3"}}},"result":{"items":$}}`,
	} {
		if err := endOf(t, "result.items", reply, "{style: none}", End{Address: "https://l.test/t?a=b"}); err != nil {
			t.Errorf("%s: %v", reply, err)
		}
	}
	// Records are not looked at, wherever the items are.
	record := strings.Replace(testkit.SampleTicket, "{", `{"next":"x","total":9,"has_more":true,"meta":{"total":9},`, 1)
	for items, reply := range map[string]string{`"@this"`: "[" + record + "]", "result.items": `{"result":{"items":[` + record + `]}}`, "results.0.items": `{"results":[{"items":[` + record + `]}]}`} {
		if err := endOf(t, items, reply, "{style: none}", End{}); err != nil {
			t.Errorf("%s: %v", items, err)
		}
	}
}

func TestMarksInHeaders(t *testing.T) {
	const reply = `{"result":{"items":$}}`
	for name, value := range map[string]string{"X-Total-Count": "165", "X-Total-Pages": "3", "X-Next-Page": "2", "X-Has-More": "true", "Content-Range": "items 0-59/165"} {
		end := End{Header: http.Header{name: {value}}, Records: 60, Pages: 1}
		err := endOf(t, "result.items", reply, "{style: none}", end)
		if reasonOf(t, err) != "paging" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if err := endOf(t, "result.items", reply, "{ignore_marks: ["+name+"]}", end); err != nil {
			t.Errorf("%s, ignored: %v", name, err)
		}
	}
	for name, value := range map[string]string{"X-Total-Count": "1", "X-Next-Page": "", "Content-Range": "items 0-0/*", "X-Request-Id": "7"} {
		if err := endOf(t, "result.items", reply, "{style: none}", End{Header: http.Header{name: {value}}, Records: 60, Pages: 1}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := End{Address: "https://l.test/t", Next: "https://l.test/t?page=2"}
	if err := endOf(t, "result.items", reply, "{style: none}", link); reasonOf(t, err) != "paging" {
		t.Error(err)
	}
	if err := endOf(t, "result.items", reply, "{ignore_marks: [Link]}", link); err != nil {
		t.Error(err)
	}
	link.Next = link.Address
	if err := endOf(t, "result.items", reply, "{style: none}", link); err != nil {
		t.Error(err)
	}
}

// What contradicts the end that paging saw is refused; what paging reads is not
// looked at a second time.
func TestMarksAfterTheLastPage(t *testing.T) {
	for _, tc := range []struct{ paging, reply, says string }{
		{"{style: cursor, param: c, cursor: next}", `{"next":null,"total":165,"result":{"items":$}}`, "total is 165, but 1 records came"},
		{"{style: page, param: p, size: 50, size_param: n, ends_short: true}", `{"has_more":true,"result":{"items":$}}`, "has_more is true"},
		{"{style: page, param: p, size: 50, size_param: n, ends_short: true}", `{"pages":3,"result":{"items":$}}`, "pages is 3, but 2 were read"},
		{"{style: page, param: p, size: 50, size_param: n, ends_short: true}", `{"pages":2,"total":1,"result":{"items":$}}`, ""},
		{"{style: cursor, param: c, cursor: next, more: more}", `{"next":"x","more":false,"result":{"items":$}}`, ""},
		{"{style: next_url, next: nxt}", `{"nxt":null,"next":"/t?p=2","result":{"items":$}}`, "next names a next page"},
		{"{style: next_url, next: nxt, ignore_marks: [next]}", `{"nxt":null,"next":"/t?p=2","result":{"items":$}}`, ""},
	} {
		err := endOf(t, "result.items", tc.reply, tc.paging, End{Pages: 2})
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s %s: %v", tc.paging, tc.reply, err)
		}
	}
}

// A list whose path goes through an array has its marks beside that array.
func TestMarksBesideEdges(t *testing.T) {
	const path = "data.tickets.edges.#.node"
	section := changed(t, "items: result.items\n", "items: "+path+"\n")
	plan := planFrom(t, section, "buyer")
	r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
	n, err := r.Take(`{"data":{"tickets":{"edges":[{"node":` + testkit.SampleTicket + `}],"pageInfo":{"hasNextPage":true}}}}`)
	if err == nil {
		err = r.CheckEnd(plan.Paging, End{Records: n, Pages: 1})
	}
	if n != 1 || err == nil || !strings.Contains(err.Error(), "data.tickets.pageInfo.hasNextPage is true") {
		t.Errorf("%d records, %v", n, err)
	}
}

const oneReply = `{"uuid":"90000000-0000-4000-8000-000000000001","text":"t","by":{"role":"S"},"at":"2026-01-02T03:04:05Z"}`

// withReplies is the sample of a ticket with something else as its replies.
func withReplies(t testing.TB, replies string) string {
	t.Helper()
	before, after, ok := strings.Cut(testkit.SampleTicket, `"replies":[`)
	_, after, closed := strings.Cut(after, "]")
	if !ok || !closed {
		t.Fatal("the sample has no replies")
	}
	return before + `"replies":` + replies + after
}

// A record may hold the first of its responses only. What stands beside their array
// tells it, as what stands beside a list does.
func TestMarksOfMoreResponses(t *testing.T) {
	for _, tt := range []struct{ items, replies, mark string }{
		{"replies.items", `{"total":12,"items":[$]}`, "replies.total is 12, but 1 responses came"},
		{"replies.nodes", `{"nodes":[$],"pageInfo":{"hasNextPage":true,"endCursor":"x"}}`, "replies.pageInfo.hasNextPage is true"},
		{"replies.items", `{"items":[$],"next":"https://l.test/t/1/replies?page=2"}`, "replies.next names a next page"},
		{"replies.data", `{"links":{"next":{"href":"/r?2"}},"data":[$]}`, "replies.links.next names a next page"},
		{"replies.edges.#.node", `{"edges":[{"node":$}],"totalCount":2}`, "replies.totalCount is 2, but 1 responses came"},
		{"replies.items", `{"total":1,"items":[]}`, "replies.total is 1, but 0 responses came"},
		{"replies.items", `{"total":12}`, "replies.total is 12, but 0 responses came"},
		{"replies.items", `{"total":1,"count":1,"items":[$],"next":null,"hasMore":false}`, ""},
		{"replies.items", `{"items":[$]}`, ""},
		{"replies.items", `null`, ""},
		{"replies", `[$]`, ""},
	} {
		for _, ignored := range []bool{false, true} {
			path, _, _ := strings.Cut(tt.mark, " ")
			section := changed(t, "items: replies\n", "items: \""+tt.items+"\"\n")
			section = strings.Replace(section, "replies.#.uuid", tt.items+".#.uuid", 1)
			if ignored {
				section = strings.Replace(section, "  items: result.items\n", "  items: result.items\n  paging: {ignore_marks: [\""+path+"\"]}\n", 1)
			}
			if ignored && tt.mark == "" {
				continue
			}
			plan := planFrom(t, section, "buyer")
			r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
			reply := `{"result":{"items":[` + withReplies(t, strings.Replace(tt.replies, "$", oneReply, 1)) + `]}}`
			_, err := r.Take(reply)
			if tt.mark == "" || ignored {
				if err != nil || len(r.List) != 1 {
					t.Errorf("%s %s: %v", tt.items, tt.replies, err)
				}
				continue
			}
			if reasonOf(t, err) != "record" || !strings.Contains(err.Error(), "responses: these are not all: "+tt.mark+";") {
				t.Errorf("%s %s: %v", tt.items, tt.replies, err)
			}
			x := plan.Explainer(Request{Kind: "buyer", Account: "acme"}, 1)
			if _, err := x.Take(reply); err != nil || len(x.Violations) != 1 || !strings.Contains(x.Violations[0].Problem, tt.mark) {
				t.Errorf("the probe tells %+v, %v", x.Violations, err)
			}
		}
	}
}

// An object with other fields of the record in it holds more than responses: its
// total may be the price.
func TestNoMarksAmongOtherFields(t *testing.T) {
	section := changed(t, "items: replies\n", "items: body.replies\n")
	r := planFrom(t, section, "buyer").NewBuilder(Request{Kind: "buyer", Account: "acme"})
	ticket := strings.Replace(testkit.SampleTicket, `"body":{`, `"body":{"total":99,"done":false,"replies":[],`, 1)
	if ticket == testkit.SampleTicket {
		t.Fatal("the sample has no body")
	}
	if _, err := r.Take(`{"result":{"items":[` + ticket + `]}}`); err != nil {
		t.Error(err)
	}
}
