package address

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a text with placeholders in braces. A part in square brackets is
// left out when a placeholder in it is empty. A doubled brace or bracket stands
// for itself, and so does a bracket in braces: within a part in brackets "]]" would
// end the part, and {]} does not.
type template []piece

// piece is a literal text or one placeholder.
type piece struct {
	text  string
	name  string // of the placeholder; "": a literal
	group int    // of the bracketed part; 0: none
}

// templateParser reads one template from left to right. It is used once.
type templateParser struct {
	known   []string // placeholders
	pieces  template
	literal strings.Builder
	group   int // the open one; 0: none
	groups  int // so far
}

// parseTemplate compiles a text. known are the placeholders that have a
// meaning here; every other one is an error, not a text.
func parseTemplate(s string, known []string) (template, error) {
	p := &templateParser{known: known}
	for i := 0; i < len(s); {
		n, err := p.step(s[i:])
		if err != nil {
			return nil, err
		}
		i += n
	}
	if p.group > 0 {
		return nil, errors.New("a bracket is not closed; write [[ for one that is to be sent, and {]} for a closing one within brackets")
	}
	p.flush()
	return p.pieces, nil
}

// step reads what s starts with and gives its length.
func (p *templateParser) step(s string) (int, error) {
	c := s[0]
	if strings.IndexByte("{}[]", c) < 0 {
		p.literal.WriteByte(c)
		return 1, nil
	}
	if len(s) > 1 && s[1] == c && !(c == ']' && p.group > 0) {
		p.literal.WriteByte(c)
		return 2, nil
	}
	p.flush()
	switch {
	case c == '{':
		return p.placeholder(s)
	case c == '}':
		return 0, errors.New("a brace is closed that was not opened; write }} for one that is to be sent")
	case c == '[' && p.group > 0:
		return 0, errors.New("a bracket within brackets; write [[ for a bracket that is to be sent, and {]} for the closing one")
	case c == ']' && p.group == 0:
		return 0, errors.New("a bracket is closed that was not opened; write ]] for one that is to be sent")
	case c == '[':
		p.groups++
		p.group = p.groups
	default:
		p.group = 0
	}
	return 1, nil
}

// placeholder reads a name in braces, or a bracket in braces, and gives its length.
func (p *templateParser) placeholder(s string) (int, error) {
	n := strings.IndexByte(s, '}')
	if n < 0 {
		return 0, fmt.Errorf("the brace of %q is not closed", s)
	}
	name := s[1:n]
	if name == "[" || name == "]" {
		p.literal.WriteString(name)
		return n + 1, nil
	}
	if !slices.Contains(p.known, name) {
		return 0, fmt.Errorf("unknown placeholder {%s}; known here: {%s}", name, strings.Join(p.known, "}, {"))
	}
	p.pieces = append(p.pieces, piece{name: name, group: p.group})
	return n + 1, nil
}

// flush ends the literal that was read so far.
func (p *templateParser) flush() {
	if p.literal.Len() > 0 {
		p.pieces = append(p.pieces, piece{text: p.literal.String(), group: p.group})
		p.literal.Reset()
	}
}

// has tells whether the placeholder occurs. inGroup: within brackets counts.
func (t template) has(name string, inGroup bool) bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.name == name && (inGroup || p.group == 0) })
}

// alone tells whether the whole text is one placeholder.
func (t template) alone() bool { return len(t) == 1 && t[0].name != "" }

// plain tells whether the text has no placeholder.
func (t template) plain() bool {
	return !slices.ContainsFunc(t, func(p piece) bool { return p.name != "" })
}

// render fills the template in. ok is false when a placeholder outside of
// brackets is empty: then the whole has no meaning.
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

// dropped tells whether a bracketed part is left out.
func (t template) dropped(group int, values Values) bool {
	return slices.ContainsFunc(t, func(p piece) bool {
		return p.group == group && p.name != "" && values.first(p.name) == ""
	})
}

// A text of a body has two parts with a meaning: placeholders, and brackets around
// some. Queries in languages such as GraphQL are full of other braces and brackets:
// these stand for themselves, and none is doubled. A bracket within a part in
// brackets is in braces: {[} and {]}.
var (
	bodyGroup       = regexp.MustCompile(`\[(\{[\[\]]\}|[^\[\]])*\{[a-z_]+(:[a-z]+)?\}(\{[\[\]]\}|[^\[\]])*\]`)
	bodyPlaceholder = regexp.MustCompile(`\{[a-z_]+(:[a-z]+)?\}`)
	groupBrackets   = strings.NewReplacer("{[}", "[", "{]}", "]")
)

// parseBodyText compiles a text of a body. known are the placeholders that have a
// meaning here.
func parseBodyText(s string, known []string) (template, error) {
	p, from := &templateParser{known: known}, 0
	for _, at := range bodyGroup.FindAllStringIndex(s, -1) {
		if err := p.bodyPieces(s[from:at[0]]); err != nil {
			return nil, err
		}
		p.groups++
		p.group = p.groups
		if err := p.bodyPieces(s[at[0]+1 : at[1]-1]); err != nil {
			return nil, err
		}
		p.group, from = 0, at[1]
	}
	err := p.bodyPieces(s[from:])
	return p.pieces, err
}

// bodyPieces takes literals and placeholders of one group, or of none.
func (p *templateParser) bodyPieces(s string) error {
	from := 0
	for _, at := range bodyPlaceholder.FindAllStringIndex(s, -1) {
		p.bodyLiteral(s[from:at[0]])
		if _, err := p.placeholder(s[at[0]:]); err != nil {
			return fmt.Errorf("%w; a name in braces that is to be sent needs a blank, as in { name }", err)
		}
		from = at[1]
	}
	p.bodyLiteral(s[from:])
	return nil
}

// bodyLiteral takes a text without placeholders. In a group its brackets are in braces.
func (p *templateParser) bodyLiteral(s string) {
	if p.group > 0 {
		s = groupBrackets.Replace(s)
	}
	p.literal.WriteString(s)
	p.flush()
}
