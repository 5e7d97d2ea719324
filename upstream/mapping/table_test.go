package mapping

import (
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// apiSection maps JSON:API: names of people stand beside the records.
const apiSection = `
base_url: http://legacy.test
buyer:
  path: /tickets
  filtering: gateway
  items: data
  owner_lookup: {in: included, key: [type, id], by: [rel.org.type, rel.org.id], take: attributes.account}
  fields:
    title: attributes.subject
    content: {lookup: {in: included, key: [type, id], by: [rel.body.type, rel.body.id], take: [attributes.text, attributes.html]}, default: none}
    status: {lookup: {in: meta.states, key: id, by: attributes.state, take: name}, values: {New: pending}}
    inquiry_type: {path: attributes.kind, default: null}
    created_at: {lookup: {in: included, key: [type, id], by: [rel.body.type, rel.body.id], take: attributes.at}}
    responses:
      items: attributes.replies
      fields:
        content: text
        responder_type: {lookup: {in: included, key: id, by: by, take: attributes.role}, default: null}
        created_at: at
seller: {path: "/{account}", filtering: gateway, items: "@this", fields: {title: a, status: b, inquiry_type: c, company_name: d, created_at: e}}
`

const apiRecord = `{"rel":{"org":{"type":"org","id":1},"body":{"type":"body","id":"%s"}},"attributes":{"subject":"s","state":7,` +
	`"replies":[{"text":"x","by":"p1","at":"2026-01-01T00:00:00Z"},{"text":"y","by":"p9","at":"2026-01-01T00:00:00Z"}]}}`

const apiEntries = `{"type":"org","id":"1","attributes":{"account":"acme"}},{"type":"body","id":"b1","attributes":{"html":"one","at":"2026-02-01T00:00:00Z"}},` +
	`{"type":"bo","id":"dyb1","attributes":{"text":"wrong"}},{"type":"person","id":"p1","attributes":{"role":"staff"}},{"id":null},7`

func apiReply(record, entries string) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"states":[{"id":7,"name":"New"}]},"included":[%s]}`, fmt.Sprintf(apiRecord, record), entries)
}

func TestLookup(t *testing.T) {
	for name, tc := range map[string]struct{ body, reason string }{
		"found":                    {apiReply("b1", apiEntries), ""},
		"the same entry twice":     {apiReply("b1", apiEntries+`,{"type":"person","id":"p1","attributes":{"role":"staff"}}`), ""},
		"another with its key":     {apiReply("b1", apiEntries+`,{"type":"person","id":"p1","attributes":{"role":"admin"}}`), "items"},
		"no entry":                 {apiReply("b2", apiEntries), "record"},
		"no owner":                 {apiReply("b1", strings.Replace(apiEntries, `"org"`, `"team"`, 1)), "owner"},
		"another owner":            {apiReply("b1", strings.Replace(apiEntries, `"acme"`, `"zorg"`, 1)), "owner"},
		"no table":                 {strings.Replace(apiReply("b1", apiEntries), "included", "excluded", 1), "owner"},
		"a table that is no array": {`{"data":[],"included":{"a":1}}`, "items"},
		"too many entries":         {apiReply("b1", strings.Repeat("0,", 100_000)+"0"), "too_many"},
		"JSON that is cut off":     {strings.TrimSuffix(apiReply("b1", apiEntries), "}"), "json"},
	} {
		r, err := mapBuyer(t, apiSection, tc.body, Request{})
		if got := reasonOf(t, err); got != tc.reason {
			t.Errorf("%s: %v, want %s", name, err, tc.reason)
			continue
		}
		if tc.reason != "" {
			continue
		}
		inq := r.List[0]
		if inq.Content != "one" || inq.Status != "pending" || inq.CreatedAt.Month() != 2 ||
			inq.Responses[0].ResponderType.String != "staff" || inq.Responses[1].ResponderType.Valid {
			t.Errorf("%s: %+v", name, inq)
		}
	}
}

// The table is that of the same reply: an id may mean another thing on the next page.
func TestLookupInEachPage(t *testing.T) {
	r := planFrom(t, apiSection, "buyer").NewBuilder(Request{Account: "acme"})
	for _, role := range []string{"staff", "admin"} {
		if _, err := r.Take(apiReply("b1", strings.Replace(apiEntries, "staff", role, 1))); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.List[0].Responses[0].ResponderType.String + r.List[1].Responses[0].ResponderType.String; got != "staffadmin" {
		t.Error(got)
	}
}

func TestLookupInXML(t *testing.T) {
	section := changed(t, "items: result.items", "items: r.items.item\n  reply: {format: xml}", "owner: customer.id", "owner: -owner",
		"content: body.text", "content: {lookup: {in: r.users.user, key: -id, by: author, take: name}}", "items: replies", "items: replies.reply")
	plan := planFrom(t, section, "buyer")
	body, err := plan.Format.Decode(`<r><items><item owner="acme"><subject>s</subject><state>N</state><opened>2026-03-01 09:30:00</opened><author x="1">7</author></item></items>`+
		`<users><user id="7"><name lang="en">Ann</name></user></users></r>`, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	r := plan.NewBuilder(Request{Account: "acme"})
	if err := whole(r, body); err != nil || r.List[0].Content != "Ann" {
		t.Errorf("%s: %+v %v", body, r.List, err)
	}
}

// Whole elements are taken from a table of the reply, so that a value there can hide one.
func TestResponsesOfATable(t *testing.T) {
	section := changed(t, "      items: replies\n", "      items: notes.data\n      lookup: {in: included, key: [type, id], by: [type, id]}\n      where: [{path: private, not_equals: true, missing: include}]\n")
	ticket := strings.Replace(testkit.SampleTicket, `"replies":[`, `"notes":{"data":[{"type":"n","id":"1"},{"type":"n","id":"2"}]},"old":[`, 1)
	body := func(second string) string {
		return strings.TrimSuffix(testkit.SampleList(ticket), "}") + `,"included":[{"type":"n","id":"1","uuid":"bbbbbbbb-1111-4222-8333-944455566677","text":"On its way, bbbbbbbb-1111-4222-8333-944455566677","by":{"role":"S"},"at":"2026-03-02T01:02:03Z"},` + second + `]}`
	}
	const private = `{"type":"n","id":"2","private":true,"text":"A bad customer","by":{"role":"S"},"at":"2026-03-02T01:02:03Z"}`
	r, err := mapBuyer(t, section, body(private), Request{})
	if err != nil || len(r.List[0].Responses) != 1 || r.List[0].Responses[0].Content != "On its way, [removed]" {
		t.Fatalf("%+v %v", r.List, err)
	}
	if _, err = mapBuyer(t, section, body(strings.Replace(private, `"2"`, `"3"`, 1)), Request{}); err == nil || !strings.Contains(err.Error(), whyNoEntry) {
		t.Errorf("one is missing: %v", err)
	}
	if got := doubtsOf(t, section, body(private)); strings.Contains(got, "responses") {
		t.Errorf("paths of the entries are looked for in the elements: %s", got)
	}
	_, wrong := compileSection(t, changed(t, "      items: replies\n", "      items: notes\n      lookup: {in: included, key: [id]}\n"))
	if wrong["buyer.fields.responses.lookup.by"] == "" {
		t.Error(wrong)
	}
}
