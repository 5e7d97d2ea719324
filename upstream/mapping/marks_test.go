package mapping

import (
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

// endOf maps a reply with one record, in which $ stands for the records, and
// checks its end.
func endOf(t testing.TB, items, reply, paging string, end End) error {
	t.Helper()
	section := changed(t, "items: result.items\n", "items: "+items+"\n  paging: "+paging+"\n")
	plan := planFrom(t, section, "buyer")
	r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
	var err error
	if end.Records, err = r.Take(strings.Replace(reply, "$", "["+sample.Ticket+"]", 1)); err != nil {
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
	record := strings.Replace(sample.Ticket, "{", `{"next":"x","total":9,"has_more":true,"meta":{"total":9},`, 1)
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

// BenchmarkCheckEnd supports the decision to look for marks in the reply without
// its items: it costs the same for every length of a list.
func BenchmarkCheckEnd(b *testing.B) {
	plan := planFrom(b, sample.YAML, "buyer")
	r := plan.NewBuilder(Request{Kind: "buyer", Account: "acme"})
	if _, err := r.Take(sample.Tickets(1000)); err != nil {
		b.Fatal(err)
	}
	end := End{Records: 1000, Pages: 1, Address: "https://l.test/t", Header: http.Header{"Content-Type": {"application/json"}, "Date": {"x"}, "X-Request-Id": {"7"}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.CheckEnd(plan.Paging, end); err != nil {
			b.Fatal(err)
		}
	}
}
