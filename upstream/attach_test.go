package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"

	"inquiry-gateway/upstream/mapping"
)

// commentLegacy serves tickets without responses, and the responses by a second
// call in the way of several systems.
type commentLegacy struct {
	tickets int
	more    string       // follows the comments in their reply
	most    atomic.Int64 // requests for responses at the same time
	now     atomic.Int64
	comment string // replaces the good one of ticket 2
}

func (l *commentLegacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := func(id, ticket string) string {
		if id == "2" && l.comment != "" {
			return l.comment
		}
		return fmt.Sprintf(`{"author":"staff-%s9","ticket":%q,"text":"re %s, by staff-%s9","by":{"role":"C"},"at":"2026-01-01T00:00:00Z"}`, id, ticket, id, id)
	}
	if r.URL.Path == "/v2/tickets" {
		var list []string
		for i := range l.tickets {
			list = append(list, strings.NewReplacer("6f1c2a34-1111-4222-8333-944455566677", fmt.Sprintf("t-%d", i), "Late", fmt.Sprintf("no. %d staff-99", i)).Replace(testkit.SampleTicket))
		}
		serveJSON(`{"result":{"items":[`+strings.Join(list, ",")+`]}}`)(w, r)
		return
	}
	l.most.Store(max(l.most.Load(), l.now.Add(1)))
	defer l.now.Add(-1)
	var comments []string
	if id, ok := strings.CutPrefix(r.URL.Path, "/v2/tickets/t-"); ok {
		comments = append(comments, body(strings.TrimSuffix(id, "/comments"), ""))
	} else {
		ids := r.URL.Query()["ids"]
		if len(ids) == 1 {
			ids = strings.Split(ids[0], ",")
		}
		for i := range ids {
			id := ids[len(ids)-1-i]
			comments = append(comments, body(strings.TrimPrefix(id, "t-"), id))
		}
	}
	serveJSON(`{"comments":[`+strings.Join(comments, ",")+`]`+l.more+`}`)(w, r)
}

// responses is the sample's section of buyers with responses that come by a fetch.
func responses(t testing.TB, fetch string) func(*Config) {
	t.Helper()
	cfg := configFrom(t, strings.Replace(testkit.SampleYAML, "      items: replies\n", "      items: comments\n      internal_ids: [author]\n      fetch: "+fetch+"\n", 1))
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Buyer = cfg.Buyer }
}

var fetches = map[string]string{
	"each":   `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 3}`,
	"joined": `{path: /v2/comments, query: {ids: "{ids}"}, id: uuid, batch: 4, key: ticket}`,
	"repeat": `{path: /v2/comments, query: {ids: "{ids}"}, id: uuid, batch: 4, key: ticket, join: repeat}`,
}

func TestSecondCalls(t *testing.T) {
	for name, fetch := range fetches {
		t.Run(name, func(t *testing.T) {
			l := &commentLegacy{tickets: 10}
			f := newFixture(t, l.ServeHTTP, responses(t, fetch))
			list, err := f.Fetch(t.Context(), acme)
			if err != nil || len(list.Inquiries) != 10 {
				t.Fatalf("%d inquiries, %v", len(list.Inquiries), err)
			}
			for i, inq := range list.Inquiries {
				if len(inq.Responses) != 1 || inq.Responses[0].Content != fmt.Sprintf("re %d, by [removed]", i) || inq.Responses[0].ResponderType.String != "customer" {
					t.Errorf("inquiry %d: %+v", i, inq.Responses)
				}
				if inq.Title != fmt.Sprintf("no. %d [removed]", i) {
					t.Errorf("an id of a response stays in %q", inq.Title)
				}
			}
			if calls := map[string]int64{"each": 11, "joined": 4, "repeat": 4}[name]; f.calls.Load() != calls {
				t.Errorf("%d requests", f.calls.Load())
			}
			// Nobody asks for what belongs to no record.
			none, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "answered"})
			if err != nil || len(none.Inquiries) != 0 || f.calls.Load() != map[string]int64{"each": 12, "joined": 5, "repeat": 5}[name] {
				t.Errorf("%d inquiries, %v, %d requests", len(none.Inquiries), err, f.calls.Load())
			}
			if l.most.Load() > 3 {
				t.Errorf("%d requests at the same time", l.most.Load())
			}
		})
	}
}

