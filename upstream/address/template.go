package address

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// text is a text of a request with what it has of placeholders, and where it stands. Two parts
// of it have a meaning: a placeholder such as {account}, and square brackets around a part with
// a placeholder in it, which is left out where the placeholder has no value. All other braces
// and brackets stand for themselves, because queries in languages such as GraphQL are full of
// them. A bracket within a part in brackets is written in braces: {[} and {]}.
type text struct {
	pieces  []piece
	key     string // of the configuration
	name    string // for messages
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

// piece is a literal text or one placeholder.
type piece struct {
	name  string // of the placeholder; "": a literal
	text  string // of a literal; of a placeholder what stands for no value, empty: there is nothing
	as    string // what stands after the name
	quote string // the mark that stands around an asDoubled, asEscaped or asEscapedQuotes value
	join  string // what stands between several values; empty: nothing can
	group int    // of the part in brackets; 0: none
}

// What may stand after the name of a placeholder: how a whole value of JSON is sent, or how a
// quote is written in a text of a query language.
const (
	asNumber  = ":number"
	asNull    = ":null"
	asDoubled = ":doubled"
	asEscaped = ":escaped"
	// asEscapedQuotes leaves backslashes as they are, as in the filters of PocketBase.
	asEscapedQuotes = ":escapedquotes"
)

const placeholder = `\{([a-z_]+)(:[a-z]+)?(\|[^{}\[\]]*)?\}`

var (
	groups        = regexp.MustCompile(`\[(\{[\[\]]\}|[^\[\]])*` + placeholder + `(\{[\[\]]\}|[^\[\]])*\]`)
	placeholders  = regexp.MustCompile(placeholder)
	groupBrackets = strings.NewReplacer("{[}", "[", "{]}", "]")
)

// parse reads a text. known are the placeholders that have a meaning here. Every other name in
// braces is an error, and so is a type that the placeholder cannot have there: it would be sent
// as it stands.
func (t *text) parse(s string, known []string) error {
	if err := unclosed(s, known); err != nil {
		return err
	}
	from := 0
	for i, at := range groups.FindAllStringIndex(s, -1) {
		if err := t.part(s[from:at[0]], known, 0); err != nil {
			return err
		}
		if err := t.part(s[at[0]+1:at[1]-1], known, i+1); err != nil {
			return err
		}
		from = at[1]
	}
	return t.part(s[from:], known, 0)
}

// part reads a part in brackets, or between them.
func (t *text) part(s string, known []string, group int) error {
	literal := func(s string) {
		if group > 0 {
			s = groupBrackets.Replace(s)
		}
		if s != "" {
			t.pieces = append(t.pieces, piece{text: s, group: group})
		}
	}
	from := 0
	for _, at := range placeholders.FindAllStringSubmatchIndex(s, -1) {
		literal(s[from:at[0]])
		p, whole := piece{name: s[at[2]:at[3]], group: group}, s[at[0]:at[1]]
		if at[4] >= 0 {
			p.as = s[at[4]:at[5]]
		}
		typed := p.as == "" || t.in == inJSON && whole == s && (p.as == asNumber || p.as == asNull)
		if p.as == asDoubled || p.as == asEscaped || p.as == asEscapedQuotes {
			if typed = at[0] > 0 && at[1] < len(s) && s[at[0]-1] == s[at[1]] && strings.IndexByte(`'"`, s[at[1]]) >= 0; !typed {
				return fmt.Errorf("%s is for a text in quotes, which must stand right before and after it, as in '%[1]s'", whole)
			}
			p.quote = s[at[1] : at[1]+1]
		}
		if !slices.Contains(known, p.name) || !typed {
			return fmt.Errorf("unknown placeholder %s; known here: {%s}; a name in braces that is to be sent needs a blank, as in { name }",
				whole, strings.Join(known, "}, {"))
		}
		if at[6] >= 0 {
			p.text = s[at[6]+1 : at[7]]
			switch {
			case !optional(p.name):
				return fmt.Errorf("%s always has a value; what stands after | is for a filter or a cursor", whole)
			case p.text == "" || p.as == asNull || p.as == asNumber && !isNumber(p.text):
				return fmt.Errorf("what stands after | in %s cannot be sent in the place of a value", whole)
			}
		}
		t.pieces = append(t.pieces, p)
		from = at[1]
	}
	literal(s[from:])
	return nil
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

// optional tells whether a request may have no value for the placeholder.
func optional(name string) bool { return name == Status || name == Type || name == Cursor }

// has tells whether the placeholder occurs.
func (t *text) has(name string) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.name == name })
}

