package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"inquiry-gateway/upstream/mapping"
)

// pagedLegacy serves so many records, ten at a time at most, whose titles are their
// numbers. It says in every way where the list goes on.
func pagedLegacy(all int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		if r.Method == http.MethodPost {
			var body map[string]any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				status(400)(w, r)
				return
			}
			for name, value := range body {
				asked.Set(name, fmt.Sprint(value))
			}
		}
		number := func(name string) int { n, _ := strconv.Atoi(asked.Get(name)); return n }
		size := 10
		if n := number("limit"); n > 0 {
			size = min(size, n)
		}
		from := number("offset") + number("page")*size + number("cursor")
		to := min(from+size, all)
		var titles []string
		for i := from; i < to; i++ {
			titles = append(titles, strconv.Itoa(i))
		}
		next, cursor := "null", "null"
		if to < all {
			target := fmt.Sprintf("http://%s/list?customer=acme&cursor=%d", r.Host, to)
			next, cursor = strconv.Quote(target), strconv.Itoa(to)
			w.Header().Set("Link", "<"+target+`>; rel="next"`)
		}
		w.Header().Set("X-Total-Count", strconv.Itoa(all))
		where := fmt.Sprintf(`,"next":%s,"cursor":%s,"more":%t,"end":%t`, next, cursor, to < all, to >= all)
		length := fmt.Sprintf(`,"total":%d,"pages":%d`, all, (all+size-1)/size)
		serveJSON(rows(where+length, titles...))(w, r)
	}
}

// Each style reads all records of lists that end within a page, with one, or have none.
func TestPages(t *testing.T) {
	for _, keys := range []string{
		"paging: {style: page, param: page, total: total}",
		"paging: {style: page, param: page, total_pages: pages}",
		"paging: {style: page, param: page, total_header: X-Total-Count, concurrency: 2}",
		"paging: {style: page, param: page, last: {path: more, is: false}}",
		"paging: {style: page, param: page, until_empty: true}",
		"paging: {style: page, param: page, last: {path: end, is: true}}",
		"paging: {style: offset, param: offset, total: total}",
		"paging: {style: offset, param: offset, size: 1000, size_param: limit, total_header: x-total-count}",
		"paging: {style: offset, param: offset, until_empty: true}",
		"paging: {style: cursor, param: cursor, next: cursor}",
		"paging: {style: cursor, param: cursor, next: cursor, last: {path: end, is: true}}",
		"paging: {style: cursor, param: cursor, next: cursor, last: {path: more, is: false}, size: 7, size_param: limit}",
		"paging: {style: next_url, next: next}",
		"paging: {style: link_header}",
		// In a body.
		`method: POST, body: {page: "{page}"}, paging: {style: page, total: total}`,
		`method: POST, body: {page: "{page}", limit: "{size}"}, paging: {style: page, size: 7, last: {path: more, is: false}}`,
		`method: POST, body: {x: y}, paging: {style: page, param: page, total_pages: pages}`,
		`method: POST, body: {offset: "{offset}", limit: "{size}"}, paging: {style: offset, total: total, size: 9}`,
		`method: POST, body: {offset: "{offset}"}, paging: {style: offset, until_empty: true}`,
		`method: POST, body: {cursor: "{cursor}"}, paging: {style: cursor, next: cursor}`,
		`method: POST, body: {cursor: "{cursor:number}", limit: "{size}"}, paging: {style: cursor, next: cursor, size: 5}`,
		`method: POST, body: {x: y}, paging: {style: next_url, next: next}`,
		`method: POST, body: {limit: "{size}"}, paging: {style: link_header, size: 8}`,
	} {
		for _, all := range []int{0, 1, 9, 10, 11, 95} {
			virtual(t, pagedLegacy(all), "buyer: {"+keys+"}", func(t *testing.T, f *fixture) {
				list, err := f.Fetch(t.Context(), acme)
				if err != nil || len(list.Inquiries) != all || list.AnsweredAt.IsZero() {
					t.Errorf("%s: %d of %d records, %v", keys, len(list.Inquiries), all, err)
				}
				for i, inq := range list.Inquiries {
					if inq.Title != strconv.Itoa(i) {
						t.Fatalf("%s: record %d is %q", keys, i, inq.Title)
					}
				}
			})
		}
	}
}