func TestSecondCallsFail(t *testing.T) {
	for _, tc := range []struct{ fetch, comment, reason string }{
		{"each", `{"text":1}`, "record"},
		{"each", `7`, "record"},
		{"each", `}`, "json"},
		{"joined", `{"text":1}`, "record"},
		{"joined", `{"ticket":"t-77","text":"x","at":"2026-01-01T00:00:00Z"}`, "record"},
	} {
		f := newFixture(t, (&commentLegacy{tickets: 5, comment: tc.comment}).ServeHTTP, responses(t, fetches[tc.fetch]))
		failed(t, f, t.Context(), "invalid", tc.reason)
	}
	f := newFixture(t, (&commentLegacy{tickets: 5, comment: `{"text":1}`}).ServeHTTP, responses(t, fetches["each"]), func(c *Config) { c.Buyer.OnInvalidRecord = "skip" })
	list, err := f.Fetch(t.Context(), acme)
	if err != nil || len(list.Inquiries) != 4 || f.metric(t, "records_invalid_total", "responses.created_at") != 1 {
		t.Errorf("%d inquiries, %v", len(list.Inquiries), err)
	}
	f = newFixture(t, (&commentLegacy{tickets: 5}).ServeHTTP, responses(t, `{path: "/v2/nosuch/{id}", id: customer.nosuch}`))
	failed(t, f, t.Context(), "invalid", "record")
}

// What a record's further requests need may be several of its values, in path, query and
// body.
func TestSecondCallsBySeveralValues(t *testing.T) {
	const ids = ", ids: {project: customer.no, issue: uuid}"
	for name, fetch := range map[string]string{
		"path":  `{path: "/p/{project}/i/{issue}/notes"` + ids + `}`,
		"query": `{path: /notes, query: {p: "{project}", q: "{issue}"}` + ids + `}`,
		"body":  `{path: /notes, method: POST, body: {p: "{project:number}", i: ["{issue}"]}` + ids + `}`,
	} {
		serve := func(projects ...string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/tickets" {
					var list []string
					for i, p := range projects {
						list = append(list, strings.NewReplacer("6f1c2a34-1111-4222-8333-944455566677", fmt.Sprintf("i/%d", i), `"id":"acme"`, `"id":"acme","no":`+p).Replace(testkit.SampleTicket))
					}
					serveJSON(`{"result":{"items":[`+strings.Join(list, ",")+`]}}`)(w, r)
					return
				}
				body, _ := io.ReadAll(r.Body)
				note, _ := json.Marshal(r.Method + " " + r.RequestURI + " " + string(body))
				serveJSON(fmt.Sprintf(`{"comments":[{"text":%s,"at":"2026-01-01T00:00:00Z","by":{"role":"C"}}]}`, note))(w, r)
			}
		}
		f := newFixture(t, serve("7", "9"), responses(t, fetch), func(c *Config) { c.Buyer.InternalIDs = nil })
		list, err := f.Fetch(t.Context(), acme)
		want := map[string]string{"path": "GET /p/9/i/i%2F1/notes ", "query": "GET /notes?p=9&q=i%2F1 ", "body": `POST /notes {"i":["i/1"],"p":9}`}[name]
		if err != nil || len(list.Inquiries) != 2 || len(list.Inquiries[1].Responses) != 1 || list.Inquiries[1].Responses[0].Content != want {
			t.Errorf("%s: %+v, %v", name, list.Inquiries, err)
		}
		failed(t, newFixture(t, serve("7", `""`), responses(t, fetch)), t.Context(), "invalid", "record")
	}
	for fetch, key := range map[string]string{
		`{path: "/{project}/{issue}", id: uuid, ids: {project: a, issue: b}}`:         "id",
		`{path: "/{project}/{issue}", ids: {project: a, issue: b}, batch: 2, key: k}`: "ids",
		`{path: "/{project}", ids: {project: a, issue: b}}`:                           "path",
		`{path: "/{page}/{issue}", ids: {page: a, issue: b}}`:                         "ids.page",
		`{path: "/{project}/{issue}", ids: {project: "", issue: b}}`:                  "ids.project",
		`{path: "/{project}/{issue}", ids: {project: "a..b", issue: b}}`:              "ids.project",
		`{path: "/{Project}/{issue}", ids: {Project: a, issue: b}}`:                   "ids.Project",
	} {
		section := strings.Replace(testkit.SampleYAML, "      items: replies\n", "      items: comments\n      fetch: "+fetch+"\n", 1)
		if found := wrongIn(t, section); found["buyer.fields.responses.fetch."+key] == "" {
			t.Errorf("%s: %v", fetch, found)
		}
	}
}

