package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// No internal id leaves, by whatever way the responses come that have one, whatever becomes
// of its record, and wherever the text stands that quotes it. Numbers are quoted with other
// zeros before them than the ids have.
func TestNoIDLeaves(t *testing.T) {
	const keys = `buyer: {owner: o, on_owner_mismatch: drop, on_invalid_record: skip, where: [{path: hidden, is: null}], internal_ids: [id, "x.#(a==1).id"],
		paging: {style: page, param: p, total_pages: pages}%s,
		fields: {title: t, content: {path: c, default: ""}, responses: {internal_ids: [id, "x.#(a==1).id"], fields: {content: c}, %s}}}`
	ids := func(n int) string { return fmt.Sprintf(`"id":"00041%d","x":[{"a":2},{"a":1,"id":520%[1]d}]`, n) }
	quotes := func(n int) string { return fmt.Sprintf(" 41%d 00520%[1]d", n) }
	response := func(n int, content string) string {
		return fmt.Sprintf(`{"k":%d,"of":%d,"c":%s,%s,%s}`, n, n/10, content, ids(n), good)
	}
	ways := map[string]struct {
		keys   string
		record string // members that lead record N to its responses, which are $
		asked  string // which further request they come by; empty: by none
	}{
		"keys":                         {"items: r", `"r":[$]`, ""},
		"members":                      {"items: r.s.@values", `"r":{"s":{"a":$}}`, ""},
		"an element":                   {`items: r.0`, `"r":[[$]]`, ""},
		"a query":                      {`items: "r.#(k==1).n"`, `"r":[{"k":1,"n":[$]}]`, ""},
		"a look-up":                    {"items: r, lookup: {in: table, key: k, by: k}", `"r":[{"k":N1},{"k":N2}]`, ""},
		"a look-up too many":           {"items: r, lookup: {in: table, key: k, by: k}", `"r":[{"k":N9},{"k":N1},{"k":N2}]`, ""},
		"a look-up of members":         {"items: r.s.@values, lookup: {in: table, key: k, by: k}", `"r":{"s":{"a":{"k":N1},"b":{"k":N2}}}`, ""},
		"each element, before details": {`items: "r.#"`, `"r":[$],"no":N`, ""},
		"details":                      {"items: details.n", `"no":N`, "details"},
		"each element in details":      {`items: "details.n.#"`, `"no":N`, "details"},
		"a request":                    {`items: n, fetch: {path: "/n/{id}", id: no, paging: {style: none}}`, `"no":N`, "responses"},
		"a batch":                      {`items: n, fetch: {path: "/n/{ids}", id: no, batch: 1, key: of, paging: {style: none}}`, `"no":N`, "responses"},
	}
	fates := map[string]struct {
		record, content string // of its first response
		asked           string // what of it is asked for, besides the list
	}{
		"shown":              {`"o":"acme","t":"a","s":"N"`, `"x"`, "details, responses"},
		"filtered":           {`"o":"acme","t":"a","s":"A"`, `"x"`, "details"},
		"hidden":             {`"o":"acme","t":"a","s":"N","hidden":1`, `"x"`, ""},
		"foreign":            {`"o":"zorg","t":"a","s":"N"`, `"x"`, ""},
		"of nobody":          {`"t":"a","s":"N"`, `"x"`, ""},
		"broken":             {`"o":"acme","t":[],"s":"N"`, `"x"`, "details"},
		"of broken response": {`"o":"acme","t":"a","s":"N"`, `[]`, "details, responses"},
	}
	for name, w := range ways {
		for fate, f := range fates {
			t.Run(name+"/"+fate, func(t *testing.T) {
				text, details := quotes(10), ""
				if strings.Contains(name, "details") {
					details = `, details: {fetch: {path: "/n/{id}", id: no, paging: {style: none}}}`
				}
				if strings.Contains(f.asked, w.asked) {
					text += quotes(11) + quotes(12)
				}
				for _, quoted := range []string{"title", "response"} {
					for _, at := range []string{"before", "after", "on another page"} {
						words := map[string]string{"title": "b", "response": "y", quoted: text}
						responses := map[string]string{"1": response(11, f.content) + "," + response(12, `"x"`), "2": response(21, `"`+words["response"]+`"`) + "," + response(22, `"y"`)}
						if name == "members" {
							for n, all := range responses {
								responses[n] = strings.Replace(all, `},{"k"`, `},"b":{"k"`, 1)
							}
						}
						record := func(n, members string) string {
							way := strings.NewReplacer("N", n, "$", responses[n]).Replace(w.record)
							return fmt.Sprintf(`{%s,%s,%s,"at":"2026-01-02T03:04:05Z"}`, members, strings.ReplaceAll(ids(10), "10", n+"0"), way)
						}
						table := `"table":[` + responses["1"] + "," + strings.Replace(responses["2"], `"k":22`, `"k":29`, 1) + "," + response(22, `"y"`) + `]`
						first, second := record("1", f.record), record("2", `"o":"acme","s":"N","t":"`+words["title"]+`"`)
						if name == "members" {
							table = `"table":0`
						}
						pages := []string{`{"pages":1,"rows":[` + first + "," + second + `],` + table + `}`}
						switch at {
						case "before":
							pages = []string{`{"pages":1,"rows":[` + second + "," + first + `],` + table + `}`}
						case "on another page":
							pages = []string{`{"pages":2,"rows":[` + second + `],` + table + `}`, `{"pages":2,"rows":[` + first + `],` + table + `}`}
						}
						virtual(t, func(w http.ResponseWriter, r *http.Request) {
							body := `{"n":[` + responses[strings.TrimPrefix(r.URL.Path, "/n/")] + `]}`
							if r.URL.Path == "/list" {
								body = pages[strings.Count(r.URL.Query().Get("p"), "1")]
							}
							serveJSON(body)(w, r)
						}, fmt.Sprintf(keys, details, w.keys), func(t *testing.T, c *fixture) {
							list, err := c.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending"})
							served, _ := json.Marshal(list.Inquiries)
							if err != nil || !strings.Contains(string(served), "[removed]") {
								t.Errorf("quoted in the %s of one %s: %s %v", quoted, at, served, err)
							}
							for id := range strings.FieldsSeq(text) {
								if strings.Contains(string(served), strings.TrimLeft(id, "0")) {
									t.Errorf("quoted in the %s of one %s: %s stays in %s", quoted, at, id, served)
								}
							}
						})
					}
				}
			})
		}
	}
}
