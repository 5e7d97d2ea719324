// Package address writes the requests to the legacy system.
//
// A [Spec] is what the configuration says, with placeholders such as {account} in it. It
// is compiled once into a [Template], which tells what is wrong with it and whether a request
// can carry a filter or a cursor at all. [Template.Request] fills the values in. Each value
// is escaped for the place where it stands, so that none can become a part of the address
// or of the body's structure. Where that is not enough, as in a query language, the value is
// refused, unless the placeholder says how a quote is written there.
package address

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"inquiry-gateway/internal/setting"
)

// The placeholders that have a meaning of their own.
const (
	Account = "account"
	Status  = "status"
	Type    = "inquiry_type"
	ID      = "id"     // of an inquiry, for its responses
	IDs     = "ids"    // of a batch of inquiries
	Secret  = "secret" // the gateway's own, in query and body of every request

	// Of one page of a list.
	Page   = "page"   // its number
	Offset = "offset" // the records before it
	Cursor = "cursor" // what the page before said; nothing for the first page
	Size   = "size"   // how many records are wanted

	cursorJSON = "cursor as JSON" // the cursor as it came; not for configurations
)

// Values are what stands for the placeholders, by name. No value, or an empty
// one, is an absent one. [Template.Join] says how several are sent.
type Values map[string][]string