// A list makes several requests at a time, each of which gets a connection at once:
// waiting for one would look like a legacy that is slow.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	l := &commentLegacy{tickets: 8}
	section := `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 8}`
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/tickets" {
			time.Sleep(200 * time.Millisecond)
		}
		l.ServeHTTP(w, r)
	}
	f := newFixture(t, slow, responses(t, section), func(c *Config) {
		c.MaxConcurrent, c.MaxConcurrentPerAccount, c.Timeout, c.Breaker.MinRequests = 2, 2, 700*time.Millisecond, 1
	})
	var lists sync.WaitGroup
	for range 2 {
		lists.Go(func() {
			if _, err := f.Fetch(t.Context(), acme); err != nil {
				t.Error(err)
			}
		})
	}
	lists.Wait()
	if state := f.BreakerState("buyer"); state != "closed" {
		t.Errorf("the breaker of a legacy that is well is %s", state)
	}
}

// max_response_bytes bounds what a fetch holds while its replies come, not only when
// they are there.
func TestRepliesThatComeTogetherAreBoundedTogether(t *testing.T) {
	l := &commentLegacy{tickets: 8}
	const limit = 64 << 10
	for name, length := range map[string]bool{"told": true, "untold": false} {
		var sent atomic.Int64
		end := make(chan struct{})
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/tickets" {
				l.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if length {
				w.Header().Set("Content-Length", fmt.Sprint(limit/2))
			}
			for range 31 { // each below the limit, and no reply ends
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				sent.Add(1 << 10)
			}
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}, responses(t, `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 8}`), func(c *Config) { c.MaxResponseBytes = limit })
		begin := time.Now()
		failed(t, f, t.Context(), "invalid", "too_large")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: refused after %v, when the replies had come", name, took)
		}
		close(end)
	}
}

// A part of the responses is never taken for all of them.
func TestResponsesThatGoOnAreRefused(t *testing.T) {
	for _, fetch := range []string{fetches["each"], fetches["joined"]} {
		f := newFixture(t, (&commentLegacy{tickets: 2, more: `,"meta":{"has_more":true}`}).ServeHTTP, responses(t, fetch))
		if err := failed(t, f, t.Context(), "invalid", "paging"); !strings.Contains(err.Error(), "meta.has_more is true") {
			t.Errorf("%s: %v", fetch, err)
		}
	}
	f := newFixture(t, (&commentLegacy{tickets: 2, more: `,"meta":{"has_more":false},"count":1`}).ServeHTTP, responses(t, fetches["each"]))
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
}

// detailsSection is a list whose records' contents, owners and responses are told
// one by one, or in batches. %s are items and details.
const detailsSection = `
base_url: http://legacy.test
buyer:
  path: /tickets
  query: {customer: "{account}"}
  filtering: gateway
  items: %s
  details: %s
  owner: details.owner
  internal_ids: [id, details.uuid]
  fields:
    title: details.title
    content: details.text
    status: details.state
    inquiry_type: {path: details.kind, default: null}
    created_at: details.at
    responses: {items: details.notes, fields: {content: text, responder_type: {path: by, default: null}, created_at: at}}
`

const (
	detailEach    = `{fetch: {path: "/tickets/{id}", id: id, reply: {empty_statuses: [404]}}}`
	detailNumber  = `{fetch: {path: "/tickets/{number}", ids: {number: id}}}`
	detailBareID  = `{items: data.0, fetch: {path: "/wrapped/{id}", id: id}}`
	detailBare    = `{items: data.0, fetch: {path: "/wrapped/{id}", id: "@this"}}`
	detailBatched = `{items: rows, fetch: {path: /rows, query: {ids: "{ids}"}, id: id, batch: 2, key: id}}`
)

// detailsLegacy serves the list as it is given, and details of the tickets 1 to 3.
// Ticket 3 is another account's.
func detailsLegacy(list string) http.HandlerFunc {
	detail := func(id string) string {
		owner := "acme"
		if id == "tick-3" {
			owner = "zorg"
		}
		return fmt.Sprintf(`{"id":%q,"uuid":"uu-%s","owner":%q,"title":"no. %s","text":"see uu-%s and tick-9","state":"N","at":"2026-01-01T00:00:00Z","total":5,"notes":[{"text":"n","at":"2026-01-02T00:00:00Z"}]}`,
			id, id, owner, strings.TrimPrefix(id, "tick-"), id)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		path, id := r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')], r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		known := id == "tick-1" || id == "tick-2" || id == "tick-3"
		switch {
		case id == "tickets":
			serveJSON(list)(w, r)
		case id == "rows":
			var rows []string
			for id := range strings.SplitSeq(r.URL.Query().Get("ids"), ",") {
				if id != "tick-9" {
					rows = append([]string{detail(id)}, rows...)
				}
			}
			if strings.Contains(list, `"again"`) {
				rows = append(rows, rows[0])
			}
			serveJSON(`{"rows":[`+strings.Join(rows, ",")+`]}`)(w, r)
		case path == "/wrapped" && known:
			serveJSON(`{"data":[`+detail(id)+`]}`)(w, r)
		case known:
			serveJSON(detail(id))(w, r)
		default:
			http.NotFound(w, r)
		}
	}
}

