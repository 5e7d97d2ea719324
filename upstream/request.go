package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// requestPlan makes the URL of one request out of the account and the filters.
type requestPlan struct {
	base  string // without a slash at the end
	path  template
	query []param
}

// param is one parameter of the query.
type param struct {
	name string
	text template
}

// requestSpec is a request as it is configured, with the placeholders that are
// known in each of its parts.
type requestSpec struct {
	path            string
	query           map[string]string
	inPath, inQuery []string
}

// compile reports what is wrong under the field's name. It gives a plan in any
// case.
func (r requestSpec) compile(field string, p *problems) requestPlan {
	var plan requestPlan
	if !strings.HasPrefix(r.path, "/") {
		p.add(field+".path", "the path must start with a slash; it is put after base_url")
	}
	if strings.ContainsAny(r.path, "?#") {
		p.add(field+".path", "the path holds a query; put its parameters under query")
	}
	var err error
	if plan.path, err = parseTemplate(r.path, r.inPath...); err != nil {
		p.add(field+".path", "%v", err)
	}
	for name, value := range r.query {
		text, err := parseTemplate(value, r.inQuery...)
		switch {
		case name == "":
			p.add(field+".query", "a parameter without a name")
		case strings.ContainsAny(name, "{}"):
			p.add(field+".query."+name, "a parameter's name cannot hold a placeholder")
		case err != nil:
			p.add(field+".query."+name, "%v", err)
		case text.has(varAccount, false) && (text.has(varStatus, false) || text.has(varType, false)):
			p.add(field+".query."+name, "without a filter the whole parameter would go, the account with it; put the optional part in brackets, as in owner:{account}[ state:{status}]")
		}
		plan.query = append(plan.query, param{name, text})
	}
	slices.SortFunc(plan.query, func(a, b param) int { return strings.Compare(a.name, b.name) })
	return plan
}

// has tells whether any part of the request depends on the placeholder.
func (r *requestPlan) has(name string) bool {
	return r.path.has(name, true) ||
		slices.ContainsFunc(r.query, func(q param) bool { return q.text.has(name, true) })
}

// bindsAccount tells whether every request says whose list is wanted.
func (r *requestPlan) bindsAccount() bool {
	return r.path.has(varAccount, false) ||
		slices.ContainsFunc(r.query, func(q param) bool { return q.text.has(varAccount, false) })
}

// url gives the address. It refuses an account or id that would be read as
// something else than one value.
func (r *requestPlan) url(values vars) (string, error) {
	if values.first(varAccount) == "" {
		return "", errors.New("the account is empty")
	}
	for _, name := range []string{varAccount, varID} {
		if err := r.checkValue(name, values.first(name)); err != nil {
			return "", err
		}
	}
	path, _ := r.path.render(values, url.PathEscape)
	var b strings.Builder
	b.WriteString(r.base)
	b.WriteString(path)
	sep := byte('?')
	for _, q := range r.query {
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
func (q param) values(values vars) []string {
	if q.text.alone() && len(values[q.text[0].name]) > 1 {
		return values[q.text[0].name]
	}
	if value, ok := q.text.render(values, func(s string) string { return s }); ok {
		return []string{value}
	}
	return nil
}

// checkValue refuses what escaping cannot make harmless.
func (r *requestPlan) checkValue(name, value string) error {
	if value != "" && r.path.has(name, true) && strings.Trim(value, ".") == "" {
		return fmt.Errorf("the %s is made of dots, which name another folder in a path", name)
	}
	for _, q := range r.query {
		if q.text.has(name, true) && !q.text.alone() && strings.ContainsFunc(value, notInWord) {
			return fmt.Errorf("the %s holds a character that may mean something in the query language of parameter %q", name, q.name)
		}
	}
	return nil
}

// notInWord is true for characters that may be syntax where an account is put
// into a longer text. Escaping would need to know whose syntax.
func notInWord(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r))
}