// first gives the value of a placeholder, or the first of several.
func (v Values) first(name string) string {
	if list := v[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// SetCursor sets the cursor, as text and as the JSON value that it came as; empty: it
// is a text.
func (v Values) SetCursor(text, asJSON string) {
	if asJSON == "" {
		asJSON = quote(text)
	}
	v[Cursor], v[cursorJSON] = []string{text}, []string{asJSON}
}

// Sending is what a request has beside its address.
type Sending struct {
	// Method is GET (default), or POST for a search that changes nothing: it is retried like a GET. A login is a POST.
	Method string `yaml:"method" enum:",GET,POST"`
	// Body is the body of a POST: a mapping or list for json, a mapping of parameters for form, one text for xml. Its texts
	// may have the placeholders of query, {secret} for the content of auth.secret_file, and in a login {username} and
	// {password}.
	Body any `yaml:"body"`
	// BodyType is json (default), form or xml.
	BodyType string `yaml:"body_type" enum:",json,form,xml"`
	// BodyCharset is the charset of a form or XML, such as euc-kr; default utf-8.
	BodyCharset string `yaml:"body_charset"`
	// Headers are sent with these requests, besides upstream.headers. They must not hold secrets.
	Headers map[string]string `yaml:"headers"`
}

// Spec is a request as it is configured, with the placeholders that have a
// meaning in its path, and in its query and body.
type Spec struct {
	Path            string
	Query           map[string]string
	InPath, InQuery []string
	Sending
}

// Head is what all requests of a template have in common.
type Head struct {
	Method  string
	Headers map[string]string // the media type of a body included
}

// Request is one request. It is comparable.
type Request struct {
	URL  string
	Body string
	*Head
}

// Template makes requests out of the values. It is read-only and safe for concurrent
// use.
type Template struct {
	base    string // without a slash at the end
	path    *text
	query   []param             // by name; those of pages behind them
	body    func(Values) string // nil: none
	texts   []*text             // all that have placeholders
	trusted []string            // placeholders whose values are the operator's own words
	head    Head
}

// param is one parameter of the query or of a form.
type param struct {
	name string // escaped
	*text
}

// Compile makes the template of requests below base. It adds what is wrong to problems,
// under the field's name, and gives a template in any case. Parameters are sent in the
// order of their names, so that equal lists are asked for with equal addresses.
func (s Spec) Compile(base, field string, problems *setting.Problems) Template {
	c := &specCompiler{Problems: problems, known: s.InPath, made: Template{base: strings.TrimRight(base, "/")}}
	c.AddIf(!strings.HasPrefix(s.Path, "/"), field+".path", "the path must start with a slash; it is put after base_url")
	c.AddIf(strings.ContainsAny(s.Path, "?#"), field+".path", "the path holds a query; put its parameters under query")
	c.made.path = c.text(s.Path, text{key: field + ".path", name: "the path", in: inPath})
	c.known = append(slices.Clip(s.InQuery), Secret)
	c.made.Trust(Secret)
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		key := field + ".query." + name
		c.AddIf(name == "", field+".query", "a parameter without a name")
		c.AddIf(strings.ContainsAny(name, "{}"), key, "a parameter's name cannot hold a placeholder")
		c.made.query = append(c.made.query, param{escapeQuery(name), c.text(s.Query[name], text{key: key, name: fmt.Sprintf("parameter %q", name), in: inParam})})
	}
	c.made.head = Head{cmp.Or(s.Method, http.MethodGet), map[string]string{}}
	CheckHeaders(field+".headers", s.Headers, problems)
	for name, value := range s.Headers {
		c.made.head.Headers[http.CanonicalHeaderKey(name)] = value
	}
	if s.Body == nil {
		c.AddIf(s.BodyType != "", field+".body_type", "there is no body; add one, or remove the key")
		c.AddIf(s.BodyCharset != "", field+".body_charset", "there is no body; add one, or remove the key")
	} else {
		c.AddIf(c.made.head.Method != http.MethodPost, field+".body", "a GET has no body; add method: POST, or put the parameters under query")
		c.compileBody(s.Sending, c.made.head.Headers, field)
	}
	c.lost()
	return c.made
}

// CheckHeaders adds what is wrong with the headers of requests to problems, under the field's name.
func CheckHeaders(field string, headers map[string]string, problems *setting.Problems) {
	for name, value := range headers {
		key := field + "." + name
		problems.AddIf(!ValidHeader(name, value), key, "not a valid HTTP header")
		problems.AddIf(placeholders.MatchString(value), key, "placeholders have a meaning in path, query and body only; a header is the same for every request")
	}
}

// ValidHeader reports whether a header can be sent (RFC 9110, 5.1 and 5.5). net/http would refuse another one, but
// only with the first request.
func ValidHeader(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// specCompiler compiles the texts of one request.
type specCompiler struct {
	*setting.Problems
	known []string
	made  Template
}

// text compiles one text, which stands as t says.
func (c *specCompiler) text(s string, t text) *text {
	if err := t.parse(s, c.known); err != nil {
		c.Add(t.key, "%v", err)
		return &text{}
	}
	for _, p := range t.pieces {
		if t.encode == nil {
			break
		}
		if _, err := t.encode(p.text); err != nil {
			c.Add(t.key, "the text has characters that body_charset cannot hold")
			break
		}
	}
	if !t.plain() {
		c.made.texts = append(c.made.texts, &t)
	}
	return &t
}

// lost refuses a text that would be left out with an empty placeholder, and what binds the
// request with it: the account, or the id that responses are asked for by. The reply
// would be everybody's.
func (c *specCompiler) lost() {
	for _, t := range c.made.texts {
		for _, p := range t.pieces {
			if p.name == "" || p.name == Size || optional(p.name) {
				continue
			}
			with := t.losesWith(p)
			if only := p.group == 0 && t.in != inXML; with != "" && (only || !c.made.Binds(p.name)) { // XML has a message of its own
				c.Add(t.key, "without a value for {%s} this would be sent without {%s}; put the optional part alone in brackets, as in a:{%s}[ b:{%s}]", with, p.name, p.name, with)
				break
			}
		}
	}
}

// AddParam puts a parameter that is nothing but the placeholder behind the others.
func (m *Template) AddParam(name, placeholder string) {
	t := &text{pieces: []piece{{name: placeholder}}, name: fmt.Sprintf("parameter %q", name), in: inParam}
	m.query = append(m.query, param{escapeQuery(name), t})
	m.texts = append(m.texts, t)
}

// Trust says that the values of a placeholder are the operator's own words, which may
// hold anything that the place where they stand can hold.
func (m *Template) Trust(name string) { m.trusted = append(m.trusted, name) }

// Repeat is the join of several values each of which is a parameter or an element of its own.
const Repeat = "repeat"

// Join says how several values of a placeholder are sent: with join between them, or with [Repeat] each as a parameter or
// an element of its own. Without join they are repeated where the placeholder is an element of lists only. Elsewhere otherwise stands between
// them; if that is empty, a request has one value only, and several is false. The error says what cannot be.
func (m *Template) Join(name, join, otherwise string) (several bool, err error) {
	var single, within *text // what cannot be repeated, and what holds one text however many values there are
	texts := m.at(name)
	xml, lists := false, len(texts) > 0
	for _, t := range texts {
		xml, lists = xml || t.in == inXML, lists && t.element && t.bare()
		if !t.bare() && (t.in == inParam || t.in == inJSON) {
			within = t
		}
		if t == within || t.in == inPath || t.in == inJSON && !t.element || t.in == inXML && !t.repeatable(name) {
			single = t
		}
	}
	switch {
	case join == Repeat && single != nil:
		return true, fmt.Errorf("%s cannot be repeated for each value: it is more than {%s}, or in a body and no element of a list; "+
			"give a separator, or make the placeholder a parameter or list element of its own, or in XML the only one of a part in brackets", single.name, name)
	case join == Repeat:
		return true, nil
	case xml && strings.ContainsAny(join, "<&"):
		return true, fmt.Errorf("%q is escaped in XML, and the legacy system would find no record; put the element in brackets, as in [<v>{%s}</v>], and set %q to get one for each value", join, name, Repeat)
	case join == "" && lists:
		return true, nil
	case join == "" && otherwise != "" && within != nil:
		return true, fmt.Errorf(`missing: %s is more than {%s}, and several values make one text of it; say what stands between them, such as join: ",", or leave batch out: one request for each record, named by {id}`, within.name, name)
	}
	join = cmp.Or(join, otherwise)
	for _, t := range texts {
		for i := range t.pieces {
			if t.pieces[i].name == name {
				t.pieces[i].join = join
			}
		}
	}
	return join != "", nil
}

// at gives the texts that have a placeholder.
func (m *Template) at(name string) (all []*text) {
	for _, t := range m.texts {
		if t.has(name) {
			all = append(all, t)
		}
	}
	return all
}

// Has tells whether any part of the request depends on the placeholder.
func (m *Template) Has(name string) bool { return len(m.at(name)) > 0 }

// Binds tells whether every request has the value of a placeholder that always has one,
// whatever else is empty: with that of the account it says whose list is wanted.
func (m *Template) Binds(name string) bool {
	return slices.ContainsFunc(m.texts, func(t *text) bool {
		return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.name == name && t.losesWith(p) == "" })
	})
}

