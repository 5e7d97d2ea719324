package mapping

import (
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// Conditions are what an element, or a reply as a whole, is held against.
type Conditions []condition

// condition is a compiled [Condition].
type condition struct {
	key      string // of the configuration
	path     string // as it was written
	at       compiledPath
	ofDetail bool // it is about the detail of a record
	values   []string
	negated  bool // holds for all others
	null     bool // one of the values is null
}

// conditions compiles what an element must have. A condition that is wrong
// is left out, after its mistake was noted.
func (s scope) conditions(field string, list []Condition, harm string) (all Conditions) {
	for i, cfg := range list {
		all = append(all, s.condition(index(field, i), cfg, harm)...)
	}
	return all
}

// condition compiles one; none where its section is not there.
func (s scope) condition(at string, cfg Condition, harm string) Conditions {
	one := condition{key: at, path: cfg.Path, negated: len(cfg.Not) > 0, ofDetail: s.inDetail(cfg.Path)}
	for _, value := range slices.Concat(cfg.Is, cfg.Not) {
		if one.null = one.null || value.Null; !value.Null {
			one.values = append(one.values, value.Value)
		}
	}
	s.AddIf((len(cfg.Is) > 0) == (len(cfg.Not) > 0), at, "set one of is and not")
	path, ok := s.compilePath(at+".path", cfg.Path, true)
	if !ok {
		return nil
	}
	if one.at = s.locate(path); one.null && !one.negated {
		harm = "" // that nothing is there is what it wants
	}
	if s.in != inReply {
		s.notePaths(at, harm, false, cfg.Path)
	}
	return Conditions{one}
}

// firstUnmet gives the first condition that an element does not meet; nil: it meets all.
// beforeDetail: those on its detail, which is not there yet, are left out.
func (all Conditions) firstUnmet(e *element, beforeDetail bool) *condition {
	for i := range all {
		if c := &all[i]; !(beforeDetail && c.ofDetail) && !c.holds(e) {
			return c
		}
	}
	return nil
}

// holds compares texts and truth values as they are written, and whole numbers by what they
// are: 0.0 is 0. An object or an array is there, and equal to nothing.
func (c *condition) holds(e *element) bool {
	switch v := c.at.find(e); {
	case !v.Present():
		return c.null && !c.negated
	case len(c.values) == 0:
		return c.negated
	case !v.Scalar():
		return false
	default:
		text := v.String()
		equal := slices.Contains(c.values, text)
		if !equal && v.Kind() == jsontree.Number {
			n, whole := jsontree.Count(text)
			equal = whole && slices.Contains(c.values, strconv.Itoa(n))
		}
		return equal != c.negated
	}
}

// CompileConditions compiles the conditions of a key on the reply to a sign-in, or on one
// that ends a session. What is wrong is added to problems.
func CompileConditions(field string, list []Condition, problems *setting.Problems) Conditions {
	reply := scope{compiler: &compiler{Problems: problems, plan: &Plan{}}, outline: &decode.Outline{}}
	return reply.conditions(field, list, "")
}

// Any reports whether a reply meets one of the conditions. A body that is not JSON meets none. In a fault only values count:
// that nothing is at a path means nothing there.
func (all Conditions) Any(body string, fault bool) bool {
	if len(all) == 0 {
		return false
	}
	v, err := jsontree.Parse(body)
	e := &element{Value: v}
	return err == nil && slices.ContainsFunc(all, func(c condition) bool { return c.holds(e) && !(fault && !c.at.find(e).Present()) })
}

// Unmet gives the key of a condition that a reply does not meet; empty: it meets all.
func (all Conditions) Unmet(reply jsontree.Value) (key string) {
	if c := all.firstUnmet(&element{Value: reply}, false); c != nil {
		return c.key
	}
	return ""
}

// describe says for a person what the condition is.
func (c *condition) describe() string {
	values := strings.Join(c.values, " or ")
	switch {
	case len(c.values) == 0 && c.negated:
		return "must be there"
	case len(c.values) == 0:
		return "must be absent"
	case c.negated:
		return "must be there and not " + values
	case c.null:
		return "must be " + values + " or absent"
	}
	return "must be " + values
}

// checkReply is the error of a reply that does not meet a condition; nil: it meets all. The value
// that was found is for the operator's screen only.
func (all Conditions) checkReply(reply jsontree.Value) *Error {
	e := &element{Value: reply}
	c := all.firstUnmet(e, false)
	if c == nil {
		return nil
	}
	found := c.at.find(e)
	err := newError("expect", "%s: %s %s; found: %s", c.key, c.path, c.describe(), found.Kind())
	if found.Present() {
		err.Found = shorten(found.Raw())
	}
	return err
}
