package address

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a text of a path, a parameter or a body. Two parts of it have a meaning:
// a placeholder such as {account}, and square brackets around a part with a placeholder
// in it, which is left out where the placeholder has no value. All other braces and
// brackets stand for themselves, because queries in languages such as GraphQL are full
// of them. A bracket within a part in brackets is written in braces: {[} and {]}.
type template []piece

// piece is a literal text or one placeholder.
type piece struct {
	text  string
	name  string // of the placeholder; "": a literal
	as    string // how a placeholder that is a whole value of JSON is sent: "", asNumber or asNull
	group int    // of the part in brackets; 0: none
}

// What may stand after the name of a placeholder that is a whole value of JSON.
const (
	asNumber = ":number"
	asNull   = ":null"
)

var (
	groups        = regexp.MustCompile(`\[(\{[\[\]]\}|[^\[\]])*\{[a-z_]+(:[a-z]+)?\}(\{[\[\]]\}|[^\[\]])*\]`)
	placeholders  = regexp.MustCompile(`\{([a-z_]+)(:[a-z]+)?\}`)
	groupBrackets = strings.NewReplacer("{[}", "[", "{]}", "]")
)

// parse compiles a text. known are the placeholders that have a meaning here. Every
// other name in braces is an error, and so is a type where the text is more than the
// placeholder or is not in a body of JSON: it would be sent as it stands.
func parse(s string, known []string, types bool) (template, error) {
	var t template
	literal := func(s string, group int) {
		if group > 0 {
			s = groupBrackets.Replace(s)
		}
		if s != "" {
			t = append(t, piece{text: s, group: group})
		}
	}
	part := func(s string, group int) error {
		from := 0
		for _, at := range placeholders.FindAllStringSubmatchIndex(s, -1) {
			literal(s[from:at[0]], group)
			p := piece{name: s[at[2]:at[3]], group: group}
			if at[4] >= 0 {
				p.as = s[at[4]:at[5]]
			}
			typed := p.as == "" || types && len(s) == at[1] && (p.as == asNumber || p.as == asNull)
			if !slices.Contains(known, p.name) || !typed || p.as != "" && at[0] > 0 {
				return fmt.Errorf("unknown placeholder %s; known here: {%s}; a name in braces that is to be sent needs a blank, as in { name }",
					s[at[0]:at[1]], strings.Join(known, "}, {"))
			}
			t = append(t, p)
			from = at[1]
		}
		literal(s[from:], group)
		return nil
	}
	if err := unclosed(s, known); err != nil {
		return nil, err
	}
	from := 0
	for i, at := range groups.FindAllStringIndex(s, -1) {
		if err := part(s[from:at[0]], 0); err != nil {
			return nil, err
		}
		if err := part(s[at[0]+1:at[1]-1], i+1); err != nil {
			return nil, err
		}
		from = at[1]
	}
	return t, part(s[from:], 0)
}

// unclosed finds a placeholder, and a part in brackets, without its end.
func unclosed(s string, known []string) error {
	for _, name := range known {
		if _, rest, ok := strings.Cut(s, "{"+name); ok && !strings.Contains(rest, "}") {
			return fmt.Errorf("the brace of {%s is not closed", name)
		}
	}
	bare := strings.NewReplacer("{[}", "", "{]}", "").Replace(s)
	if n := strings.LastIndexByte(bare, '['); n >= 0 && !strings.Contains(bare[n:], "]") && placeholders.MatchString(bare[n:]) {
		return fmt.Errorf("the bracket of %.20q is not closed", bare[n:])
	}
	return nil
}

// has tells whether the placeholder occurs. inGroup: within brackets counts.
func (t template) has(name string, inGroup bool) bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.name == name && (inGroup || p.group == 0) })
}

// losesWith names the optional placeholder without which a piece is left out; empty: there
// is none.
func (t template) losesWith(p piece) string {
	for _, other := range t {
		if optional(other.name) && (other.group == 0 || other.group == p.group) {
			return other.name
		}
	}
	return ""
}

// alone tells whether the whole text is one placeholder.
func (t template) alone() bool { return len(t) == 1 && t[0].name != "" }

// plain tells whether the text has no placeholder.
func (t template) plain() bool {
	return !slices.ContainsFunc(t, func(p piece) bool { return p.name != "" })
}

// render fills the template in. ok is false where a placeholder outside of brackets is
// empty: then the whole has no meaning.
func (t template) render(values Values, escape func(string) string) (s string, ok bool) {
	var b strings.Builder
	for _, p := range t {
		switch {
		case p.group > 0 && t.dropped(p.group, values):
		case p.name == "":
			b.WriteString(p.text)
		case values.first(p.name) == "":
			return "", false
		default:
			b.WriteString(escape(values.first(p.name)))
		}
	}
	return b.String(), b.Len() > 0
}

// dropped tells whether a part in brackets is left out.
func (t template) dropped(group int, values Values) bool {
	return slices.ContainsFunc(t, func(p piece) bool {
		return p.group == group && p.name != "" && values.first(p.name) == ""
	})
}