func detailsFixture(t testing.TB, items, details, list string, changes ...func(*Config)) *fixture {
	section := func(c *Config) { c.Buyer = configFrom(t, fmt.Sprintf(detailsSection, items, details)).Buyer }
	return newFixture(t, detailsLegacy(list), append([]func(*Config){section}, changes...)...)
}

func TestDetails(t *testing.T) {
	const objects = `[{"id":"tick-1"}, {"id":"tick-2" }]`
	skip, same := func(c *Config) { c.Buyer.OnInvalidRecord = "skip" }, func(*Config) {}
	for name, tc := range map[string]struct {
		items, details, list string
		change               func(*Config)
		want                 string // titles, or the reason
		calls                int64
	}{
		"one by one":              {`"@this"`, detailEach, objects, same, "no. 1, no. 2", 3},
		"in batches":              {`"@this"`, detailBatched, `[{"id":"tick-1"},{"id":"tick-2"},{"id":"tick-1"}]`, same, "no. 1, no. 2, no. 1", 3},
		"bare ids":                {"ids", detailBare, `{"ids":["tick-1","tick-2"]}`, same, "no. 1, no. 2", 3},
		"bare ids by their name":  {"ids", detailBareID, `{"ids":["tick-1","tick-2"]}`, same, "no. 1, no. 2", 3},
		"a bare id that is none":  {"ids", detailBareID, `{"ids":[null]}`, same, "record", 1},
		"members of an object":    {`"byId.@values"`, detailEach, `{"byId":{"a":{"id":"tick-1"},"b":{"id":"tick-2"}}}`, same, "no. 1, no. 2", 3},
		"an empty list":           {`"@this"`, detailEach, `[]`, same, "", 1},
		"an owner in the detail":  {`"@this"`, detailEach, `[{"id":"tick-3"}]`, same, "owner", 2},
		"a foreign one dropped":   {`"@this"`, detailEach, `[{"id":"tick-3"},{"id":"tick-1"}]`, func(c *Config) { c.Buyer.OnForeignRecord = "drop" }, "no. 1", 3},
		"one is missing":          {`"@this"`, detailEach, `[{"id":"tick-9"}]`, same, "record", 2},
		"one is missing: skipped": {`"@this"`, detailEach, `[{"id":"tick-9"},{"id":"tick-1"}]`, skip, "no. 1", 3},
		"missing in a batch":      {`"@this"`, detailBatched, `[{"id":"tick-9"},{"id":"tick-1"}]`, skip, "no. 1", 2},
		"a 404 that is a failure": {`"@this"`, detailBare, `["tick-9"]`, same, "status_4xx", 2},
		"twice in a batch":        {`"@this"`, detailBatched, `[{"id":"tick-1","again":1}]`, same, "record", 2},
		"no id":                   {`"@this"`, detailEach, `[{"id":null}]`, same, "record", 1},
		"no id: skipped":          {`"@this"`, detailEach, `[{"id":""},{"id":"tick-1"}]`, skip, "no. 1", 2},
		"no record":               {`"@this"`, detailEach, `[null]`, same, "record", 1},
		"too many":                {`"@this"`, detailEach, objects, func(c *Config) { c.MaxRecords = 1 }, "too_many", 1},
		"too many bytes in all":   {`"@this"`, detailEach, objects, func(c *Config) { c.MaxResponseBytes = 300 }, "too_large", 3},
		"a name that is there":    {`"@this"`, detailEach, `[{"id":"tick-1","details":1}]`, same, "record", 2},
		// Whose a record is, and whether it is shown, is judged first if the list tells it.
		"strangers are not asked about": {`"@this"`, detailEach, `[{"id":"tick-2","who":"zorg"},{"id":"tick-1","who":"acme"}]`, func(c *Config) {
			c.Buyer.Owner, c.Buyer.OnForeignRecord = mapping.Paths{"who"}, "drop"
		}, "no. 1", 2},
		"nor hidden ones": {`"@this"`, detailEach, `[{"id":"tick-2","who":"acme","draft":true},{"id":"tick-1","who":"acme"},{"id":"tick-9","who":"zorg","draft":true}]`, func(c *Config) {
			c.Buyer.Owner, c.Buyer.OnForeignRecord = mapping.Paths{"who"}, "drop"
			c.Buyer.Where = []mapping.Condition{{Path: "draft", Absent: true}, {Path: "details.state", Equals: mapping.Default{Set: true, Value: "N"}}}
		}, "no. 1", 2},
		"a dot in an id of a path": {`"@this"`, detailEach, `[{"id":".."}]`, same, "record", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := detailsFixture(t, tc.items, tc.details, tc.list, tc.change)
			list, err := f.Fetch(t.Context(), acme)
			var titles []string
			for _, inq := range list.Inquiries {
				titles = append(titles, inq.Title)
				if !strings.HasPrefix(inq.Content, "see [removed] and ") || len(inq.Responses) != 1 {
					t.Errorf("%+v", inq)
				}
			}
			got := strings.Join(titles, ", ")
			if err != nil {
				got = asError(err).Reason
			}
			if got != tc.want || f.calls.Load() > tc.calls || err == nil && f.calls.Load() != tc.calls {
				t.Errorf("%q after %d calls: %v; want %q after %d", got, f.calls.Load(), err, tc.want, tc.calls)
			}
		})
	}
}

