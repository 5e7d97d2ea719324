package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/mapping"
)

// pagedLegacy serves total records, size at a time at most, in every style.
type pagedLegacy struct {
	total, size int
	lie         string // what it gets wrong
}

func (l pagedLegacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.ContentLength <= 0 {
			status(400)(w, r)
			return
		}
		for name, value := range body {
			if list, ok := value.([]any); ok {
				value = list[1]
			}
			q.Set(name, fmt.Sprint(value))
		}
	}
	number := func(name string) int { n, _ := strconv.Atoi(q.Get(name)); return n }
	size := l.size
	if n := number("limit"); n > 0 {
		size = min(size, n)
	}
	from := number("offset") + number("page")*size + number("cursor")
	if l.lie == "ignores the parameter" {
		from = 0
	}
	to := min(from+size, l.total)
	var records []string
	for i := from; i < to; i++ {
		records = append(records, strings.Replace(testkit.SampleTicket, "Late", fmt.Sprintf("no. %d", i), 1))
	}
	if l.lie == "loses one" && from > 0 && len(records) > 0 {
		records = records[1:]
	}
	next, cursor, pair, more := "null", "null", "null", to < l.total
	if more {
		target := "http://" + r.Host + "/v2/tickets?customer=acme&cursor=" + fmt.Sprint(to)
		switch l.lie {
		case "another host":
			target = "http://evil.test/v2/tickets?cursor=" + fmt.Sprint(to)
		case "loop":
			target = "http://" + r.Host + "/v2/tickets?customer=acme&cursor=0"
			to = 0
		case "relative":
			target = "?customer=acme&cursor=" + fmt.Sprint(to)
		}
		next, cursor, pair = strconv.Quote(target), strconv.Itoa(to), fmt.Sprintf(`["x",%d]`, to)
		w.Header().Add("Link", `<http://x/?a,b>; rel="prev"; title="a, b", <`+target+`>; rel="last next"`)
	}
	if l.lie == "fails later" && from > 0 {
		status(500)(w, r)
		return
	}
	if l.lie == "grows" && from > 0 {
		l.total += size
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(l.total))
	serveJSON(fmt.Sprintf(`{"result":{"items":[%s]},"next":%s,"cursor":%s,"pair":%s,"more":%v,"end":%v,"total":%d,"pages":%d}`,
		strings.Join(records, ","), next, cursor, pair, more, !more, l.total, (l.total+size-1)/size))(w, r)
}

func pagedFixture(t testing.TB, l pagedLegacy, paging string) *fixture {
	t.Helper()
	return newFixture(t, l.ServeHTTP, buyers(t, "paging: "+paging), func(c *Config) { c.MaxRecords = 200 })
}

var pagings = []string{
	"{style: page, param: page, total: total}",
	"{style: page, param: page, total_pages: pages}",
	"{style: page, param: page, total_header: X-Total-Count, concurrency: 2}",
	"{style: page, param: page, more: more}",
	"{style: page, param: page}",
	"{style: page, param: page, last: end}",
	"{style: cursor, param: cursor, cursor: cursor, last: end}",
	"{style: page, param: page, size: 10, size_param: limit, ends_short: true}",
	"{style: offset, param: offset, total: total}",
	"{style: offset, param: offset, size: 1000, size_param: limit, total_header: x-total-count}",
	"{style: offset, param: offset}",
	"{style: cursor, param: cursor, cursor: cursor}",
	"{style: cursor, param: cursor, cursor: cursor, more: more, size: 7, size_param: limit}",
	"{style: next_url, next: next}",
	"{style: link_header}",
}

func TestPagingReadsAll(t *testing.T) {
	for _, paging := range pagings {
		for _, total := range []int{0, 1, 9, 10, 11, 95} {
			f := pagedFixture(t, pagedLegacy{total: total, size: 10}, paging)
			list, err := f.Fetch(t.Context(), acme)
			if err != nil || len(list.Inquiries) != total || list.AnsweredAt.IsZero() {
				t.Errorf("%s: %d of %d records, %v", paging, len(list.Inquiries), total, err)
				continue
			}
			for i, inq := range list.Inquiries {
				if inq.Title != fmt.Sprintf("no. %d", i) {
					t.Errorf("%s: record %d is %q", paging, i, inq.Title)
					break
				}
			}
		}
	}
}

