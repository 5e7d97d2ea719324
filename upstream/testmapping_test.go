package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// mappingYAML is the section that most tests start from.
const mappingYAML = `
base_url: http://legacy.test
buyer:
  path: /v2/tickets
  query: {customer: "{account}", state: "{status}", category: "{inquiry_type}"}
  filtering: upstream
  items: result.items
  internal_ids: [uuid, "replies.#.uuid"]
  owner: customer.id
  fields:
    title: subject
    content: body.text
    status: {path: state, values: {N: pending, A: answered}}
    inquiry_type: {path: category, default: null}
    created_at: {path: opened, format: "2006-01-02 15:04:05", zone: Asia/Seoul}
    responses:
      items: replies
      fields: {content: text, responder_type: {path: by.role, values: {C: customer, S: staff}}, created_at: at}
seller:
  path: /v2/tickets
  query: {vendor: "{account}"}
  filtering: gateway
  items: "@this"
  internal_ids: [uuid]
  owner: vendor.id
  fields:
    title: subject
    status: {path: state, values: {N: pending, A: answered}}
    inquiry_type: {path: category, default: general}
    company_name: customer.name
    created_at: opened
`

// whole maps a list that is one reply.
func (r *reply) whole(body string) *Error {
	if err := r.collect(body); err != nil {
		return err
	}
	r.sweep()
	return nil
}

// configFrom decodes a section over the defaults, as the program does.
func configFrom(t testing.TB, section string) Config {
	t.Helper()
	cfg := DefaultConfig()
	if err := yaml.UnmarshalWithOptions([]byte(section), &cfg, yaml.Strict()); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return cfg
}

func planFrom(t testing.TB, section, kind string) *endpointPlan {
	t.Helper()
	cfg := configFrom(t, section)
	if err := cfg.Validate(); err != nil {
		t.Fatalf("validate: %v", err)
	}
	ec := cfg.Buyer
	if kind == "seller" {
		ec = cfg.Seller
	}
	plan := compileEndpoint(kind, ec, &problems{})
	plan.bind(cfg)
	return plan
}

// tickets writes a reply of n records of about 500 bytes, one in seven with an
// id quoted in its text.
func tickets(n int) string {
	var b bytes.Buffer
	b.WriteString(`{"status":"ok","result":{"total":` + fmt.Sprint(n) + `,"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		quote := ""
		if i%7 == 0 {
			quote = " ref " + ticketID(i/2)
		}
		fmt.Fprintf(&b, `{"uuid":%q,"customer":{"id":"acme","name":"Acme Trading Co."},"subject":"Delivery of order %d is late","state":%q,"category":"delivery",`+
			`"opened":"2026-01-%02d 10:20:30","priority":3,"flags":["a","b"],"body":{"format":"plain","text":"We ordered on Monday, 물건이 아직 도착하지 않았습니다.\n%s please look into it%s"},`+
			`"replies":[{"uuid":%q,"text":"Thank you, we are looking into it.","by":{"role":"S","id":17},"at":"2026-01-28T11:00:00Z"}]}`,
			ticketID(i), i, string("NA"[i%2]), i%28+1, strings.Repeat("again ", i%5), quote, ticketID(i+1_000_000))
	}
	b.WriteString(`]}}`)
	return b.String()
}

func ticketID(i int) string {
	return fmt.Sprintf("%08x-1234-4abc-8def-%012x", i*2654435761%(1<<32), i)
}
