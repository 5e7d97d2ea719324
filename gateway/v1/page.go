package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
)

// document is what the page shows of the OpenAPI document. The names of its types
// are those of OpenAPI.
type document struct {
	Info       struct{ Title, Version, Summary, Description string }
	Paths      map[string]struct{ Get operation }
	Components struct {
		SecuritySchemes struct{ APIKey struct{ Description string } }
		Parameters      map[string]parameter
		Headers         map[string]header
		Schemas         map[string]schema
		Examples        map[string]example
	}
}

type ref struct {
	Ref string `json:"$ref"`
}

// name is what the reference ends with: the components of one sort have no
// folders.
func (r ref) name() string { return path.Base(r.Ref) }

type operation struct {
	Summary, Description string
	Tags                 []string
	Samples              []struct{ Label, Source string } `json:"x-codeSamples"`
	Parameters           []ref
	Responses            map[string]struct {
		Headers map[string]ref
		Content map[string]struct {
			Schema   ref
			Examples map[string]ref
		}
	}
}

type parameter struct {
	Name, In, Description string
	Schema                struct{ Enum []string }
}

type header struct {
	Description string
	Example     any
}

type schema struct {
	ref
	Description string
	Type        any // a name, or names
	Required    []string
	Properties  map[string]schema
	Items       *schema
}

type example struct {
	Summary string
	Value   json.RawMessage
}

// pageValues are the names in docs/index.html and what stands there, in pairs. It
// is written by hand: a package of templates would have the linker keep every
// method of every type, because a template may call any.
func pageValues(openAPI []byte) []string {
	var d document
	if err := json.Unmarshal(openAPI, &d); err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	var lists, links, options strings.Builder
	var samples string
	for _, at := range slices.Sorted(maps.Keys(d.Paths)) {
		get := d.Paths[at].Get
		kind := html.EscapeString(get.Tags[0])
		samples = samplesOf(get)
		fmt.Fprintf(&links, `<li><a href="#%s">The %[1]s's list</a></li>`, kind)
		options.WriteString(d.option(kind, at, get))
		lists.WriteString(d.list(kind, at, get))
	}
	return []string{
		"{{title}}", html.EscapeString(d.Info.Title), "{{version}}", html.EscapeString(d.Info.Version), "{{summary}}", html.EscapeString(d.Info.Summary),
		"{{description}}", markdown(d.Info.Description), "{{key}}", markdown(d.Components.SecuritySchemes.APIKey.Description),
		"{{links}}", links.String(), "{{options}}", options.String(), "{{samples}}", samples, "{{lists}}", lists.String(), "{{errors}}", d.errors(),
	}
}

// samplesOf has the program in each language. Only the first is open.
func samplesOf(get operation) string {
	var out strings.Builder
	for i, s := range get.Samples {
		out.WriteString(details("", i == 0, html.EscapeString(s.Label), code(s.Source)))
	}
	return out.String()
}

// option chooses a list in the form, and says which words its filters take, where that is
// known.
func (d *document) option(kind, at string, get operation) string {
	words := ""
	for _, r := range get.Parameters {
		if p := d.Components.Parameters[r.name()]; len(p.Schema.Enum) > 0 {
			words += fmt.Sprintf(` data-%s="%s"`, p.Name, html.EscapeString(strings.Join(p.Schema.Enum, " ")))
		}
	}
	return fmt.Sprintf(`<option value="%s"%s>%s</option>`, html.EscapeString(at), words, kind)
}

