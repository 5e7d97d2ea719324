package draft

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// ToComplete stands where only a person knows what belongs there. A configuration that
// has it is refused.
const ToComplete = "COMPLETE_ME"

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
	w.line("upstream:")
	w.deeper(func() {
		w.address()
		p.kind(w)
	})
	return w.String()
}

// address writes what no reply tells of the legacy system as a whole.
func (w *writer) address() {
	w.line("# TODO: the address of the legacy system")
	w.line("base_url: https://%s", ToComplete)
	w.line("# TODO: how the gateway signs in: header, basic, bearer, session, oauth2_client_credentials or none")
	w.line("auth: {type: header, name: X-Api-Key, token_file: %s}", ToComplete)
}

// kind writes the section of the proposal's kind.
func (p *Proposal) kind(w *writer) {
	w.line("# Drafted from %d records of the %s %s. Look at each DOUBT, complete each TODO, then try it:", p.Records, p.Kind, oneLine(p.Account))
	w.line("#   inquiry-gateway probe -c FILE --kind %s --account ID --sample REPLY", p.Kind)
	w.line("%s:", p.Kind)
	w.deeper(func() { p.endpoint(w) })
}

// endpoint writes the section of one kind. Path and query cannot be drafted: no reply
// tells them.
func (p *Proposal) endpoint(w *writer) {
	w.line("# TODO: the path of the list, and how the request says whose list it is")
	w.line("path: /%s", ToComplete)
	w.line(`query: {%s: "{account}"}`, ToComplete)
	w.line("# DOUBT: if the legacy system can filter, send it {status} and {inquiry_type} in query, and remove this line")
	if p.XML {
		w.line("reply: {format: xml}")
	}
	w.doubts(p.Items.Doubts)
	w.line("items: %s", quote(p.Items.Path))
	w.doubts(p.Owner.Doubts)
	if p.Owner.Path != "" {
		w.line("owner: %s", quote(p.Owner.Path))
	}
	if len(p.short) > 0 {
		w.line("# DOUBT: left out, because every such short number would be cut out of texts: %s", oneLine(strings.Join(p.short, ", ")))
	}
	if len(p.IDs) == 0 {
		w.line("# DOUBT: no id was found that must not leave")
	}
	w.line("internal_ids: %s", yamlList(p.IDs))
	if len(p.forms) > 0 {
		w.line("# DOUBT: texts may quote ids of other lists, too; is this their form?")
		w.line("internal_id_patterns: %s", yamlList(p.forms))
	}
	w.doubts(p.Paging.Doubts)
	w.line("paging: {%s}", strings.Join(append([]string{"style: " + p.Paging.Style}, p.Paging.Keys...), ", "))
	w.where(p.truths)
	w.line("fields:")
	w.deeper(func() {
		w.field("title", p.Title)
		if p.Kind == "buyer" {
			w.field("content", p.Content)
		}
		w.field("status", p.Status)
		if p.InquiryType.Path == "" && p.Kind == "buyer" {
			w.line("# DOUBT: no field tells the type")
			w.line("inquiry_type: {const: null}")
		} else {
			w.field("inquiry_type", p.InquiryType)
		}
		if p.Kind == "seller" {
			w.field("company_name", p.CompanyName)
		}
		w.field("created_at", p.CreatedAt)
		if p.Kind == "buyer" {
			p.Responses.write(w)
		}
	})
}

// write writes the section responses. One that was not found gets paths to complete: a
// buyer's records need the section.
func (r Responses) write(w *writer) {
	if r.Items.Path == "" {
		w.line("# TODO: no list of answers is in the records; if another request gives them, add fetch: {path: ..., id: ...}")
		r.Items.Path = ToComplete
	}
	w.line("responses:")
	w.deeper(func() {
		w.doubts(r.Items.Doubts)
		w.line("items: %s", quote(r.Items.Path))
		if len(r.IDs) > 0 {
			w.line("internal_ids: %s", yamlList(r.IDs))
		}
		w.where(r.truths)
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

// where writes the conditions of what looks as if it hid something, and names the truth
// values that nobody can judge by their names.
func (w *writer) where(t truths) {
	if len(t.other) > 0 {
		w.line("# DOUBT: true or false in the records, and read by no field: %s; if one marks what callers must not see, name it in where", oneLine(strings.Join(t.other, ", ")))
	}
	if len(t.hide)+len(t.show) > 0 {
		w.line("# DOUBT: these look as if they say what callers must not see")
		w.line("where:")
	}
	for _, path := range t.show {
		w.line("  - {path: %s, in: [\"true\", \"1\", \"Y\"]}", quote(path))
	}
	for _, path := range t.hide {
		w.line("  - {path: %s, in: [\"false\", \"0\", \"N\"]}", quote(path))
	}
}

// field writes one field: a path alone, or a section.
func (w *writer) field(name string, c Choice) {
	w.doubts(c.Doubts)
	if c.Path == "" {
		w.line("# TODO: no field of the records looks like it")
	}
	keys := []string{"path: " + quote(cmp.Or(c.Path, ToComplete))}
	for _, key := range []struct{ name, value string }{{"format", c.Format}, {"zone", c.Zone}, {"default", c.Default}} {
		if key.value != "" {
			keys = append(keys, key.name+": "+strings.Replace(quote(key.value), `"null"`, "null", 1))
		}
	}
	if c.HTML {
		keys = append(keys, "trim_html: true")
	}
	switch {
	case len(c.Codes) > 0:
		w.line("%s:", name)
		w.deeper(func() {
			for _, key := range keys {
				w.line("%s", key)
			}
			w.line("# TODO: what the public reads for each, and codes that the samples do not have")
			w.line("values:")
			for _, code := range c.Codes {
				w.line("  %s: %s", quote(code), ToComplete)
			}
		})
	case len(keys) == 1:
		w.line("%s: %s", name, strings.TrimPrefix(keys[0], "path: "))
	default:
		w.line("%s: {%s}", name, strings.Join(keys, ", "))
	}
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
