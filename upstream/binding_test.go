package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
)

// binding is a list whose request, or that for its responses, holds a placeholder that says whose
// it is, in a text with another one that may be empty.
type binding struct {
	second                bool
	name, other, in, text string // in: the place of the text
}

// section is its configuration.
func (b binding) section() string {
	path := "/asked"
	if b.second && b.name == "account" { // it has to say which inquiry, too
		path += "/{id}"
	}
	request := map[string]string{
		"path":   fmt.Sprintf("path: %q", path+"/"+b.text),
		"query":  fmt.Sprintf("query: {q: %q}", b.text),
		"form":   fmt.Sprintf("method: POST, body_type: form, body: {q: %q}", b.text),
		"json":   fmt.Sprintf("method: POST, body: {all: [{q: %q}]}", b.text),
		"xml":    fmt.Sprintf("method: POST, body_type: xml, body: %q", "<r><q>"+b.text+"</q></r>"),
		"header": fmt.Sprintf("headers: {X-Q: %q}, query: {q: \"{%s}\"}", b.text, b.name),
	}[b.in]
	if b.in != "path" {
		request += fmt.Sprintf(", path: %q", path)
	}
	switch b.other {
	case "cursor":
		request += ", paging: {style: cursor, next: next}"
	case "page", "offset":
		request += ", paging: {style: " + b.other + ", until_empty: true}"
	default:
		request += ", paging: {style: none}"
	}
	list, fetch := request, ""
	if b.second {
		list = `path: /list, query: {customer: "{account}"}, paging: {style: none}`
		fetch = ", fetch: {" + request + map[string]string{
			"id": ", id: id", "ids": ", id: id, batch: 2, key: id, join: ','", "project": ", ids: {project: project}", "account": ", id: id",
		}[b.name] + "}"
	}
	return `
base_url: http://legacy
buyer: {` + list + `, items: rows, id: t, owner: owner,
  fields: {title: t, content: {default: c}, status: s, inquiry_type: {path: k, default: null}, created_at: at,
    responses: {items: rows, items_optional: true, id: t` + fetch + `, fields: {content: t, responder_type: {default: null}, created_at: at}}}}
`
}

// Whatever may be empty beside it: a request that does not say whose list, or whose responses, it
// asks for is refused with the configuration, or never goes out. One account would get what is
// everybody's.
func TestNoRequestLosesWhoseItIs(t *testing.T) {
	var all []binding
	for _, in := range []string{"path", "query", "form", "json", "xml", "header"} {
		for _, text := range []string{"{b} {o}", "{o}:{b}", "{b}[ {o}]", "[{b} {o}]", "[{b}] {o}", "[{b}][ {o}]"} {
			for _, other := range []string{"status", "inquiry_type", "cursor", "page", "offset"} {
				for _, who := range []string{"account", "account of responses", "id", "ids", "project"} {
					name, _, _ := strings.Cut(who, " ")
					second := who != "account"
					if second && (other == "status" || other == "inquiry_type") {
						continue // which have no meaning there
					}
					all = append(all, binding{second, name, other, in, strings.NewReplacer("{b}", "{"+name+"}", "{o}", "{"+other+"}").Replace(text)})
				}
			}
		}
	}
	sent := map[binding]int{} // by what names it, and where
	for _, b := range all {
		// The list has two pages, where it has pages, and the inquiry's responses have.
		n := 0
		serve := func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			address, _ := url.QueryUnescape(r.RequestURI + " " + string(body))
			const row = `{"rows":[{"id":"i-7","project":"p-7","owner":"acme","t":"%d","k":"k","s":"open","at":"2026-01-02T03:04:05Z"}]%s}`
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasPrefix(r.URL.Path, "/asked") {
				fmt.Fprintf(w, row, 0, "")
				return
			}
			n++
			value := map[string]string{"account": "acme", "id": "i-7", "ids": "i-7", "project": "p-7"}[b.name]
			if !strings.Contains(address, value) {
				t.Errorf("%+v: %s %s goes out without {%s}", b, r.Method, address, b.name)
			}
			switch {
			case n == 1 && b.other == "cursor":
				fmt.Fprintf(w, row, n, `,"next":"c-2"`)
			case n <= 2:
				fmt.Fprintf(w, row, n, "")
			default:
				fmt.Fprint(w, `{"rows":[]}`)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			cfg := configFrom(t, b.section())
			if err := cfg.Validate(); err != nil {
				apart := strings.Contains(b.text, "}[ {") || strings.Contains(b.text, "][ {") // each may go alone
				never := b.other == "page" || b.other == "offset"                             // and is never empty
				if known := b.in != "path" && b.in != "header"; known && (apart || never) {
					t.Errorf("%+v is refused: %v", b, err)
				}
				return
			}
			f := newFixture(t, serve, cfg)
			for _, status := range []string{"", "open"} {
				for _, kind := range []string{"", "k"} {
					n = 0
					_, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: status, InquiryType: kind})
					if err != nil || n == 0 {
						t.Errorf("%+v: status %q, type %q: %d requests, %v", b, status, kind, n, err)
					}
					sent[binding{second: b.second, name: b.name, in: b.in}]++
				}
			}
		})
	}
	for _, in := range []string{"query", "form", "json", "xml"} {
		for _, name := range []string{"account", "id", "ids", "project"} {
			for _, second := range []bool{false, true} {
				if at := (binding{second: second, name: name, in: in}); sent[at] == 0 && (second || name == "account") {
					t.Errorf("nothing was sent: %+v", at)
				}
			}
		}
	}
}
