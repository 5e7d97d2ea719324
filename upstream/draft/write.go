package draft

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// toComplete is the path of a field that was not found. It is a good path with
// nothing behind it.
const toComplete = "COMPLETE_ME"

// writer writes YAML with comments; every mark stands above its line.
type writer struct {
	strings.Builder
	indent string
}

// line writes one line at the present depth.
func (w *writer) line(format string, args ...any) {
	w.WriteString(w.indent + fmt.Sprintf(format, args...) + "\n")
}

// doubts writes a comment for each doubt.
func (w *writer) doubts(list []string) {
	for _, doubt := range list {
		w.line("# DOUBT: %s", oneLine(doubt))
	}
}

// deeper runs f with two more blanks in front of each line.
func (w *writer) deeper(f func()) {
	before := w.indent
	w.indent += "  "
	f()
	w.indent = before
}

// YAML writes the proposal as a part of a configuration. A line "# DOUBT:" stands
// above what may be wrong, "# TODO:" above what has to be completed.
func (p *Proposal) YAML() string {
	w := &writer{}
	w.line("# Drafted from %d records of the %s %s. Look at each DOUBT, complete each TODO, then try it:", p.Records, p.Kind, oneLine(p.Account))
	w.line("#   inquiry-gateway probe -c FILE --kind %s --account ID --sample REPLY", p.Kind)
	w.doubts(p.Doubts)
	w.line("upstream:")
	w.deeper(func() {
		if p.BaseURL == "" {
			w.line("# TODO: the address of the legacy system")
		}
		w.line("base_url: %s", quote(cmp.Or(p.BaseURL, "https://legacy.internal")))
		w.line("%s:", p.Kind)
		w.deeper(func() { p.endpoint(w) })
	})
	return w.String()
}

// endpoint writes the section of one kind. Path and query cannot be drafted: no reply
// tells them.
func (p *Proposal) endpoint(w *writer) {
	w.line("# TODO: the path of the list, and how the request says whose list it is")
	w.line("path: /%s", toComplete)
	w.line(`query: {%s: "{account}"}`, toComplete)
	w.line("# DOUBT: if the legacy system can filter, send it {status} and {inquiry_type} in query, and remove this line")
	w.line("filtering: gateway")
	if p.XML {
		w.line("reply: {format: xml}")
	}
	w.doubts(p.Items.Doubts)
	w.line("items: %s", quote(p.Items.Path))
	if p.Owner.Path == "" {
		w.line("# DOUBT: no value of the records is the account; the request alone binds the list to it")
	} else {
		w.doubts(p.Owner.Doubts)
		if l := p.Owner.Lookup; l != nil {
			w.line("owner_lookup: %s", l.yaml())
		} else {
			w.line("owner: %s", quote(p.Owner.Path))
		}
	}
	w.ids(p.ids)
	p.Paging.write(w)
	if p.Details != nil {
		p.Details.write(w)
	}
	w.where(p.Where)
	w.line("fields:")
	w.deeper(func() { p.fields(w) })
}

// ids writes internal_ids, and as a doubt those that are too short.
func (w *writer) ids(i ids) {
	if len(i.Short) > 0 {
		w.line("# DOUBT: left out, because every such short number would be cut out of texts: %s", oneLine(strings.Join(i.Short, ", ")))
	}
	if len(i.IDs) == 0 {
		w.line("# DOUBT: no id was found that must not leave")
	}
	w.line("internal_ids: %s", yamlList(i.IDs))
}

// write writes the section paging on one line.
func (g Paging) write(w *writer) {
	w.doubts(g.Doubts)
	if g.Style == "none" {
		w.line("paging: {style: none}")
		return
	}
	keys := []string{"style: " + g.Style}
	if g.Style != "next_url" {
		keys = append(keys, "param: "+g.Style)
	}
	if g.Size > 0 && g.Style != "cursor" {
		keys = append(keys, fmt.Sprintf("size: %d, size_param: size", g.Size))
	}
	if g.Key != "" {
		keys = append(keys, g.Key+": "+quote(g.Path))
	}
	w.line("paging: {%s}", strings.Join(keys, ", "))
}