// list is the section of one list: parameters, records, examples, header fields.
func (d *document) list(kind, at string, get operation) string {
	var parameters, headers [][]string
	for _, r := range get.Parameters {
		p := d.Components.Parameters[r.name()]
		if len(p.Schema.Enum) > 0 {
			p.Description += " One of `" + strings.Join(p.Schema.Enum, "`, `") + "`."
		}
		parameters = append(parameters, []string{p.Name, p.In, p.Description})
	}
	ok := get.Responses["200"]
	for _, name := range slices.Sorted(maps.Keys(ok.Headers)) {
		h := d.Components.Headers[ok.Headers[name].name()]
		headers = append(headers, []string{name, fmt.Sprintf("`%v`", h.Example), h.Description})
	}
	content := ok.Content["application/json"]
	fields := d.fields(d.schema(schema{ref: content.Schema}).Properties["data"], "", nil)
	var examples strings.Builder
	for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
		e := d.Components.Examples[content.Examples[name].name()]
		examples.WriteString(details("", name == "inquiries", html.EscapeString(e.Summary), code(indented(e.Value))))
	}
	return fmt.Sprintf(`<section id="%s"><h2>%s</h2>%s<pre class="card">GET %s</pre>`, kind, html.EscapeString(get.Summary), markdown(get.Description), html.EscapeString(at)) +
		table("Parameters", "In", parameters) + "<h3>Reply</h3>" + examples.String() +
		details("", false, "Header fields of the reply", table("Header fields of the reply", "Example", headers)) + table("Fields of a record", "Type", fields) + "</section>"
}

// schema follows the reference of s, if it is one.
func (d *document) schema(s schema) schema {
	if s.Ref != "" {
		return d.Components.Schemas[s.name()]
	}
	return s
}

// fields appends a row for each field of the records of an array, in the order of
// the wire, which is that of "required".
func (d *document) fields(array schema, prefix string, rows [][]string) [][]string {
	record := d.schema(*array.Items)
	for _, name := range record.Required {
		field := d.schema(record.Properties[name])
		rows = append(rows, []string{prefix + name, strings.Trim(strings.ReplaceAll(fmt.Sprint(field.Type), " ", " or "), "[]"), field.Description})
		if field.Items != nil {
			rows = d.fields(field, prefix+name+"[].", rows)
		}
	}
	return rows
}

// errors is each error of the catalogue with the envelope that the document has
// as its example.
func (d *document) errors() string {
	var out strings.Builder
	for _, p := range Problems() {
		e := d.Components.Examples[p.Code]
		out.WriteString(details("error-"+p.Code, false, fmt.Sprintf(`<span class="number">%d</span> <code>%s</code> %s`, p.Status, p.Code, html.EscapeString(e.Summary)), code(indented(e.Value))))
	}
	return out.String()
}

// details is a part of the page that is opened by its summary. Both texts are HTML.
func details(id string, open bool, summary, content string) string {
	attributes := ""
	if id != "" {
		attributes = ` id="` + id + `"`
	}
	if open {
		attributes += " open"
	}
	return "<details" + attributes + "><summary>" + summary + "</summary>" + content + "</details>\n"
}

func code(text string) string {
	return `<pre class="card">` + html.EscapeString(strings.TrimSpace(text)) + "</pre>"
}

func indented(value json.RawMessage) string {
	var out bytes.Buffer
	_ = json.Indent(&out, value, "", "  ") // it is a part of a document that was parsed
	return out.String()
}

// table has the names of its rows in the first column; the others are Markdown. It
// can be wider than a telephone, and so is scrolled with the keyboard, too.
func table(title, second string, rows [][]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `<div class="scroll" role="group" aria-label="%s" tabindex="0"><table class="data"><caption>%[1]s</caption>`+
		`<thead><tr><th scope="col">Name</th><th scope="col">%s</th><th scope="col">Meaning</th></tr></thead><tbody>`, title, second)
	for _, row := range rows {
		fmt.Fprintf(&out, `<tr><th scope="row"><code>%s</code></th><td>%s</td><td>%s</td></tr>`, html.EscapeString(row[0]), cell(row[1]), cell(row[2]))
	}
	return out.String() + "</tbody></table></div>"
}

// markdown renders a text of the document, which has no raw HTML.
func markdown(text string) string {
	var out strings.Builder
	_ = goldmark.Convert([]byte(text), &out) // writing to out meets no error
	return strings.TrimSpace(out.String())
}

// cell renders one paragraph as what is in it.
func cell(text string) string {
	return strings.TrimSuffix(strings.TrimPrefix(markdown(text), "<p>"), "</p>")
}