// TakesJSON tells whether the cursor may be any value of JSON, because it is sent as
// it came.
func (m *Template) TakesJSON() bool {
	return !slices.ContainsFunc(m.at(Cursor), func(t *text) bool { return t.in != inJSON || !t.bare() || t.pieces[0].as == asNumber })
}

// Unsendable is the error of a value that a request cannot have as one value.
type Unsendable struct {
	Placeholder string // its name
	why         string
}

// Error implements error. The text does not hold the value.
func (e *Unsendable) Error() string { return "the " + e.Placeholder + " " + e.why }

// Request gives a request. It refuses each value that would be read as something else
// than one value, with an [*Unsendable].
func (m *Template) Request(values Values) (Request, error) {
	if values.first(Account) == "" {
		return Request{}, &Unsendable{Account, "is empty"}
	}
	for _, t := range m.texts {
		for _, p := range t.pieces {
			if p.name == "" || slices.Contains(m.trusted, p.name) {
				continue
			}
			for _, value := range values[p.name] {
				if err := t.check(p, value); err != nil {
					return Request{}, err
				}
			}
		}
	}
	return m.Fill(values)
}

// Fill gives a request whose values are the operator's own, and are not checked as one
// value each. An error tells that a body cannot hold a value.
func (m *Template) Fill(values Values) (Request, error) {
	path, _ := m.path.render(values, url.PathEscape)
	address := append(append(make([]byte, 0, 256), m.base...), path...)
	r := Request{URL: string(appendParams(address, m.query, values, "?", escapeQuery)), Head: &m.head}
	if m.body == nil {
		return r, nil
	}
	for _, t := range m.texts {
		if err := t.hold(values); err != nil {
			return Request{}, err
		}
	}
	r.Body = m.body(values)
	return r, nil
}