// pagedSystem is a legacy system whose list of six records comes in pages of two, and
// which says nothing of it but what it has to. What is wrong with it is in cut.
type pagedSystem struct {
	tells  string // how the list goes on: words out of total, pages, more, cursor, next, link, header
	cut    string
	xml    bool
	unkind bool // with a request id and a time in each reply, and numbers as Perl writes them
	asked  atomic.Int64
}

func (s *pagedSystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
	page := number("page") + (number("offset")+1)/2 + number("cursor")
	if s.cut == "the page is not looked at" {
		page = 0
	}
	pages := map[string][][]int{
		"one record twice, another lost":   {{0, 1}, {1, 2}, {4, 5}},
		"one record twice in another text": {{0, 1}, {1, 2}, {4, 5}},
		"a record lost":                    {{0, 1}, {2}, {4, 5}},
		"a page repeated":                  {{0, 1}, {2, 3}, {2, 3}},
		"an empty page":                    {{0, 1}, {2, 3}, {}},
	}[s.cut]
	if pages == nil {
		pages = [][]int{{0, 1}, {2, 3}, {4, 5}}
	}
	if page >= len(pages) {
		pages = append(pages, make([][]int, page+1-len(pages))...)
	}
	if page == 2 && s.cut == "the last page is gone" {
		status(http.StatusNotFound)(w, r)
		return
	}
	total := map[string]int{"a total too small": 5, "a total too large": 7, "the total counts pages": 3}[s.cut]
	if total == 0 {
		total = 6
	}
	form, more := "%d", page < 2
	if s.unkind {
		form = "%d.0"
	}
	says := map[string]string{
		"total": fmt.Sprintf(form, total), "pages": fmt.Sprintf(form, 3), "more": strconv.FormatBool(more),
		"cursor": strconv.Itoa(page + 1), "next": fmt.Sprintf("/list?cursor=%d", page+1),
	}
	if !more {
		says["cursor"], says["next"] = "", ""
	}
	if strings.Contains(s.tells, "link") && more {
		w.Header().Set("Link", "<"+says["next"]+`>; rel="next"`)
	}
	if strings.Contains(s.tells, "header") {
		w.Header().Set("X-Total-Count", says["total"])
	}
	var b strings.Builder
	write := func(name, value string) {
		if s.xml {
			fmt.Fprintf(&b, "<%s>%s</%[1]s>", name, value)
		} else {
			fmt.Fprintf(&b, `,%q:%q`, name, value)
		}
	}
	asked := strconv.FormatInt(s.asked.Add(1), 10)
	if s.unkind {
		write("request_id", "r-"+asked)
		write("served_at", "2026-01-02T03:04:0"+asked+"Z")
	}
	for _, name := range strings.Fields(s.tells) {
		if value := says[name]; value != "" {
			write(name, value)
		}
	}
	envelope := b.String()
	var records []string
	for _, n := range pages[page] {
		b.Reset()
		write("id", fmt.Sprintf("id-000%d", n))
		write("t", strconv.Itoa(n))
		write("s", "N")
		write("at", "2026-01-02T03:04:05Z")
		if s.cut == "one record twice in another text" {
			write("read", asked)
		}
		records = append(records, b.String())
	}
	if s.xml {
		for i := range records {
			records[i] = "<row>" + records[i] + "</row>"
		}
		serveAs(http.StatusOK, "text/xml", "<list>"+strings.Join(records, "")+envelope+"</list>")(w, r)
		return
	}
	for i := range records {
		records[i] = "{" + records[i][1:] + "}"
	}
	serveJSON(`{"list":{"row":[`+strings.Join(records, ",")+"]"+envelope+"}}")(w, r)
}