// The variable of each style may stand in a body, and a next page that the legacy
// names by its address is asked for with the same body.
func TestPagingByPOST(t *testing.T) {
	for paging, body := range map[string]string{
		"{style: page, total: total}":                    `{page: "{page}"}`,
		"{style: page, size: 7, more: more}":             `{page: "{page}", limit: "{size}"}`,
		"{style: page, param: page, total_pages: pages}": `{customer: "{account}"}`,
		"{style: offset, total: total, size: 9}":         `{offset: "{offset}", limit: "{size}"}`,
		"{style: offset}":                                `{offset: "{offset}"}`,
		"{style: cursor, cursor: cursor}":                `{cursor: "{cursor}"}`,
		"{style: cursor, cursor: pair}":                  `{cursor: "{cursor}"}`,
		"{style: cursor, cursor: cursor, size: 5}":       `{cursor: "{cursor:number}", limit: "{size}"}`,
		"{style: next_url, next: next}":                  `{customer: "{account}"}`,
		"{style: link_header, size: 8}":                  `{limit: "{size}"}`,
	} {
		f := newFixture(t, pagedLegacy{total: 33, size: 10}.ServeHTTP, buyers(t, "method: POST\n  body: "+body+"\n  paging: "+paging))
		if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 33 {
			t.Errorf("%s: %d records, %v", paging, len(list.Inquiries), err)
		}
	}
}

// A next page may be named without its host, and with the one that only the legacy knows.
func TestWhereTheNextPageIs(t *testing.T) {
	for paging, lie := range map[string]string{
		"{style: next_url, next: next}": "relative", "{style: next_url, next: next, rewrite_host: true}": "another host", "{style: link_header, rewrite_host: true}": "another host",
	} {
		f := pagedFixture(t, pagedLegacy{total: 25, size: 10, lie: lie}, paging)
		if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 25 {
			t.Errorf("%s: %d records, %v", paging, len(list.Inquiries), err)
		}
	}
	p := paging{mapping.PagingConfig{RewriteHost: true}}
	for next, want := range map[string]string{
		"https://public.test/a%2Fb?c=d#e": "http://h:1/a%2Fb?c=d", "//public.test/a": "http://h:1/a", "?b": "http://h:1/x?b", "": "", "http://public.test": "http://h:1/",
		"http://u:p@public.test/a": "", "ftp://public.test/a": "", "http://public.test//evil.test/a": "",
	} {
		if got, err := p.nextURL("http://h:1/x", next); got != want || (err != nil) != (want == "" && next != "") {
			t.Errorf("%q leads to %q, %v, want %q", next, got, err, want)
		}
	}
}

func TestPagingRefuses(t *testing.T) {
	next, offset := "{style: next_url, next: next}", "{style: offset, param: offset, total: total}"
	for _, tc := range []struct {
		lie, paging string
		total       int
		reason      string
	}{
		{"another host", next, 30, "paging"},
		{"another host", "{style: link_header}", 30, "paging"},
		{"loop", next, 30, "paging"},
		{"loop", "{style: cursor, param: cursor, cursor: cursor}", 30, "paging"},
		{"ignores the parameter", offset, 30, "paging"},
		{"ignores the parameter", "{style: page, param: p}", 30, "paging"},
		{"loses one", offset, 30, "paging"},
		{"grows", offset, 30, "paging"},
		{"grows", "{style: page, param: page, total_pages: pages}", 30, "paging"},
		{"fails later", offset, 30, "status_5xx"},
		{"fails later", next, 30, "status_5xx"},
		{"", offset, 201, "too_many"},
		{"", next, 201, "too_many"},
		{"", "{style: page, param: page}", 201, "too_many"},
		{"", "{style: page, param: page, max_pages: 3}", 50, "paging"},
		{"", "{style: next_url, next: next, max_pages: 3}", 50, "paging"},
		{"", "{style: offset, param: offset, total: total, max_pages: 3}", 50, "paging"},
		{"", "{style: offset, param: offset, total: nosuch}", 50, "paging"},
		{"", "{style: page, param: page, more: nosuch}", 50, "paging"},
		{"", "{style: page, param: page, more: total}", 50, "paging"},
		{"", "{style: cursor, param: cursor, cursor: result}", 50, "paging"},
		{"", "{style: cursor, param: cursor, cursor: nosuch, more: more}", 50, "paging"},
		{"", "{style: next_url, next: result}", 50, "paging"},
		{"", "{style: none}", 30, "paging"}, // forgotten
		{"", "{style: cursor, param: cursor, cursor: nosuch}", 30, "paging"},
		{"", "{style: page, param: page, size: 20, size_param: n, ends_short: true}", 30, "paging"}, // the legacy's pages have 10
	} {
		f := pagedFixture(t, pagedLegacy{total: tc.total, size: 10, lie: tc.lie}, tc.paging)
		list, err := f.Fetch(t.Context(), acme)
		if err == nil || asError(err).Reason != tc.reason || list.Inquiries != nil || tc.lie == "loop" && !strings.Contains(err.Error(), "names a page that was read already; where the last page names one, too, paging.more or paging.last tells the end") {
			t.Errorf("%s %s: %d records, %v, want %s", tc.lie, tc.paging, len(list.Inquiries), err, tc.reason)
		}
		if n := f.calls.Load(); n > 25 {
			t.Errorf("%s %s: %d requests", tc.lie, tc.paging, n)
		}
	}
}