// check refuses a value of a piece that would be read as something else.
func (t *text) check(p piece, value string) error {
	switch {
	case value == "":
	case t.in == inPath && strings.Trim(value, ".") == "":
		return &Unsendable{p.name, "is made of dots, which name another folder in a path"}
	case p.as == asEscapedQuotes && strings.HasSuffix(value, `\`):
		return &Unsendable{p.name, "ends in a backslash, which would escape the quote behind it"}
	case p.quote != "":
		if strings.ContainsFunc(value, unicode.IsControl) {
			return &Unsendable{p.name, "holds a control character, which no text in quotes can have"}
		}
	case p.join != "" && strings.Contains(value, p.join):
		return &Unsendable{p.name, "holds what stands between several of them"}
	case t.in == inPath || t.in == inXML || t.bare():
	default:
		for _, r := range value {
			if !inWord(r) && (p.name != Cursor || !strings.ContainsRune("=+/:,", r)) {
				return &Unsendable{p.name, "holds " + strconv.QuoteRune(r) + ", which may mean something in the query language of " + t.name +
					"; {" + p.name + ":doubled}, :escaped or :escapedquotes in quotes says how a quote is written there"}
			}
		}
	}
	return nil
}

// inWord is true for characters that are no syntax where a value is put into a longer
// text. To escape the others would need to know whose syntax it is. The cursor, which
// only the legacy makes, may also have those of base64 and of moments.
func inWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r)
}

// hold refuses what a body cannot hold as the value that it is.
func (t *text) hold(values Values) error {
	for _, p := range t.pieces {
		for _, value := range values[p.name] {
			switch {
			case p.as == asNumber && value != "" && !isNumber(value):
				return &Unsendable{p.name, "is to be sent as a number in " + t.name + ", and is none"}
			case !utf8.ValidString(value) || t.in == inXML && strings.ContainsFunc(value, notInXML):
				return &Unsendable{p.name, "holds characters that " + t.name + " cannot hold"}
			case t.encode != nil:
				if _, err := t.encode(value); err != nil {
					return &Unsendable{p.name, "holds characters that body_charset cannot hold"}
				}
			}
		}
		if p.name == Cursor && values.first(cursorJSON) != "" && !json.Valid([]byte(values.first(cursorJSON))) {
			return &Unsendable{Cursor, "is not JSON"}
		}
	}
	return nil
}

// appendParams writes parameters, the first after sep and the others after "&". One that
// is nothing but a placeholder is repeated for each of several values.
func appendParams(b []byte, params []param, values Values, sep string, escape func(string) string) []byte {
	add := func(name, value string) {
		b = append(append(b, sep...), name...)
		b = append(append(b, '='), escape(value)...)
		sep = "&"
	}
	for _, q := range params {
		if q.bare() && len(values[q.pieces[0].name]) > 1 {
			for _, value := range q.pieces[0].all(values) {
				add(q.name, value)
			}
		} else if value, ok := q.render(values, strings.Clone); ok {
			add(q.name, value)
		}
	}
	return b
}

// escapeQuery escapes a text for a query. A blank is %20 there: only forms have + for it
// everywhere (WHATWG URL, 5.2), and OData for one takes that literally.
func escapeQuery(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}
