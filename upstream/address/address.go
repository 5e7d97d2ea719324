// Package address writes the requests to the legacy system.
//
// A [Spec] is what the configuration says, with placeholders such as {account} in it. It is
// compiled once into a [Plan], which tells what is wrong with it and whether a request can
// carry a filter or a cursor at all. [Plan.Request] fills the values in. Each value is
// escaped for the place where it stands, so that no account and no id can become a part of
// the address or of the body's structure. Where escaping is not enough, as in a query
// language, the value is refused.
package address

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"inquiry-gateway/internal/invalid"
)

// The placeholders.
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
	// repeats it under the same conditions as a GET.
	Method string `yaml:"method" enum:",GET,POST"`
	// Body of a POST, with the placeholders of query in its texts: a mapping or list
	// for json, a mapping of parameters for form, one text for xml.
	Body     any               `yaml:"body"`
	BodyType string            `yaml:"body_type" enum:",json,form,xml"` // json (default), form or xml
	Headers  map[string]string `yaml:"headers"`                         // of these requests, besides upstream.headers; no secrets
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
	base   string // without a slash at the end
	path   template
	query  []param             // by name; those of pages behind them
	body   func(Values) string // nil: none
	places []place             // all texts with placeholders but the path
	head   Head
}

// param is one parameter of the query or of a form.
type param struct {
	name string
	text template
}

// place is a text with placeholders.
type place struct {
	name    string // for messages
	text    template
	element bool // of a list in JSON
	json    bool // in a body of JSON
	markup  bool // within XML
	number  bool // the value is sent as a number
}

// Compile makes the plan of requests below base. It adds what is wrong to problems,
// under the field's name, and gives a plan in any case. Parameters are sent in the
// order of their names, so that equal lists are asked for with equal addresses.
func (s Spec) Compile(base, field string, problems *invalid.Problems) Plan {
	plan := Plan{base: strings.TrimRight(base, "/")}
	problems.AddIf(!strings.HasPrefix(s.Path, "/"), field+".path", "the path must start with a slash; it is put after base_url")
	problems.AddIf(strings.ContainsAny(s.Path, "?#"), field+".path", "the path holds a query; put its parameters under query")
	var err error
	if plan.path, err = parseTemplate(s.Path, s.InPath); err != nil {
		problems.Add(field+".path", "%v", err)
	}
	for name, value := range s.Query {
		key := field + ".query." + name
		text, err := parseTemplate(value, s.InQuery)
		problems.AddIf(name == "", field+".query", "a parameter without a name")
		problems.AddIf(strings.ContainsAny(name, "{}"), key, "a parameter's name cannot hold a placeholder")
		if err != nil {
			problems.Add(key, "%v", err)
		}
		plan.add(param{name, text}, key, problems)
	}
	slices.SortFunc(plan.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	s.compileSending(&plan, field, problems)
	return plan
}

// add appends a parameter of the query. key is for messages.
func (p *Plan) add(q param, key string, problems *invalid.Problems) {
	at := place{name: fmt.Sprintf("parameter %q", q.name), text: q.text}
	at.check(key, problems)
	p.query, p.places = append(p.query, q), append(p.places, at)
}

// check refuses a text that would be left out with the account in it.
func (p place) check(key string, problems *invalid.Problems) {
	optional := p.text.has(Status, false) || p.text.has(Type, false)
	problems.AddIf(!p.markup && optional && p.text.has(Account, false), key, "without a filter the whole parameter would go, "+
		"the account with it; put the optional part in brackets, as in owner:{account}[ state:{status}]")
}

// AddParam puts a parameter that is nothing but the placeholder behind the others.
func (p *Plan) AddParam(name, placeholder string) {
	p.add(param{name, template{{name: placeholder}}}, "", &invalid.Problems{})
}

// compileSending compiles what a request has beside its address.
func (s Spec) compileSending(plan *Plan, field string, problems *invalid.Problems) {
	plan.head = Head{Method: cmp.Or(s.Method, http.MethodGet), Headers: map[string]string{}}
	for name, value := range s.Headers {
		key := field + ".headers." + name
		problems.AddIf(!httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value), key, "not a valid HTTP header")
		problems.AddIf(bodyPlaceholder.MatchString(value), key,
			"placeholders have a meaning in path, query and body only; a header is the same for every request")
		plan.head.Headers[http.CanonicalHeaderKey(name)] = value
	}
	if s.Body == nil {
		problems.AddIf(s.BodyType != "", field+".body_type", "there is no body; add one, or remove the key")
		return
	}
	bodyType := cmp.Or(s.BodyType, BodyJSON)
	problems.AddIf(plan.head.Method != http.MethodPost, field+".body", "a GET has no body; add method: POST, or put the parameters under query")
	if plan.head.Headers["Content-Type"] == "" {
		plan.head.Headers["Content-Type"] = map[string]string{
			BodyJSON: "application/json", BodyForm: "application/x-www-form-urlencoded", BodyXML: "text/xml; charset=utf-8",
		}[bodyType]
	}
	c := &bodyCompiler{Problems: problems, known: s.InQuery, plan: plan}
	plan.body = c.compile(bodyType, s.Body, field+".body")
}

