package draft

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
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

// YAML writes proposals, at most one of each kind, as a section of a configuration. A line "# DOUBT:"
// stands above what may be wrong, "# TODO:" above what has to be completed.
func YAML(proposals ...*Proposal) string {
	w := &writer{}
	w.line("upstream:")
	w.deeper(func() {
		w.line("# TODO: the address of the legacy system")
		w.line("base_url: https://%s", ToComplete)
		w.line("# TODO: how the gateway signs in: header, basic, bearer, session, oauth2_client_credentials or none")
		w.line("auth: {type: header, name: X-Api-Key, token_file: %s}", ToComplete)
		for _, p := range proposals {
			w.line("# Drafted from %d records of the %s %s. Look at each DOUBT, complete each TODO, then try it:", p.Records, p.Kind, oneLine(p.Account))
			w.line("#   inquiry-gateway probe -c FILE --%s ID --sample REPLY", p.Kind)
			w.line("%s:", p.Kind)
			w.deeper(func() { p.endpoint(w) })
		}
	})
	return w.String()
}

// request writes the request for a list: no reply tells its path and its parameters.
func (p *Proposal) request(w *writer) {
	w.line("# TODO: the path of the list, and how the request says whose list it is")
	w.line("path: /%s", ToComplete)
	switch {
	case p.XML && strings.HasPrefix(p.Items.Path, "Envelope.Body."):
		w.line("# DOUBT: the reply is of SOAP, which is asked by POST; some systems want a header SOAPAction besides")
		w.line("method: POST")
		w.line("body_type: xml")
		w.line("# TODO: the envelope, with the account in it")
		w.line(`body: "<%s>{account}</%s>"`, ToComplete, ToComplete)
	case p.isGraphQL():
		w.line("# DOUBT: the reply looks like one of GraphQL")
		w.line("method: POST")
		w.line("# TODO: the query, with the account as a variable")
		w.line(`body: {query: %s, variables: {account: "{account}"}}`, ToComplete)
		w.line("expect: [{path: errors, is: null}]")
	default:
		w.line(`query: {%s: "{account}"}`, ToComplete)
		w.line("# DOUBT: if the legacy system can filter, send it {status} and {inquiry_type} in query, and remove this line")
	}
	if p.XML {
		w.line("reply: {format: xml}")
	}
}

// isGraphQL reports whether the records are within an object called data.
func (p *Proposal) isGraphQL() bool { return !p.XML && strings.HasPrefix(p.Items.Path, "data.") }

// endpoint writes the section of one kind.
func (p *Proposal) endpoint(w *writer) {
	p.request(w)
	w.doubts(p.Items.Doubts)
	w.line("items: %s", quote(p.Items.Path))
	w.doubts(p.Owner.Doubts)
	if p.Owner.Path != "" {
		w.line("owner: %s", quote(p.Owner.Path))
	}
	p.identity(w, p.Paging.Style == "page" || p.Paging.Style == "offset")
	p.common(w)
	w.doubts(p.Paging.Doubts)
	w.line("paging: {%s}", strings.Join(append([]string{"style: " + p.Paging.Style}, p.Paging.Keys...), ", "))
	w.line("fields:")
	w.deeper(func() {
		p.choose(w, "title", "")
		if p.Kind == "buyer" {
			p.choose(w, "content", "")
		}
		p.choose(w, "status", ", values: {"+ToComplete+": "+ToComplete+"}")
		p.choose(w, "inquiry_type", "")
		if p.Kind == "seller" {
			p.choose(w, "company_name", "")
		}
		p.created(w)
		if p.Kind == "buyer" {
			p.Responses.write(w)
		}
	})
}

// identity writes what no two records share.
func (f *fields) identity(w *writer, needed bool) {
	for _, c := range f.table.columns {
		if slices.Contains(f.IDs, c.path) && len(c.texts) == f.table.rows && len(c.distinct()) == len(c.texts) {
			w.line("id: %s", quote(c.path))
			return
		}
	}
	if needed {
		w.line("# TODO: the path of what no two records share")
		w.line("id: %s", ToComplete)
	}
}

// common writes internal ids and conditions.
func (f *fields) common(w *writer) {
	w.doubts(f.doubts)
	w.line("internal_ids: %s", yamlList(f.IDs))
	if len(f.Hidden) > 0 {
		w.line("# DOUBT: these look as if they say what callers must not see")
		w.line("where:")
	}
	for _, one := range f.Hidden {
		w.line("  - {path: %s, is: %s}", quote(one.Path), yamlList(one.In))
	}
}

// choose writes a field that a person has to choose, with what it may be.
func (f *fields) choose(w *writer, field, more string) {
	w.line("# TODO: one of these, or a default alone:")
	if f.table != nil {
		for _, line := range f.table.candidates(field) {
			w.line("#   %s", oneLine(line))
		}
	}
	w.line("%s: {path: %s%s}", field, ToComplete, more)
}

// created writes when it was.
func (f *fields) created(w *writer) {
	w.doubts(f.Created.Doubts)
	if f.Created.Path == "" {
		w.line("# TODO: no time was found")
	}
	keys := "path: " + quote(cmp.Or(f.Created.Path, ToComplete))
	for _, key := range [][2]string{{"format", f.Created.Format}, {"zone", f.Created.Zone}} {
		if key[1] != "" {
			keys += ", " + key[0] + ": " + quote(key[1])
		}
	}
	w.line("created_at: {%s}", keys)
}

// write writes the section responses. One that was not found gets paths to complete: a
// buyer's records need the section.
func (r *Responses) write(w *writer) {
	w.line("responses:")
	w.deeper(func() {
		w.doubts(r.Items.Doubts)
		if r.Items.Path == "" {
			w.line("# TODO: no list of answers is in the records; if another request gives them, add fetch: {path: ..., id: ...}")
		}
		w.line("items: %s", quote(cmp.Or(r.Items.Path, ToComplete)))
		r.common(w)
		w.line("fields:")
		w.deeper(func() {
			r.choose(w, "content", "")
			r.choose(w, "responder_type", "")
			r.created(w)
		})
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
	return strings.ReplaceAll(string(text), "\ufffd", `\ufffd`) // a file with the character itself is refused
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
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 || r == 0x85 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}