// losesWith names the optional placeholder without which a piece is left out; empty: there
// is none.
func (t *text) losesWith(p piece) string {
	for _, other := range t.pieces {
		if optional(other.name) && other.text == "" && (other.group == 0 || other.group == p.group) {
			return other.name
		}
	}
	return ""
}

// bare tells whether the whole text is one placeholder.
func (t *text) bare() bool { return len(t.pieces) == 1 && t.pieces[0].name != "" }

// plain tells whether the text has no placeholder.
func (t *text) plain() bool {
	return !slices.ContainsFunc(t.pieces, func(p piece) bool { return p.name != "" })
}

// repeatable tells whether the placeholder stands in parts in brackets only, with no other one than
// the account's: such a part of XML is written again for each of several values.
func (t *text) repeatable(name string) bool {
	return !slices.ContainsFunc(t.pieces, func(p piece) bool {
		return p.name == name && (p.group == 0 || slices.ContainsFunc(t.pieces, func(other piece) bool {
			return other.group == p.group && other.name != "" && other.name != name && other.name != Account
		}))
	})
}

// render fills the text in. ok is false where a placeholder outside of brackets is
// empty: then the whole has no meaning.
func (t *text) render(values Values, escape func(string) string) (s string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(t.pieces); {
		end, group := i+1, t.pieces[i].group
		for group > 0 && end < len(t.pieces) && t.pieces[end].group == group {
			end++
		}
		part := t.pieces[i:end]
		if i = end; group > 0 && t.dropped(group, values) {
			continue
		}
		for n := range t.times(part, values) {
			for _, p := range part {
				if p.name == "" {
					b.WriteString(p.text)
					continue
				}
				list := p.all(values)
				if len(list) == 0 || list[0] == "" {
					return "", false
				}
				b.WriteString(escape(list[min(n, len(list)-1)]))
			}
		}
	}
	return b.String(), b.Len() > 0
}

// times is how often a part is written: in XML once for each of several values if it is in brackets, else once.
func (t *text) times(part []piece, values Values) int {
	n := 1
	for _, p := range part {
		if t.in == inXML && p.group > 0 && p.name != "" {
			n = max(n, len(p.all(values)))
		}
	}
	return n
}

// dropped tells whether a part in brackets is left out.
func (t *text) dropped(group int, values Values) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool {
		return p.group == group && p.name != "" && p.value(values) == ""
	})
}

// value is the one text that is sent for a placeholder; empty: there is none.
func (p piece) value(values Values) string {
	if list := p.all(values); len(list) > 0 {
		return list[0]
	}
	return ""
}

// all are the texts that are sent for a placeholder: several where each is to be one of its own.
func (p piece) all(values Values) []string {
	list := values[p.name]
	if values.first(p.name) == "" && p.text != "" {
		return []string{p.text}
	}
	if p.quote != "" {
		list = slices.Clone(list)
		for i, value := range list {
			switch p.as {
			case asDoubled:
				list[i] = strings.ReplaceAll(value, p.quote, p.quote+p.quote)
			case asEscapedQuotes:
				list[i] = strings.ReplaceAll(value, p.quote, `\`+p.quote)
			default:
				list[i] = strings.NewReplacer(`\`, `\\`, p.quote, `\`+p.quote).Replace(value)
			}
		}
	}
	if p.join != "" && len(list) > 1 {
		return []string{strings.Join(list, p.join)}
	}
	return list
}