// Has tells whether any part of the request depends on the placeholder.
func (p *Plan) Has(name string) bool { return p.has(name, true) }

// BindsAccount tells whether every request says whose list is wanted.
func (p *Plan) BindsAccount() bool { return p.has(Account, false) }

// has is Has; without inGroup only what is in every request counts.
func (p *Plan) has(name string, inGroup bool) bool {
	return p.path.has(name, inGroup) || slices.ContainsFunc(p.places, func(q place) bool { return q.text.has(name, inGroup) })
}

// InPath tells whether the path holds the placeholder.
func (p *Plan) InPath(name string) bool { return p.path.has(name, true) }

// which names the places of a placeholder for which is holds.
func (p *Plan) which(name string, is func(place) bool) (places []string) {
	for _, q := range p.places {
		if q.text.has(name, true) && is(q) {
			places = append(places, q.name)
		}
	}
	return places
}

// OneValue names the places of the placeholder that cannot be repeated for each of
// several values.
func (p *Plan) OneValue(name string) []string {
	return p.which(name, func(q place) bool { return !q.text.alone() || q.markup || q.json && !q.element })
}

// InLists tells whether the placeholder occurs as an element of lists only, each of
// which can have an element for each of several values.
func (p *Plan) InLists(name string) bool {
	return p.Has(name) && !p.path.has(name, true) && len(p.which(name, func(q place) bool { return !q.element || !q.text.alone() })) == 0
}

// TakesJSON tells whether the cursor may be any value of JSON, because it is sent as
// it came.
func (p *Plan) TakesJSON() bool {
	return len(p.which(Cursor, func(q place) bool { return !q.json || !q.text.alone() || q.number })) == 0
}

// Request gives a request. It refuses an account or id that would be read as
// something else than one value. Check the ids of a batch before they are joined.
func (p *Plan) Request(values Values) (Request, error) {
	if values.first(Account) == "" {
		return Request{}, errors.New("the account is empty")
	}
	for _, name := range []string{Account, ID} {
		if err := p.Check(name, values.first(name)); err != nil {
			return Request{}, err
		}
	}
	return p.Fill(values)
}

// Fill gives a request whose values are the operator's own, and are not checked as one
// value each. An error tells that a body cannot hold a value.
func (p *Plan) Fill(values Values) (Request, error) {
	path, _ := p.path.render(values, url.PathEscape)
	address := append(append(make([]byte, 0, 256), p.base...), path...)
	r := Request{URL: string(appendParams(address, p.query, values, "?")), Head: &p.head}
	if p.body != nil {
		if err := p.checkBody(values); err != nil {
			return Request{}, err
		}
		r.Body = p.body(values)
	}
	return r, nil
}

// checkBody refuses what a body cannot hold as the value that it is.
func (p *Plan) checkBody(values Values) error {
	if raw := values.first(cursorJSON); raw != "" && !json.Valid([]byte(raw)) {
		return errors.New("the cursor is not JSON")
	}
	for _, q := range p.places {
		for _, piece := range q.text {
			for _, value := range values[piece.name] {
				switch {
				case q.number && value != "" && !isNumber(value):
					return fmt.Errorf("the %s is to be sent as a number, and is none", piece.name)
				case !utf8.ValidString(value) || q.markup && strings.ContainsFunc(value, notInXML):
					return fmt.Errorf("the %s holds characters that %s cannot hold", piece.name, q.name)
				}
			}
		}
	}
	return nil
}

// isNumber tells whether a text, which is not empty, is a number of JSON and nothing
// else.
func isNumber(s string) bool {
	return strings.IndexByte("-0123456789", s[0]) >= 0 && json.Valid([]byte(s)) && strings.TrimSpace(s) == s
}

// notInXML is true for characters that XML has no way to write (XML 1.0, 2.2).
func notInXML(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF
}

// values gives what the parameter is sent with: nothing if it is left out.
func (q param) values(values Values) []string {
	if q.text.alone() && len(values[q.text[0].name]) > 1 {
		return values[q.text[0].name]
	}
	if value, ok := q.text.render(values, func(s string) string { return s }); ok {
		return []string{value}
	}
	return nil
}

// Check refuses one value of a placeholder which escaping cannot make harmless.
func (p *Plan) Check(name, value string) error {
	if value != "" && p.path.has(name, true) && strings.Trim(value, ".") == "" {
		return fmt.Errorf("the %s is made of dots, which name another folder in a path", name)
	}
	if strings.ContainsFunc(value, notInWord) {
		for _, place := range p.which(name, func(q place) bool { return !q.text.alone() && !q.markup }) {
			return fmt.Errorf("the %s holds a character that may mean something in the query language of %s", name, place)
		}
	}
	return nil
}

// notInWord is true for characters that may be syntax where an account is put
// into a longer text. Escaping would need to know whose syntax.
func notInWord(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r))
}