func TestProbeShowsDetails(t *testing.T) {
	f := detailsFixture(t, `"@this"`, detailEach, `[{"id":"tick-1","seen":true},{"id":"tick-9"}]`)
	p, err := f.Explain(t.Context(), acme, 3, FirstOfEach)
	if err != nil || p.Problem != nil || p.Items != 2 {
		t.Fatalf("%+v %v", p, err)
	}
	wantLines(t, lines(p), "1 title <- details.title: \"no. 1\" -> no. 1", "! 2 details: no detail came", "unused details.total number", "unused seen boolean",
		`id details.uuid 1 ["record 1 content"]`)
	saved, err := f.Explain(t.Context(), acme, 3, FirstReply)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(saved), "! 1 details: no detail came")
	wrong := detailsFixture(t, `"@this"`, strings.Replace(detailEach, "id: id", "id: no", 1), `[{"id":"tick-1"}]`)
	if p, err = wrong.Explain(t.Context(), acme, 3, Whole); err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(p), "! 1 details: no id to ask for the details with")
}

func TestDetailsInXML(t *testing.T) {
	section := `
base_url: http://legacy.test
buyer:
  path: /tickets/{account}
  filtering: gateway
  reply: {format: xml}
  items: ids.id
  details: {items: ticket, fetch: {path: "/ticket/{id}", id: "@this"}}
  fields: {title: details.subject, content: {path: details.p, join: " "}, status: details.-state, inquiry_type: {const: null}, created_at: details.at,
    responses: {items: details.notes.note, fields: {content: $, responder_type: -by, created_at: -at}}}
`
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		if r.URL.Path == "/tickets/acme" {
			_, _ = fmt.Fprint(w, "<ids><id>7</id></ids>")
			return
		}
		_, _ = fmt.Fprint(w, `<ticket state="N"><subject>s</subject><p>one</p><at>2026-01-01T00:00:00Z</at><notes><note by="x" at="2026-01-02T00:00:00Z">hi</note></notes></ticket>`)
	}, func(c *Config) { c.Buyer = configFrom(t, section).Buyer })
	list, err := f.Fetch(t.Context(), acme)
	if err != nil || len(list.Inquiries) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	if inq := list.Inquiries[0]; inq.Title != "s" || inq.Content != "one" || inq.Status != "N" || len(inq.Responses) != 1 || inq.Responses[0].Content != "hi" {
		t.Errorf("%+v", inq)
	}
}

// Each of the second requests has conditions of its own.
func TestExpectOfSecondReplies(t *testing.T) {
	const expect = `, expect: [{path: rc, equals: 0, missing: include}]}`
	for more, want := range map[string]string{"": "", `,"rc":0`: "", `,"rc":5`: "expect"} {
		for name, fetch := range fetches {
			f := newFixture(t, (&commentLegacy{tickets: 2, more: more}).ServeHTTP, responses(t, strings.TrimSuffix(fetch, "}")+expect))
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
		f := detailsFixture(t, `"@this"`, details, `[{"id":"tick-1"}]`)
		got := ""
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			got = asError(err).Reason
		}
		if got != want {
			t.Errorf("details, total must be %d: %q, want %q", total, got, want)
		}
	}
}
