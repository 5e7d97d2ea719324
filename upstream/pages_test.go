package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
		"paging: {style: page, param: page, more: more}",
		"paging: {style: page, param: page}",
		"paging: {style: page, param: page, last: end}",
		"paging: {style: page, param: page, size: 10, size_param: limit, ends_short: true}",
		"paging: {style: offset, param: offset, total: total}",
		"paging: {style: offset, param: offset, size: 1000, size_param: limit, total_header: x-total-count}",
		"paging: {style: offset, param: offset}",
		"paging: {style: cursor, param: cursor, cursor: cursor}",
		"paging: {style: cursor, param: cursor, cursor: cursor, last: end}",
		"paging: {style: cursor, param: cursor, cursor: cursor, more: more, size: 7, size_param: limit}",
		"paging: {style: next_url, next: next}",
		"paging: {style: link_header}",
		// In a body.
		`method: POST, body: {page: "{page}"}, paging: {style: page, total: total}`,
		`method: POST, body: {page: "{page}", limit: "{size}"}, paging: {style: page, size: 7, more: more}`,
		`method: POST, body: {x: y}, paging: {style: page, param: page, total_pages: pages}`,
		`method: POST, body: {offset: "{offset}", limit: "{size}"}, paging: {style: offset, total: total, size: 9}`,
		`method: POST, body: {offset: "{offset}"}, paging: {style: offset}`,
		`method: POST, body: {cursor: "{cursor}"}, paging: {style: cursor, cursor: cursor}`,
		`method: POST, body: {cursor: "{cursor:number}", limit: "{size}"}, paging: {style: cursor, cursor: cursor, size: 5}`,
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

func TestLinkNext(t *testing.T) {
	for header, want := range map[string]string{
		`</a>; rel="next"`: "/a", `</a>; rel=next`: "/a", `</a>;REL="Next"`: "/a",
		`</a>; rel="prev", </b>; rel="next"`: "/b", `</a>; rel="first", </b>; rel="last next"`: "/b",
		`</a,b>; rel="next"`: "/a,b", `</a>; title="x, y"; rel="next"`: "/a",
		`</a>; rel="nextish"`: "", `</a>`: "", `garbage`: "", "": "", `<`: "", `>a<`: "",
	} {
		if got := linkNext([]string{"", header}); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

// With rewrite_host the path and query of a next page count alone.
func TestRewrittenHost(t *testing.T) {
	p := paging{mapping.PagingConfig{RewriteHost: true}}
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
		link := linkNext([]string{header})
		if link != "" && (!strings.Contains(header, "<"+link+">") || !strings.Contains(strings.ToLower(header), "next")) {
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
