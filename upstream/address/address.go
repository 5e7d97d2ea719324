// Package address writes the URLs of requests to the legacy system.
package address

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
)

// The placeholders.
const (
	Account = "account"
	Status  = "status"
	Type    = "inquiry_type"
	ID      = "id"  // of an inquiry, for its responses
	IDs     = "ids" // of a batch of inquiries
)

// Values are what stands for the placeholders, by name. No value, or an empty
// one, is an absent one. Only a parameter that is nothing but the placeholder can
// have several.
type Values map[string][]string

// first gives the value of a placeholder, or the first of several.
func (v Values) first(name string) string {
	if list := v[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// Spec is a request as it is configured, with the placeholders that have a
// meaning in each of its parts.
type Spec struct {
	Path            string
	Query           map[string]string
	InPath, InQuery []string
}

// Plan makes the address of one request out of the values. It is read-only and
// safe for concurrent use.
type Plan struct {
	base  string // without a slash at the end
	path  template
	query []param // by name
}

// param is one parameter of the query.
type param struct {
	name string
	text template
}

// Compile makes the plan of requests below base. It adds what is wrong to
// problems, under the field's name, and gives a plan in any case.
func (s Spec) Compile(base, field string, problems *invalid.Problems) Plan {
	plan := Plan{base: strings.TrimRight(base, "/")}
	problems.AddIf(!strings.HasPrefix(s.Path, "/"), field+".path", "the path must start with a slash; it is put after base_url")
	problems.AddIf(strings.ContainsAny(s.Path, "?#"), field+".path", "the path holds a query; put its parameters under query")
	var err error
	if plan.path, err = parseTemplate(s.Path, s.InPath); err != nil {
		problems.Add(field+".path", "%v", err)
	}
	for name, value := range s.Query {
		text, err := parseTemplate(value, s.InQuery)
		switch {
		case name == "":
			problems.Add(field+".query", "a parameter without a name")
		case strings.ContainsAny(name, "{}"):
			problems.Add(field+".query."+name, "a parameter's name cannot hold a placeholder")
		case err != nil:
			problems.Add(field+".query."+name, "%v", err)
		case text.has(Account, false) && (text.has(Status, false) || text.has(Type, false)):
			problems.Add(field+".query."+name, "without a filter the whole parameter would go, the account with it; "+
				"put the optional part in brackets, as in owner:{account}[ state:{status}]")
		}
		plan.query = append(plan.query, param{name, text})
	}
	slices.SortFunc(plan.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	return plan
}

// Has tells whether any part of the request depends on the placeholder.
func (p *Plan) Has(name string) bool { return p.has(name, true) }

// BindsAccount tells whether every request says whose list is wanted.
func (p *Plan) BindsAccount() bool { return p.has(Account, false) }

func (p *Plan) has(name string, inGroup bool) bool {
	return p.path.has(name, inGroup) || slices.ContainsFunc(p.query, func(q param) bool { return q.text.has(name, inGroup) })
}

// InPath tells whether the path holds the placeholder.
func (p *Plan) InPath(name string) bool { return p.path.has(name, true) }

// Mixed names the parameters that hold the placeholder and more than that, which
// cannot be repeated for each of several values.
func (p *Plan) Mixed(name string) (parameters []string) {
	for _, q := range p.query {
		if q.text.has(name, true) && !q.text.alone() {
			parameters = append(parameters, q.name)
		}
	}
	return parameters
}

// URL gives the address. It refuses an account or id that would be read as
// something else than one value. Check the ids of a batch before they are joined.
func (p *Plan) URL(values Values) (string, error) {
	if values.first(Account) == "" {
		return "", errors.New("the account is empty")
	}
	for _, name := range []string{Account, ID} {
		if err := p.Check(name, values.first(name)); err != nil {
			return "", err
		}
	}
	path, _ := p.path.render(values, url.PathEscape)
	var b strings.Builder
	b.WriteString(p.base)
	b.WriteString(path)
	sep := byte('?')
	for _, q := range p.query {
		for _, value := range q.values(values) {
			b.WriteByte(sep)
			b.WriteString(url.QueryEscape(q.name))
			b.WriteByte('=')
			b.WriteString(url.QueryEscape(value))
			sep = '&'
		}
	}
	return b.String(), nil
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
	for _, parameter := range p.Mixed(name) {
		if strings.ContainsFunc(value, notInWord) {
			return fmt.Errorf("the %s holds a character that may mean something in the query language of parameter %q", name, parameter)
		}
	}
	return nil
}

// notInWord is true for characters that may be syntax where an account is put
// into a longer text. Escaping would need to know whose syntax.
func notInWord(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r))
}