// fields writes those that records of the kind have, in the order of the documentation.
func (p *Proposal) fields(w *writer) {
	w.field("title", p.Title)
	if p.Kind == "buyer" {
		w.field("content", p.Content)
	}
	w.field("status", p.Status)
	w.field("inquiry_type", p.nullableType())
	if p.Kind == "seller" {
		w.field("company_name", p.CompanyName)
	}
	w.field("created_at", p.CreatedAt)
	if p.Kind == "buyer" {
		p.Responses.write(w)
	}
}

// nullableType is null for a buyer's list where no field says the type.
func (p *Proposal) nullableType() Choice {
	c := p.InquiryType
	if c.Path == "" && p.Kind == "buyer" {
		c.Default = new("null")
	}
	return c
}

// write writes the section responses. One that was not found gets paths to complete: a
// buyer's records need the section.
func (r Responses) write(w *writer) {
	if r.Items == "" {
		w.line("# TODO: no list of answers is in the records; if another request gives them, see responses.fetch in deploy/docs/configuration.md")
		r.Items = toComplete
	}
	w.line("responses:")
	w.deeper(func() {
		if r.Fetch != "" {
			w.line("# DOUBT: the OpenAPI document has this path; if it gives the answers, remove the # of the next line")
			w.line("# fetch: %s", r.Fetch)
		}
		w.doubts(r.Doubts)
		w.line("items: %s", quote(r.Items))
		if len(r.IDs) > 0 || len(r.Short) > 0 {
			w.ids(r.ids)
		}
		w.where(r.Where)
		w.line("fields:")
		w.deeper(func() {
			w.field("content", r.Content)
			if r.Role.Path == "" {
				w.doubts(r.Role.Doubts)
				w.line("responder_type: {const: null}")
			} else {
				w.field("responder_type", r.Role)
			}
			w.field("created_at", r.Created)
		})
	})
}

// field writes one field: a path alone, or a section.
func (w *writer) field(name string, c Choice) {
	w.doubts(c.Doubts)
	if c.Path == "" {
		w.line("# TODO: no field of the records looks like it")
		c.Path = toComplete
	}
	keys := []string{"path: " + quote(c.Path)}
	if c.Lookup != nil {
		keys[0] = "lookup: " + c.Lookup.yaml()
	}
	for _, key := range []struct{ name, value string }{{"format", c.Format}, {"zone", c.Zone}} {
		if key.value != "" {
			keys = append(keys, key.name+": "+quote(key.value))
		}
	}
	if c.TrimHTML {
		keys = append(keys, "trim_html: true")
	}
	if c.Empty {
		keys = append(keys, "empty: missing")
	}
	if c.Default != nil && *c.Default == "null" {
		keys = append(keys, "default: null")
	} else if c.Default != nil {
		keys = append(keys, "default: "+quote(*c.Default))
	}
	switch {
	case len(c.Values) > 0:
		w.line("%s:", name)
		w.deeper(func() { w.values(keys, c.Values) })
	case len(keys) == 1 && c.Lookup == nil:
		w.line("%s: %s", name, quote(c.Path))
	default:
		w.line("%s: {%s}", name, strings.Join(keys, ", "))
	}
}

// yaml writes a look-up on one line.
func (l *Lookup) yaml() string {
	return fmt.Sprintf("{in: %s, key: %s, by: %s, take: %s}", quote(l.In), yamlList(l.Key), yamlList(l.By), quote(l.Take))
}

// values writes a field with one key in a line, and its values below.
func (w *writer) values(keys []string, values []Value) {
	for _, key := range keys {
		w.line("%s", key)
	}
	w.line("values:")
	w.deeper(func() {
		for _, v := range values {
			note := ""
			if v.Unsure {
				note = " # TODO: what does it mean?"
			}
			w.line("%s: %s%s", quote(v.Legacy), quote(v.Public), note)
		}
	})
}

var plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// quote writes a text as YAML reads it back: as it is where it can be nothing else.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	text, err := json.Marshal(strings.ReplaceAll(s, "${", "$${"))
	if err != nil {
		return `""`
	}
	return string(text)
}

// yamlList writes texts as a list on one line.
func yamlList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// oneLine keeps foreign text within its comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 || r == 0x85 {
			return ' '
		}
		return r
	}, s)
}
