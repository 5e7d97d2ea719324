package upstream

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/internal/sample"
)

// tagged answers with headers in pairs, and with 304 whatever the condition is; it
// notes the headers of the last request.
func tagged(last *http.Header, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*last = r.Header
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		if r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
	}
}

// again is the request for a list that is there already.
func again(list List) Request {
	r := acme
	r.Validator, r.ReadAt = list.Validator, list.AnsweredAt
	return r
}

func fetched(t *testing.T, f *fixture, want Request) List {
	t.Helper()
	list, err := f.Fetch(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A list that has not changed is neither sent nor mapped.
func TestAListThatHasNotChanged(t *testing.T) {
	const now, old = "Mon, 04 May 2026 03:02:01 GMT", "Mon, 04 May 2026 03:02:00 GMT"
	for name, tc := range map[string]struct {
		headers           []string
		noneMatch, sinceM string // of the second request
	}{
		"entity tag":             {[]string{"ETag", `"v1"`}, `"v1"`, ""},
		"weak entity tag":        {[]string{"ETag", `W/"v1"`}, `W/"v1"`, ""},
		"date":                   {[]string{"Last-Modified", old, "Date", now}, "", old},
		"both":                   {[]string{"ETag", `"v1"`, "Last-Modified", old, "Date", now}, `"v1"`, old},
		"changed in this second": {[]string{"Last-Modified", now, "Date", now}, "", ""},
		"no date":                {[]string{"Last-Modified", "yesterday", "Date", now}, "", ""},
		"no entity tag":          {[]string{"ETag", `v1`}, "", ""},
		"two in one":             {[]string{"ETag", `"a" "b"`}, "", ""},
		"too long":               {[]string{"ETag", `"` + strings.Repeat("x", 300) + `"`}, "", ""},
		// An entity tag is kept where lists are kept, and no internal id is.
		"entity tag with an internal id": {[]string{"ETag", `"6f1c2a34-1111-4222-8333-944455566677"`}, "", ""},
	} {
		var last http.Header
		f := newFixture(t, tagged(&last, tc.headers...), nil)
		list := fetched(t, f, acme)
		second := fetched(t, f, again(list))
		if last.Get("If-None-Match") != tc.noneMatch || last.Get("If-Modified-Since") != tc.sinceM {
			t.Errorf("%s: asked with %q and %q", name, last.Get("If-None-Match"), last.Get("If-Modified-Since"))
		}
		if asked := tc.noneMatch+tc.sinceM != ""; second.NotModified != asked || asked == (len(second.Inquiries) > 0) || f.metric(t, "requests_total", "not_modified") > 0 != asked {
			t.Errorf("%s: %+v", name, second)
		}
		if second.Fingerprint != list.Fingerprint || second.AnsweredAt.Before(list.AnsweredAt) {
			t.Errorf("%s: renewed as %+v", name, second)
		}
	}
}

// Whenever a 304 would say too little, the list is read.
func TestListsThatAreReadAgain(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	var last http.Header
	for name, change := range map[string]func(*Request){
		"another mapping":         func(r *Request) { r.Validator = "other" + r.Validator },
		"read long ago":           func(r *Request) { clock.Add(time.Minute) },
		"read in the future":      func(r *Request) { r.ReadAt = r.ReadAt.Add(time.Second) },
		"read before the sign-in": func(r *Request) { r.ReadAt = r.ReadAt.Add(-time.Second) },
	} {
		f := newFixtureAt(t, clock, tagged(&last, "ETag", `"v1"`), func(c *Config) { c.FullReadEvery = time.Minute })
		want := again(fetched(t, f, acme))
		change(&want)
		if list := fetched(t, f, want); list.NotModified || len(list.Inquiries) != 1 || last.Get("If-None-Match") != "" {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// A 304 that is about another reply, or that names a next page, is none: the list is
// read in a request of its own.
func TestA304ThatContradictsItself(t *testing.T) {
	for name, header := range map[string][2]string{
		"another entity tag": {"ETag", `"v2"`},
		"a next page":        {"Link", `</v2/tickets?page=2>; rel="next"`},
	} {
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.Header().Set(header[0], header[1])
				w.WriteHeader(http.StatusNotModified)
				return
			}
			serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
		}, nil)
		list := fetched(t, f, again(fetched(t, f, acme)))
		if list.NotModified || len(list.Inquiries) != 1 || f.calls.Load() != 3 {
			t.Errorf("%s: %+v after %d requests", name, list, f.calls.Load())
		}
	}
}

// A 304 to a request without a condition is a failure like any other status.
func TestA304ThatNobodyAskedFor(t *testing.T) {
	failed(t, newFixture(t, status(http.StatusNotModified), nil), t.Context(), FailureUpstream, "status_3xx")
}

// A list of several replies has no validator: its first reply may be the same while
// another is not. Nor has one whose end is told by a header, which a 304 may leave out.
func TestListsWithoutAValidator(t *testing.T) {
	var last http.Header
	one := tagged(&last, "ETag", `"v1"`, "X-Total", "1")
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		change func(*Config)
		want   bool
	}{
		"one page that is short": {one, func(c *Config) {
			c.Buyer.Paging.Style, c.Buyer.Paging.Param, c.Buyer.Paging.Size, c.Buyer.Paging.SizeParam, c.Buyer.Paging.EndsShort = "page", "page", 2, "size", true
		}, true},
		"two pages": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			if r.URL.Query().Get("page") != "1" {
				serveJSON(`{"result":{"items":[]}}`)(w, r)
				return
			}
			serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
		}, func(c *Config) {
			c.Buyer.Paging.Style, c.Buyer.Paging.Param, c.Buyer.Paging.First = "page", "page", 1
		}, false},
		"a total in a header": {one, func(c *Config) {
			c.Buyer.Paging.Style, c.Buyer.Paging.Param, c.Buyer.Paging.TotalHeader = "page", "page", "X-Total"
		}, false},
		"a POST": {one, func(c *Config) {
			c.Buyer.Method, c.Buyer.Body, c.Buyer.Query = "POST", map[string]any{"customer": "{account}", "s": "{status}", "c": "{inquiry_type}"}, nil
		}, false},
		"switched off": {one, func(c *Config) { c.FullReadEvery = 0 }, false},
		"nothing": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			w.WriteHeader(http.StatusNoContent)
		}, func(c *Config) { c.Buyer.Reply.EmptyStatuses = []int{204} }, false},
	} {
		if list := fetched(t, newFixture(t, tc.serve, tc.change), acme); list.Validator != "" != tc.want {
			t.Errorf("%s: the validator is %q", name, list.Validator)
		}
	}
}
