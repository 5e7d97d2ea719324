// Package address writes the requests to the legacy system.
//
// A [Spec] is what the configuration says, with placeholders such as {account} in it. It
// is compiled once into a [Plan], which tells what is wrong with it and whether a request
// can carry a filter or a cursor at all. [Plan.Request] fills the values in. Each value
// is escaped for the place where it stands, so that none can become a part of the address
// or of the body's structure. Where escaping is not enough, as in a query language, the
// value is refused.
package address

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"inquiry-gateway/internal/setting"
)

// The placeholders that have a meaning of their own.
const (
	Account = "account"
	Status  = "status"
	Type    = "inquiry_type"
	ID      = "id"  // of an inquiry, for its responses
	IDs     = "ids" // of a batch of inquiries

	// Of one page of a list.
	Page   = "page"   // its number
	Offset = "offset" // the records before it
	Cursor = "cursor" // what the page before said; nothing for the first page
	Size   = "size"   // how many records are wanted

	cursorJSON = "cursor as JSON" // the cursor as it came; not for configurations
)

// Values are what stands for the placeholders, by name. No value, or an empty
// one, is an absent one. Only what is nothing but the placeholder, a parameter or an
// element of a list, can have several.
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
	// Method is GET (default) or POST, for a search that changes nothing: the gateway
	// repeats it under the same conditions as a GET. A login is a POST.
	Method string `yaml:"method" enum:",GET,POST"`
	// Body of a POST has the placeholders of query in its texts, a login {username} and {password}: a mapping or list
	// for json, a mapping of parameters for form, one text for xml.
	Body any `yaml:"body"`
	// BodyType is json (default), form or xml.
	BodyType string `yaml:"body_type" enum:",json,form,xml"`
	// BodyCharset is that of a form or XML, such as euc-kr; default utf-8.
	BodyCharset string `yaml:"body_charset"`
	// Headers are sent with these requests, besides upstream.headers. They hold no secrets.
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

// Head is what all requests of a plan have in common.
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

// Plan makes requests out of the values. It is read-only and safe for concurrent
// use.
type Plan struct {
	base    string // without a slash at the end
	path    template
	query   []param             // by name; those of pages behind them
	body    func(Values) string // nil: none
	places  []place             // all texts with placeholders
	trusted []string            // placeholders whose values are the operator's own words
	head    Head
}

// param is one parameter of the query or of a form.
type param struct {
	name string // escaped
	text template
}

// place is a text with placeholders, and where it stands.
type place struct {
	key     string // of the configuration
	name    string // for messages
	text    template
	in      where
	element bool                         // of a list in JSON
	encode  func(string) (string, error) // in the charset of a form or XML; nil: UTF-8
}

// where a text stands, which decides on how its values are escaped.
type where int

const (
	inPath where = iota
	inParam
	inJSON
	inXML
)

// Compile makes the plan of requests below base. It adds what is wrong to problems,
// under the field's name, and gives a plan in any case. Parameters are sent in the
// order of their names, so that equal lists are asked for with equal addresses.
func (s Spec) Compile(base, field string, problems *setting.Problems) Plan {
	c := &compiler{Problems: problems, known: s.InPath, plan: Plan{base: strings.TrimRight(base, "/")}}
	c.AddIf(!strings.HasPrefix(s.Path, "/"), field+".path", "the path must start with a slash; it is put after base_url")
	c.AddIf(strings.ContainsAny(s.Path, "?#"), field+".path", "the path holds a query; put its parameters under query")
	c.plan.path = c.text(s.Path, field+".path", place{name: "the path", in: inPath})
	c.known = s.InQuery
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		key := field + ".query." + name
		c.AddIf(name == "", field+".query", "a parameter without a name")
		c.AddIf(strings.ContainsAny(name, "{}"), key, "a parameter's name cannot hold a placeholder")
		c.plan.query = append(c.plan.query, param{escapeQuery(name), c.text(s.Query[name], key, place{name: fmt.Sprintf("parameter %q", name), in: inParam})})
	}
	c.plan.head = Head{cmp.Or(s.Method, http.MethodGet), map[string]string{}}
	for name, value := range s.Headers {
		key := field + ".headers." + name
		c.AddIf(!httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value), key, "not a valid HTTP header")
		c.AddIf(placeholders.MatchString(value), key,
			"placeholders have a meaning in path, query and body only; a header is the same for every request")
		c.plan.head.Headers[http.CanonicalHeaderKey(name)] = value
	}
	if s.Body == nil {
		c.AddIf(s.BodyType != "", field+".body_type", "there is no body; add one, or remove the key")
		c.AddIf(s.BodyCharset != "", field+".body_charset", "there is no body; add one, or remove the key")
	} else {
		c.AddIf(c.plan.head.Method != http.MethodPost, field+".body", "a GET has no body; add method: POST, or put the parameters under query")
		c.compileBody(s.Sending, c.plan.head.Headers, field)
	}
	c.lost()
	return c.plan
}

