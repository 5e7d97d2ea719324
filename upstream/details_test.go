package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/upstream/mapping"
)

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

func detailsFixture(t testing.TB, items, details, list string, change func(*Config)) *fixture {
	return newFixture(t, detailsLegacy(list), func(c *Config) {
		c.Buyer = configFrom(t, fmt.Sprintf(detailsSection, items, details)).Buyer
		if change != nil {
			change(c)
		}
	})
}

func TestDetails(t *testing.T) {
	const objects = `[{"id":"tick-1"}, {"id":"tick-2" }]`
	skip := func(c *Config) { c.Buyer.OnInvalidRecord = "skip" }
	for name, tc := range map[string]struct {
		items, details, list string
		change               func(*Config)
		want                 string // titles, or the reason
		calls                int64
	}{
		"one by one":              {`"@this"`, detailEach, objects, nil, "no. 1, no. 2", 3},
		"in batches":              {`"@this"`, detailBatched, `[{"id":"tick-1"},{"id":"tick-2"},{"id":"tick-1"}]`, nil, "no. 1, no. 2, no. 1", 3},
		"bare ids":                {"ids", detailBare, `{"ids":["tick-1","tick-2"]}`, nil, "no. 1, no. 2", 3},
		"bare ids by their name":  {"ids", detailBareID, `{"ids":["tick-1","tick-2"]}`, nil, "no. 1, no. 2", 3},
		"a bare id that is none":  {"ids", detailBareID, `{"ids":[null]}`, nil, "record", 1},
		"members of an object":    {`"byId.@values"`, detailEach, `{"byId":{"a":{"id":"tick-1"},"b":{"id":"tick-2"}}}`, nil, "no. 1, no. 2", 3},
		"an empty list":           {`"@this"`, detailEach, `[]`, nil, "", 1},
		"an owner in the detail":  {`"@this"`, detailEach, `[{"id":"tick-3"}]`, nil, "owner", 2},
		"a foreign one dropped":   {`"@this"`, detailEach, `[{"id":"tick-3"},{"id":"tick-1"}]`, func(c *Config) { c.Buyer.OnForeignRecord = "drop" }, "no. 1", 3},
		"one is missing":          {`"@this"`, detailEach, `[{"id":"tick-9"}]`, nil, "record", 2},
		"one is missing: skipped": {`"@this"`, detailEach, `[{"id":"tick-9"},{"id":"tick-1"}]`, skip, "no. 1", 3},
		"missing in a batch":      {`"@this"`, detailBatched, `[{"id":"tick-9"},{"id":"tick-1"}]`, skip, "no. 1", 2},
		"a 404 that is a failure": {`"@this"`, detailBare, `["tick-9"]`, nil, "status_4xx", 2},
		"twice in a batch":        {`"@this"`, detailBatched, `[{"id":"tick-1","again":1}]`, nil, "record", 2},
		"no id":                   {`"@this"`, detailEach, `[{"id":null}]`, nil, "record", 1},
		"no id: skipped":          {`"@this"`, detailEach, `[{"id":""},{"id":"tick-1"}]`, skip, "no. 1", 2},
		"no record":               {`"@this"`, detailEach, `[null]`, nil, "record", 1},
		"too many":                {`"@this"`, detailEach, objects, func(c *Config) { c.MaxRecords = 1 }, "too_many", 1},
		"too many bytes in all":   {`"@this"`, detailEach, objects, func(c *Config) { c.MaxResponseBytes = 300 }, "too_large", 3},
		"a name that is there":    {`"@this"`, detailEach, `[{"id":"tick-1","details":1}]`, nil, "record", 2},
		// Whose a record is, and whether it is shown, is judged first if the list tells it.
		"strangers are not asked about": {`"@this"`, detailEach, `[{"id":"tick-2","who":"zorg"},{"id":"tick-1","who":"acme"}]`, func(c *Config) {
			c.Buyer.Owner, c.Buyer.OnForeignRecord = mapping.Paths{"who"}, "drop"
		}, "no. 1", 2},
		"nor hidden ones": {`"@this"`, detailEach, `[{"id":"tick-2","who":"acme","draft":true},{"id":"tick-1","who":"acme"},{"id":"tick-9","who":"zorg","draft":true}]`, func(c *Config) {
			c.Buyer.Owner, c.Buyer.OnForeignRecord = mapping.Paths{"who"}, "drop"
			c.Buyer.Where = []mapping.Condition{{Path: "draft", Absent: true}, {Path: "details.state", Equals: mapping.Default{Set: true, Value: "N"}}}
		}, "no. 1", 2},
		"a dot in an id of a path": {`"@this"`, detailEach, `[{"id":".."}]`, nil, "record", 1},
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
	f := detailsFixture(t, `"@this"`, detailEach, `[{"id":"tick-1","seen":true},{"id":"tick-9"}]`, nil)
	p, err := f.Probe(t.Context(), acme, ProbeOptions{})
	if err != nil || p.Problem != "" || p.Items != 2 {
		t.Fatalf("%+v %v", p, err)
	}
	wantLines(t, lines(p), "1 title <- details.title: \"no. 1\" -> no. 1", "! 2 details: no detail came", "unused details.total number", "unused seen boolean",
		`id details.uuid 1 ["record 1 content"]`)
	sample, err := f.Probe(t.Context(), acme, ProbeOptions{Sample: []byte(`[{"id":"tick-1"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines(sample), "! 1 details: no detail came")
	wrong := detailsFixture(t, `"@this"`, strings.Replace(detailEach, "id: id", "id: no", 1), `[{"id":"tick-1"}]`, nil)
	if p, err = wrong.Probe(t.Context(), acme, ProbeOptions{Whole: true}); err != nil {
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
