package draft

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// A list in XML is one in every record, also where it has one element. What is
// drafted maps the sample through the client.
func TestDraftOfXML(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><inquiries count="6">`)
	for i, subject := range []string{"Where is my parcel?", "The invoice is wrong", "Please change the address", "Broken on arrival", "Charged twice", "Colour differs"} {
		replies := []string{"", "<reply><text>We look into it today.</text><at>2026-02-01T10:00:00Z</at><by>staff</by></reply>"}[i%2]
		if i == 3 {
			replies += "<reply><text>Thank you very much!</text><at>2026-02-02T10:00:00Z</at><by>customer</by></reply>"
		}
		b.WriteString(`<inquiry id="` + strings.Repeat("9", 5) + string(rune('0'+i)) + `"><customer no="4711">Acme</customer><subject>` + subject + `</subject><text>` + strings.Repeat(subject+" ", 5) +
			`</text><state>` + []string{"open", "answered"}[i%2] + `</state><topic>` + []string{"delivery", "billing"}[i/3] + `</topic><created>2026-01-0` + string(rune('1'+i)) + `T10:00:00Z</created><replies>` + replies + `</replies></inquiry>`)
	}
	b.WriteString(`</inquiries>`)
	p, err := Propose([][]byte{[]byte(b.String())}, Options{Kind: "buyer", Account: "4711"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Items.Path != "inquiries.inquiry" || p.Owner.Path != "customer.-no" || p.Title.Path != "subject" || p.Content.Path != "text" || p.Status.Path != "state" ||
		p.InquiryType.Path != "topic" || p.CreatedAt.Path != "created" || p.Responses.Items != "replies.reply" || p.Responses.Content.Path != "text" || p.Responses.Role.Path != "by" {
		t.Errorf("%+v\n%s", p, p.YAML())
	}
	file := struct{ Upstream upstream.Config }{upstream.DefaultConfig()}
	for _, text := range []string{string(legacy.Mapping()), p.YAML()} {
		buyer := upstream.DefaultConfig().Buyer
		file.Upstream.Buyer = buyer
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
	}
	client, err := upstream.New(file.Upstream, upstream.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.YAML())
	}
	defer client.Close()
	seen, err := client.Probe(t.Context(), upstream.Request{Kind: "buyer", Account: "4711"}, upstream.ProbeOptions{Sample: []byte(b.String())})
	if err != nil || seen.Problem != "" || len(seen.Violations) > 0 || len(seen.Served) != 6 || len(seen.Served[3].Responses) != 2 || len(seen.Served[1].Responses) != 1 {
		t.Errorf("%+v %v\n%s", seen, err, p.YAML())
	}
}