// compiler compiles the texts of one request. Those with placeholders become places.
type compiler struct {
	*setting.Problems
	known []string
	plan  Plan
}

// text compiles one text.
func (c *compiler) text(s, key string, at place) template {
	text, err := parse(s, c.known, at.in == inJSON)
	if err != nil {
		c.Add(key, "%v", err)
		return nil
	}
	for _, p := range text {
		if at.encode != nil {
			_, err = at.encode(p.text)
		}
		if err != nil {
			c.Add(key, "the text has characters that body_charset cannot hold")
			break
		}
	}
	if at.text = text; !text.plain() {
		at.key = key
		c.plan.places = append(c.plan.places, at)
	}
	return text
}

// lost refuses a text that would be left out with an empty placeholder, and what binds the
// request with it: the account, or the id that responses are asked for by. The reply
// would be everybody's.
func (c *compiler) lost() {
	for _, q := range c.plan.places {
		for _, p := range q.text {
			if p.name == "" || p.name == Size || optional(p.name) {
				continue
			}
			with := q.text.losesWith(p)
			if alone := p.group == 0 && q.in != inXML; with != "" && (alone || !c.plan.Binds(p.name)) { // XML has a message of its own
				c.Add(q.key, "without a value for {%s} this would be sent without {%s}; put the optional part alone in brackets, as in a:{%s}[ b:{%s}]", with, p.name, p.name, with)
				break
			}
		}
	}
}

// optional tells whether a request may have no value for the placeholder.
func optional(name string) bool { return name == Status || name == Type || name == Cursor }

// AddParam puts a parameter that is nothing but the placeholder behind the others.
func (p *Plan) AddParam(name, placeholder string) {
	text := template{{name: placeholder}}
	p.query = append(p.query, param{escapeQuery(name), text})
	p.places = append(p.places, place{name: fmt.Sprintf("parameter %q", name), text: text, in: inParam})
}

// Trust says that the values of a placeholder are the operator's own words, which may
// hold anything that the place where they stand can hold.
func (p *Plan) Trust(name string) { p.trusted = append(p.trusted, name) }

// at gives the places of a placeholder.
func (p *Plan) at(name string) (all []place) {
	for _, q := range p.places {
		if q.text.has(name, true) {
			all = append(all, q)
		}
	}
	return all
}

// Has tells whether any part of the request depends on the placeholder.
func (p *Plan) Has(name string) bool { return len(p.at(name)) > 0 }

// Binds tells whether every request has the value of a placeholder that always has one,
// whatever else is empty: with that of the account it says whose list is wanted.
func (p *Plan) Binds(name string) bool {
	return slices.ContainsFunc(p.places, func(q place) bool {
		return slices.ContainsFunc(q.text, func(one piece) bool { return one.name == name && q.text.losesWith(one) == "" })
	})
}

// InPath tells whether the path holds the placeholder.
func (p *Plan) InPath(name string) bool { return p.path.has(name, true) }

// OneValue names the places of the placeholder that cannot be repeated for each of
// several values; the path, of which [Plan.InPath] tells, is not among them.
func (p *Plan) OneValue(name string) (places []string) {
	for _, q := range p.at(name) {
		if q.in != inPath && (!q.text.alone() || q.in == inXML || q.in == inJSON && !q.element) {
			places = append(places, q.name)
		}
	}
	return places
}

