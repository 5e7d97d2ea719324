package jsontree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Each stands for every element of an array in a path.
const Each = "#"

// stepKind is what one part of a path selects.
type stepKind uint8

const (
	stepKey     stepKind = iota // a member
	stepIndex                   // an element, or the member of that name
	stepEach                    // every element of an array
	stepValues                  // every member's value of an object, or every element
	stepQuery                   // the first element whose value at a path is the given one
	stepFromStr                 // the JSON that a string holds
)

// step is one part of a path.
type step struct {
	kind  stepKind
	key   string // of a member or of an index
	index int    // negative: from the end
	by    Path   // of a query
	value string // of a query
}

// Path is where values are below another one. Its notation is a part of GJSON's: names between
// dots (a.b), a backslash before a dot or another character with a meaning in a name (a\.b),
// the number of an element, from the end if negative (a.0, a.-1), # for every element (a.#.b),
// #(k==v) for the first element with that value at the path k, @values for every member of an object,
// @fromstr for the JSON that a string holds, @this for the value itself. The zero value is @this.
type Path struct {
	steps []step
	text  string
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// CompilePath parses a path. The error says what to write instead.
func CompilePath(text string) (p Path, err error) {
	if text == "" {
		return p, errors.New("the path is empty")
	}
	p.text = text
	for rest, more := text, true; more; {
		var s step
		if s, rest, err = parseStep(rest); err != nil {
			return Path{}, fmt.Errorf("path %q: %w", text, err)
		}
		if s.kind != stepKey || s.key != "@this" {
			p.steps = append(p.steps, s)
		}
		if rest != "" && rest[0] != '.' {
			return Path{}, fmt.Errorf("path %q: %q follows where a dot is expected", text, rest)
		}
		if more = rest != ""; more {
			rest = rest[1:]
		}
	}
	return p, nil
}

// parseStep parses the first part of a path.
func parseStep(text string) (s step, rest string, err error) {
	switch {
	case text == "" || text[0] == '.':
		return s, "", errors.New(`empty segment; write each name between dots, \. for a dot within a name`)
	case strings.HasPrefix(text, "#("):
		return parseQuery(text)
	}
	name, escaped, rest, err := parseName(text)
	if err != nil {
		return s, "", err
	}
	n, notNumber := strconv.Atoi(name)
	switch {
	case escaped || name == "@this":
		s = step{key: name}
	case name == Each:
		s.kind = stepEach
	case name == "@values":
		s.kind = stepValues
	case name == "@fromstr":
		s.kind = stepFromStr
	case notNumber == nil:
		s = step{kind: stepIndex, key: name, index: n}
	case name[0] == '#':
		return s, "", fmt.Errorf(`%q has no meaning; write a dot after # for every element, \# where it begins a name`, name)
	case name[0] == '@':
		return s, "", fmt.Errorf(`unknown modifier %q: there are @this, @values and @fromstr; write \@ where it begins a name`, name)
	default:
		s.key = name
	}
	return s, rest, nil
}

// parseName parses a name up to the next dot.
func parseName(text string) (name string, escaped bool, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '.':
			return b.String(), escaped, text[i:], nil
		case c == '\\':
			if i++; i == len(text) {
				return "", false, "", errors.New(`ends in a backslash; write \\ for a backslash within a name`)
			}
			escaped = true
			b.WriteByte(text[i])
		case c == '|':
			return "", false, "", errors.New(`a pipe; write a dot, or \| for a pipe within a name`)
		case strings.IndexByte("*?{}[]()!\"", c) >= 0:
			return "", false, "", fmt.Errorf(`%q has no meaning here; write \%c if it belongs to the name`, c, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), escaped, "", nil
}

const queryForm = `a query is #(name=="value"), for the first element that has the value`

// parseQuery parses #(path==value).
func parseQuery(text string) (s step, rest string, err error) {
	s.kind = stepQuery
	by, value, ok := strings.Cut(text[len("#("):], "==")
	if !ok {
		return s, "", errors.New("unbalanced or unknown: " + queryForm)
	}
	if s.by, err = CompilePath(by); err != nil {
		return s, "", errors.New("unbalanced or unknown: " + queryForm)
	}
	if strings.HasPrefix(value, `"`) {
		quoted, err := strconv.QuotedPrefix(value)
		if err != nil {
			return s, "", errors.New("a quotation mark is not closed")
		}
		if s.value, err = strconv.Unquote(quoted); err != nil {
			return s, "", errors.New(queryForm)
		}
		value = value[len(quoted):]
		if !strings.HasPrefix(value, ")") {
			return s, "", errors.New("unbalanced brackets: one is not closed")
		}
		rest = value[1:]
	} else if s.value, rest, ok = strings.Cut(value, ")"); !ok {
		return s, "", errors.New("unbalanced brackets: one is not closed")
	}
	if strings.HasPrefix(rest, "#") {
		return s, "", errors.New("a query is for one element; leave the # after it out, and select records and responses by where")
	}
	return s, rest, nil
}

// Names returns the names that the path begins with, up to the first part that is more than a
// name. With each, # counts as a name.
func (p Path) Names(each bool) (names []string) {
	for i := range p.steps {
		switch s := &p.steps[i]; {
		case s.kind == stepKey:
			names = append(names, s.key)
		case s.kind == stepEach && each:
			names = append(names, Each)
		default:
			return names
		}
	}
	return names
}

// CutValues returns the path without @values at its end, and whether that was there.
func (p Path) CutValues() (Path, bool) {
	last := len(p.steps) - 1
	if last < 0 || p.steps[last].kind != stepValues {
		return p, false
	}
	return Path{p.steps[:last], strings.TrimSuffix(strings.TrimSuffix(p.text, "@values"), ".")}, true
}

// Outline calls name with each name of the path, and list where what stands before is used as an
// array. It returns false where the path goes on with what cannot be known from it.
func (p Path) Outline(name func(string), list func()) bool {
	for i := range p.steps {
		switch s := &p.steps[i]; s.kind {
		case stepKey:
			name(s.key)
		case stepIndex, stepEach, stepQuery:
			list()
		case stepValues, stepFromStr:
			return false
		}
	}
	return true
}

// At is Get for a path that is used once. A path that cannot be compiled leads nowhere.
func (v Value) At(text string) Value {
	p, err := CompilePath(text)
	if err != nil {
		return Value{}
	}
	return v.Get(p)
}

// Get returns the value at a path. Where the path may lead to several it is an array of all that are
// there, and missing where there is nothing to look in.
func (v Value) Get(p Path) Value {
	for i := range p.steps {
		if v.doc == nil {
			return v
		}
		s := &p.steps[i]
		if s.kind == stepEach || s.kind == stepValues {
			if !v.holdsSeveral(s.kind) {
				return Value{}
			}
			var all []Value
			v.visit(p.steps[i:], func(one Value) { all = append(all, one) })
			return ListOf(all...)
		}
		v = v.step(s)
	}
	return v
}

// Visit calls visit with each value at a path.
func (v Value) Visit(p Path, visit func(Value)) { v.visit(p.steps, visit) }

func (v Value) visit(steps []step, visit func(Value)) {
	for i := range steps {
		if v.doc == nil {
			return
		}
		s := &steps[i]
		if s.kind == stepEach || s.kind == stepValues {
			if v.holdsSeveral(s.kind) {
				for _, one := range v.All() {
					one.visit(steps[i+1:], visit)
				}
			}
			return
		}
		v = v.step(s)
	}
	if v.doc != nil {
		visit(v)
	}
}

// holdsSeveral reports whether # or @values means the values in v.
func (v Value) holdsSeveral(kind stepKind) bool {
	k := v.Kind()
	return k == Array || k == Object && kind == stepValues
}

// step follows one part of a path that leads to one value.
func (v Value) step(s *step) Value {
	switch s.kind {
	case stepIndex:
		if v.Kind() == Array {
			i := s.index
			if s.key[0] == '-' {
				i += v.Len()
			}
			return v.at(i)
		}
		return v.Member(s.key)
	case stepQuery:
		if v.Kind() == Array {
			for _, one := range v.All() {
				if at := one.Get(s.by); at.Scalar() && at.String() == s.value {
					return one
				}
			}
		}
		return Value{}
	case stepFromStr:
		return v.fromString()
	}
	return v.Member(s.key)
}

// fromString returns the JSON that a string holds; missing: it is no string, or holds none.
func (v Value) fromString() Value {
	if v.Kind() != Text {
		return Value{}
	}
	inner, _ := Parse(v.String())
	return inner
}