// However a list comes in pages, and however it is cut: it is served whole or refused, and
// never a part of it.
func TestWholeOrRefused(t *testing.T) {
	const untilEmpty, named, goesOn = "page offset", "cursor next_url link_header", "page/more cursor/more"
	const counts = "page/total page/header offset/total offset/header cursor/total next_url/total link_header/header"
	styles := map[string][2]string{ // what the system tells, and how that is written
		"page/total":  {"total", "style: page, param: page, total: list.total"},
		"page/header": {"header", "style: page, param: page, total_header: X-Total-Count"},
		"page/pages":  {"pages", "style: page, param: page, total_pages: list.pages"},
		"page/more":   {"more", "style: page, param: page, last: {path: list.more, is: false}"},
		"page":        {"", "style: page, param: page, until_empty: true"},

		"offset/total":  {"total", "style: offset, param: offset, total: list.total"},
		"offset/header": {"header", "style: offset, param: offset, total_header: X-Total-Count"},
		"offset":        {"", "style: offset, param: offset, until_empty: true"},

		"cursor":       {"cursor", "style: cursor, param: cursor, next: list.cursor"},
		"cursor/more":  {"cursor more", "style: cursor, param: cursor, next: list.cursor, last: {path: list.more, is: false}"},
		"cursor/total": {"cursor total", "style: cursor, param: cursor, next: list.cursor, total: list.total"},

		"next_url":           {"next", "style: next_url, next: list.next"},
		"next_url/total":     {"next total", "style: next_url, next: list.next, total: list.total"},
		"link_header":        {"link", "style: link_header"},
		"link_header/header": {"link header", "style: link_header, total_header: X-Total-Count"},
	}
	for _, c := range []struct {
		cut  string
		says string // of the refusal
		end  string // styles of systems that end a list in this very way: nothing tells that it is cut
	}{
		{"nothing", "", ""},
		{"the last page is gone", "page 3", untilEmpty},
		{"an empty page", "", untilEmpty + " " + named + " " + goesOn},
		{"a page repeated", "again", ""},
		{"the page is not looked at", "", ""},
		{"one record twice, another lost", "5 came, 1 of them twice", untilEmpty + " " + named + " " + goesOn + " page/pages"},
		{"one record twice in another text", "came before", ""},
		{"a record lost", "6 records were announced, 5 came", untilEmpty + " " + named + " " + goesOn + " page/pages"},
		{"a total too small", "5 records were announced, 6 came", "-" + counts},
		{"a total too large", "7 records were announced, 6 came", "-" + counts},
		{"the total counts pages", "3 records were announced", "-" + counts},
	} {
		for name, style := range styles {
			for _, form := range []string{"", "xml", "unkind", "xml unkind"} {
				kind := &pagedSystem{tells: style[0], cut: c.cut, xml: strings.Contains(form, "xml"), unkind: strings.Contains(form, "unkind")}
				reply := "{empty_statuses: [404]}"
				if kind.xml {
					reply = "{format: xml, empty_statuses: [404]}"
				}
				keys := fmt.Sprintf("buyer: {items: list.row, id: id, items_optional: true, reply: %s, paging: {%s}}", reply, style[1])
				only, isOnly := strings.CutPrefix(c.end, "-")
				served := c.cut == "nothing" || slices.Contains(strings.Fields(only), name) != isOnly
				var list List
				var err error
				virtual(t, kind.ServeHTTP, keys, func(t *testing.T, f *fixture) { list, err = f.Fetch(t.Context(), acme) })
				switch reason := asError(err).Reason; {
				case served && (err != nil || titles(list) != "0 1 2 3 4 5" && !strings.Contains(c.end, name)):
					t.Errorf("%s, %s, %s: %s, %v", name, c.cut, form, titles(list), err)
				case !served && (err == nil || reason != "paging" && reason != "changed" || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%s, %s, %s: served %s, %v, want %q", name, c.cut, form, titles(list), err, c.says)
				}
			}
		}
	}
}

func TestLinkNext(t *testing.T) {
	const refused = "refused"
	for header, want := range map[string]string{
		`</a>; rel="next"`: "/a", `</a>; rel=next`: "/a", `</a>;REL="Next"`: "/a", `</a> ; rel = "next" ;`: "/a",
		`</a>; rel='next'`: "/a", `</a>; rel='last next'; title='x, y'`: "/a", `</a>; rel='prev', </b>; rel='next'`: "/b",
		`</a>; rel="prev", </b>; rel="next"`: "/b", `</a>; rel="first", </b>; rel="last next"`: "/b",
		`</a,b>; rel="next"`: "/a,b", `</a>; title="x, y"; rel="next"`: "/a", `</a>; title="a \"quoted\"; b"; rel="next"`: "/a",
		`</a>; title*=UTF-8''n%20xt; rel="next"`: "/a", `, ,</a>; rel="next"`: "/a", `<>; rel="next"`: "", `</a>; nofollow; rel=next`: "/a",
		`</a>; rel="prev"; title="the next chapter"`: "", `</next/?page=next>; rel="prev"`: "", `</a>; rel="https://www.w3.org/ns/json-ld#context"`: "",
		`</a>`: "", `</a>; rel`: "", `</a>; rel=`: "", `garbage`: "", "": "", `<`: "", `>a<`: "", `</a>; rel=prev; x`: "",
		// What goes on and cannot be followed.
		`</a>; rel=nextPage`: refused, `</a>; rel="next_page"`: refused, `</a>; rel="https://h.test/rels/next"`: refused,
		`/a; rel="next"`: refused, `https://h.test/a?b=c; rel=next`: refused, `</a>; rel: next`: refused, `</a>; rel="next`: refused,
		`&lt;/a&gt;; rel="next"`: refused, `%3C/a%3E; rel=%22next%22`: refused, `\u003c/a\u003e; rel=\"next\"`: refused, `</a>; rel=\"next\"`: refused,
		`[/a]; rel="next"`: refused, `"/a"; rel="next"`: refused, `</a> rel="next"`: refused, `{"next":"/a"}`: refused,
		`</a>; rel=nextPage, </b>; rel="next"`: "/b", `</a>; rel="prev", /b; rel="next"`: refused,
	} {
		got, err := linkNext([]string{"", header})
		if err != nil {
			got = refused
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", header, got, err, want)
		}
	}
}

// With rewrite_host the path and query of a next page count alone.
func TestRewrittenHost(t *testing.T) {
	p := paging{PagingConfig: mapping.PagingConfig{RewriteHost: true}}
	for next, want := range map[string]string{
		"https://public.test/a%2Fb?c=d#e": "http://h:1/a%2Fb?c=d", "//public.test/a": "http://h:1/a", "?b": "http://h:1/x?b", "": "",
		"http://public.test": "http://h:1/", "http://u:p@public.test/a": "", "ftp://public.test/a": "", "http://public.test//evil.test/a": "",
	} {
		if got, err := p.nextURL("http://h:1/x", next); got != want || (err != nil) != (want == "" && next != "") {
			t.Errorf("%q leads to %q, %v, want %q", next, got, err, want)
		}
	}
}

// Wherever a reply says that the list goes on, the host stays the same.
func FuzzNextURL(f *testing.F) {
	for _, s := range []string{"/a", "//evil.test/", "http://h.test:80/x", "https://h.test/", `\\evil.test`, "http://u@h.test/", "?a"} {
		f.Add(s, `<`+s+`>; rel="next"`)
	}
	f.Fuzz(func(t *testing.T, next, header string) {
		link, err := linkNext([]string{header})
		if link != "" && err != nil || link != "" && (!strings.Contains(header, "<"+link+">") || !strings.Contains(strings.ToLower(header), "next")) {
			t.Errorf("%q gives %q", header, link)
		}
		got, err := paging{}.nextURL("http://h.test/x?y=z", next)
		if err != nil || got == "" {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Scheme != "http" || u.User != nil || !strings.EqualFold(u.Hostname(), "h.test") || u.Port() != "" && u.Port() != "80" {
			t.Errorf("%q leads to %q, %v", next, got, err)
		}
	})
}