// Within names the parameters and texts of JSON that are more than the placeholder: they hold
// one text, however many values there are.
func (p *Plan) Within(name string) (places []string) {
	for _, q := range p.at(name) {
		if (q.in == inParam || q.in == inJSON) && !q.text.alone() {
			places = append(places, q.name)
		}
	}
	return places
}

// InLists tells whether the placeholder occurs as an element of lists only, each of
// which can have an element for each of several values.
func (p *Plan) InLists(name string) bool {
	return p.Has(name) && !slices.ContainsFunc(p.at(name), func(q place) bool { return !q.element || !q.text.alone() })
}

// TakesJSON tells whether the cursor may be any value of JSON, because it is sent as
// it came.
func (p *Plan) TakesJSON() bool {
	return !slices.ContainsFunc(p.at(Cursor), func(q place) bool { return q.in != inJSON || !q.text.alone() || q.text[0].as == asNumber })
}

// Unsendable is the error of a value that a request cannot have as one value.
type Unsendable struct {
	Placeholder string // its name
	why         string
}

// Error implements error. The text does not hold the value.
func (e *Unsendable) Error() string { return "the " + e.Placeholder + " " + e.why }

// Request gives a request. It refuses each value that would be read as something else
// than one value, with an [*Unsendable]. Check the ids of a batch before they are joined.
func (p *Plan) Request(values Values) (Request, error) {
	if values.first(Account) == "" {
		return Request{}, &Unsendable{Account, "is empty"}
	}
	for _, q := range p.places {
		for _, piece := range q.text {
			if piece.name == IDs || piece.name == "" || slices.Contains(p.trusted, piece.name) {
				continue
			}
			for _, value := range values[piece.name] {
				if err := q.check(piece.name, value); err != nil {
					return Request{}, err
				}
			}
		}
	}
	return p.Fill(values)
}

// Fill gives a request whose values are the operator's own, and are not checked as one
// value each. An error tells that a body cannot hold a value.
func (p *Plan) Fill(values Values) (Request, error) {
	path, _ := p.path.render(values, url.PathEscape)
	address := append(append(make([]byte, 0, 256), p.base...), path...)
	r := Request{URL: string(appendParams(address, p.query, values, "?", escapeQuery)), Head: &p.head}
	if p.body == nil {
		return r, nil
	}
	for _, q := range p.places {
		if err := q.hold(values); err != nil {
			return Request{}, err
		}
	}
	r.Body = p.body(values)
	return r, nil
}

// Check refuses one value of a placeholder which escaping cannot make harmless.
func (p *Plan) Check(name, value string) error {
	for _, q := range p.at(name) {
		if err := q.check(name, value); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a value that would be read as something else in this place.
func (q place) check(name, value string) error {
	switch {
	case value == "":
	case q.in == inPath && strings.Trim(value, ".") == "":
		return &Unsendable{name, "is made of dots, which name another folder in a path"}
	case q.in == inPath || q.in == inXML || q.text.alone():
	case strings.ContainsFunc(value, func(r rune) bool { return !inWord(r) && (name != Cursor || !strings.ContainsRune("=+/:,", r)) }):
		return &Unsendable{name, "holds a character that may mean something in the query language of " + q.name}
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
func (q place) hold(values Values) error {
	for _, piece := range q.text {
		for _, value := range values[piece.name] {
			switch {
			case piece.as == asNumber && value != "" && !isNumber(value):
				return &Unsendable{piece.name, "is to be sent as a number, and is none"}
			case !utf8.ValidString(value) || q.in == inXML && strings.ContainsFunc(value, notInXML):
				return &Unsendable{piece.name, "holds characters that " + q.name + " cannot hold"}
			case q.encode != nil:
				if _, err := q.encode(value); err != nil {
					return &Unsendable{piece.name, "holds characters that body_charset cannot hold"}
				}
			}
		}
		if piece.name == Cursor && values.first(cursorJSON) != "" && !json.Valid([]byte(values.first(cursorJSON))) {
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
		if q.text.alone() && len(values[q.text[0].name]) > 1 {
			for _, value := range values[q.text[0].name] {
				add(q.name, value)
			}
		} else if value, ok := q.text.render(values, strings.Clone); ok {
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