// The bytes of all pages count together, and each page has the timeout.
func TestPagingIsBounded(t *testing.T) {
	next := buyers(t, "paging: {style: next_url, next: next}")
	f := newFixture(t, pagedLegacy{total: 100, size: 10}.ServeHTTP, next, func(c *Config) { c.MaxResponseBytes = 10_000 })
	failed(t, f, t.Context(), "invalid", "too_large")
	slow := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			<-r.Context().Done()
			return
		}
		pagedLegacy{total: 100, size: 10}.ServeHTTP(w, r)
	}, next, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	failed(t, slow, t.Context(), "timeout", "timeout")
}

// A list that is announced and does not come may be hidden by a query in items.
func TestAQueryThatLeavesOutAll(t *testing.T) {
	f := newFixture(t, serveJSON(`{"count":1,"result":{"items":[`+testkit.SampleTicket+`]}}`), func(c *Config) { c.Buyer.Items = `result.items.#(state=="X")#` })
	if e := failed(t, f, t.Context(), "invalid", "paging"); !strings.Contains(e.Error(), "count is 1, but 0 records came (does the query in items leave them out?)") {
		t.Error(e)
	}
}

// Where an empty list may have no array at all, a reply without one ends the list, even
// where it says nothing of pages either. What it does say counts.
func TestAReplyWithoutItemsEndsTheList(t *testing.T) {
	for paging, says := range map[string]map[string]int{
		"{style: page, param: page, more: more}":                                {`{}`: 10, `{"more":true}`: -1, `{"more":7}`: -1},
		"{style: cursor, param: page, cursor: cursor, last: end}":               {`{}`: 10, `{"end":true}`: 10},
		"{style: page, param: page, total: total}":                              {`{}`: -1}, // the first page has announced more
		"{style: page, param: page}":                                            {`{}`: 10, `{"result":null}`: 10, `{"result":{"items":7}}`: -1},
		"{style: offset, param: page, size: 10, size_param: limit, more: more}": {`{}`: 10},
	} {
		for last, want := range says {
			f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
				if page := r.URL.Query().Get("page"); page == "" || page == "0" {
					r.URL.RawQuery = ""
					pagedLegacy{total: 20, size: 10}.ServeHTTP(w, r)
					return
				}
				serveJSON(last)(w, r)
			}, buyers(t, "items_optional: true\n  paging: "+paging))
			list, err := f.Fetch(t.Context(), acme)
			if want < 0 && err == nil || want >= 0 && (err != nil || len(list.Inquiries) != want) {
				t.Errorf("%s, then %s: %d records, %v, want %d", paging, last, len(list.Inquiries), err, want)
			}
		}
	}
	for _, paging := range []string{"{style: page, param: page, total: total}", "{style: page, param: page, more: more}", "{style: next_url, next: next}"} {
		f := newFixture(t, serveJSON(`{}`), buyers(t, "items_optional: true\n  paging: "+paging))
		if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 0 || f.calls.Load() != 1 {
			t.Errorf("%s: %v after %d requests", paging, err, f.calls.Load())
		}
	}
}

func TestLinkNext(t *testing.T) {
	for header, want := range map[string]string{
		`</a>; rel="next"`: "/a", `</a>; rel=next`: "/a", `</a>;REL="Next"`: "/a", `</a>; rel="prev", </b>; rel="next"`: "/b",
		`</a,b>; rel="next"`: "/a,b", `</a>; title="x, y"; rel="next"`: "/a", `</a>; rel="nextish"`: "", `</a>`: "", `garbage`: "", "": "", `<`: "", `>a<`: "",
		`</a>; rel="first", </b>; rel="last next"`: "/b",
	} {
		if got := linkNext([]string{"", header}); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func FuzzNextURL(f *testing.F) {
	for _, s := range []string{"/a", "//evil.test/", "http://h.test:80/x", "https://h.test/", `\\evil.test`, "http://u@h.test/", "?a"} {
		f.Add(s, `<`+s+`>; rel="next"`)
	}
	f.Fuzz(func(t *testing.T, next, header string) {
		if link := linkNext([]string{header}); link != "" && (!strings.Contains(header, "<"+link+">") || !strings.Contains(strings.ToLower(header), "next")) {
			t.Errorf("%q gives %q", header, link)
		}
		got, err := paging{}.nextURL("http://h.test/x?y=z", next)
		if err == nil && got != "" && !slices.ContainsFunc([]string{"http://h.test/", "http://h.test:80/", "http://h.test?", "http://h.test:80?"}, func(p string) bool {
			return strings.HasPrefix(strings.ToLower(got), p)
		}) && !strings.EqualFold(got, "http://h.test") && !strings.EqualFold(got, "http://h.test:80") {
			t.Errorf("%q leads to %q", next, got)
		}
	})
}
