package upstream

import (
	"fmt"
	"slices"
	"strings"
)

// vars are the values of placeholders by name. No value, or an empty one, is an
// absent one. Only a parameter that is nothing but the placeholder can have
// several.
type vars map[string][]string

// first gives the value of a placeholder, or the first of several.
func (v vars) first(name string) string {
	if list := v[name]; len(list) > 0 {
		return list[0]
	}
	return ""
}

// The placeholders.
const (
	varAccount = "account"
	varStatus  = "status"
	varType    = "inquiry_type"
	varID      = "id"  // of an inquiry, for its responses
	varIDs     = "ids" // of a batch of inquiries
)

// template is a text with placeholders in braces. A part in square brackets is
// left out when a placeholder in it is empty. A doubled brace or bracket stands
// for itself.
type template []piece

// piece is a literal text or one placeholder.
type piece struct {
	text  string
	name  string // of the placeholder; "": a literal
	group int    // of the bracketed part; 0: none
}

// parseTemplate compiles a text. known are the placeholders that have a
// meaning here; every other one is an error, not a text.
func parseTemplate(s string, known ...string) (template, error) {
	var t template
	var literal strings.Builder
	group, groups := 0, 0
	flush := func() {
		if literal.Len() > 0 {
			t = append(t, piece{text: literal.String(), group: group})
			literal.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if strings.IndexByte("{}[]", c) < 0 {
			literal.WriteByte(c)
			continue
		}
		if i+1 < len(s) && s[i+1] == c && !(c == ']' && group > 0) {
			literal.WriteByte(c)
			i++
			continue
		}
		flush()
		switch c {
		case '{':
			n := strings.IndexByte(s[i:], '}')
			if n < 0 {
				return nil, fmt.Errorf("the brace of %q is not closed", s[i:])
			}
			name := s[i+1 : i+n]
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("unknown placeholder {%s}; known here: {%s}", name, strings.Join(known, "}, {"))
			}
			t = append(t, piece{name: name, group: group})
			i += n
		case '[':
			if group > 0 {
				return nil, fmt.Errorf("a bracket within brackets; write [[ for a bracket that is to be sent")
			}
			groups++
			group = groups
		case ']':
			if group == 0 {
				return nil, fmt.Errorf("a bracket is closed that was not opened; write ]] for one that is to be sent")
			}
			group = 0
		case '}':
			return nil, fmt.Errorf("a brace is closed that was not opened; write }} for one that is to be sent")
		}
	}
	if group > 0 {
		return nil, fmt.Errorf("a bracket is not closed; write [[ for one that is to be sent")
	}
	flush()
	return t, nil
}

// has tells whether the placeholder occurs. inGroup: within brackets counts.
func (t template) has(name string, inGroup bool) bool {
	for _, p := range t {
		if p.name == name && (inGroup || p.group == 0) {
			return true
		}
	}
	return false
}

// alone tells whether the whole text is one placeholder.
func (t template) alone() bool { return len(t) == 1 && t[0].name != "" }

// render fills the template in. ok is false when a placeholder outside of
// brackets is empty: then the whole has no meaning.
func (t template) render(values vars, escape func(string) string) (s string, ok bool) {
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
func (t template) dropped(group int, values vars) bool {
	for _, p := range t {
		if p.group == group && p.name != "" && values.first(p.name) == "" {
			return true
		}
	}
	return false
}
