package mapping

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/timeparse"
)

// source is where in a record a value stands: in a slot of the frame that the
// parser fills, or behind a path that only gjson understands.
type source struct {
	slot int
	path string // "": the slot
	xml  bool   // of an element with attributes the text is meant

	lookup *lookup // instead of these: in a table of the reply
}

// find gets the value out of a frame, or out of the record that it belongs to.
func (s source) find(f *jsonwalk.Frame) (v jsonwalk.Value) {
	switch {
	case s.lookup != nil:
		return s.lookup.find(f)
	case s.path != "":
		v = jsonwalk.Lookup(f.Element, s.path)
	default:
		v = f.Value(s.slot)
	}
	return plainText(v, s.xml)
}

// firstOf gives the first value that is there and not null; if there is none,
// the last one.
func firstOf(sources []source, f *jsonwalk.Frame) (v jsonwalk.Value) {
	for _, s := range sources {
		if v = s.find(f); v.Present() {
			return v
		}
	}
	return v
}

// fieldPlan is where a field comes from.
type fieldPlan struct {
	name    string   // as violations and removed ids are counted
	paths   []string // as they were written, for Explain
	sources []source
	join    Default // between the values of all sources; not set: the first present one counts
	looked  bool    // found by a look-up
}

// textPlan maps a field that holds a string.
type textPlan struct {
	fieldPlan
	values   map[string]string
	def      Default
	nullable bool
	fixed    Default // const
	cut      []*regexp.Regexp
	html     bool
	noEmpty  bool     // an empty string is a missing value
	nulls    []string // values of the legacy that are missing ones
	keep     bool     // unknown values stay as they are

	// Worked out by prepare for what most fields and values are.
	nth   int     // among the texts of the plan
	plain bool    // a string in the only slot is the legacy's text
	few   []entry // of values, if there are no more than fewValues
}

// maxTexts is more than the texts of a plan.
const maxTexts = 8

// entry is one of the values of a field.
type entry struct{ legacy, public string }

// fewValues are found faster one by one than in a map.
const fewValues = 8

// prepare works out what makes reading fast. Without it the field is read all
// the same.
func (t *textPlan) prepare() *textPlan {
	t.plain = !t.fixed.Set && !t.join.Set && t.cut == nil && !t.html && !t.noEmpty && len(t.sources) == 1 && t.sources[0].path == "" && !t.looked && t.nulls == nil
	if len(t.values) <= fewValues {
		for legacy, public := range t.values {
			t.few = append(t.few, entry{legacy, public})
		}
	}
	return t
}

// Why a value cannot be accepted. These words go to logs and to probe, so they
// hold nothing of the value.
const (
	whyMissing    = "missing or null, and the field has no default"
	whyShape      = "an object or array where a single value is expected"
	whyUnknown    = "a value that has no entry in values"
	whyTime       = "not a time in the configured format"
	whyObject     = "not an object"
	whyList       = "not the array, or the object, that items says"
	whyNoOwner    = "no owner"
	whyNoID       = "no id to ask for the responses with"
	whyNoDetailID = "no id to ask for the details with"
	whyNoDetail   = "no detail came for the record"
	whyNoEntry    = "one of them has no entry in the table of lookup"
	whyStranger   = "another owner than the account"
)

// of is from where a mistake before makes all others none. A field that the kind
// has not is null. What was missing is counted.
func (t *textPlan) of(f *jsonwalk.Frame, bad *violation, missing *[maxTexts]int) (s NullString) {
	if t == nil || bad.why != "" {
		return s
	}
	s, found, why := t.from(f)
	switch {
	case why != "":
		*bad = violation{t.name, why}
	case !found:
		missing[t.nth]++
	}
	return s
}

// from maps the field of one record. why is empty when it can be accepted; found is
// false for a default, or for null where nothing is. Most fields are plain and most
// values strings: these take the first branch and no other.
func (t *textPlan) from(f *jsonwalk.Frame) (s NullString, found bool, why string) {
	if t.plain {
		if v := f.Value(t.sources[0].slot); v.Kind == jsonwalk.Text {
			s, why = t.public(v.In(f.Texts))
			return s, true, why
		}
	}
	if t.fixed.Set {
		return NullString{t.fixed.Value, !t.fixed.Null}, true, ""
	}
	legacy, found, why := t.legacy(f)
	if found {
		for _, p := range t.cut {
			legacy = p.ReplaceAllString(legacy, "")
		}
		if t.html {
			legacy = htmlText(legacy)
		}
	}
	if t.noEmpty && legacy == "" || slices.Contains(t.nulls, legacy) {
		found = false
	}
	switch {
	case why != "":
		return s, false, why
	case found:
		s, why = t.public(legacy)
		return s, true, why
	case t.def.Set && !t.def.Null:
		return NullString{t.def.Value, true}, false, ""
	case t.nullable:
		return s, false, ""
	}
	return s, false, whyMissing
}

// legacy gives the text of the field as the legacy has it. found is false for a missing
// value, which is no mistake yet: there may be a default.
func (t *textPlan) legacy(f *jsonwalk.Frame) (s string, found bool, why string) {
	if t.join.Set {
		return t.joined(f)
	}
	var v jsonwalk.Value
	for _, source := range t.sources {
		v = source.find(f)
		if v.Present() && !(t.noEmpty && v.Raw == `""`) {
			break
		}
	}
	switch {
	case v.Scalar():
		return v.In(f.Texts), true, ""
	case v.Present():
		return "", false, whyShape
	}
	return "", false, ""
}

// joined puts all values of all paths together, those of arrays in their order. Missing
// ones are left out.
func (t *textPlan) joined(f *jsonwalk.Frame) (s string, found bool, why string) {
	var parts []string
	add := func(v jsonwalk.Value) {
		switch {
		case v.Scalar() && !(t.noEmpty && v.Raw == `""`):
			parts = append(parts, v.String())
		case v.Present() && !v.Scalar():
			why = whyShape
		}
	}
	for _, source := range t.sources {
		v := source.find(f)
		if v.Kind != jsonwalk.Array {
			add(v)
			continue
		}
		v.Each(func(item jsonwalk.Value) bool { add(item); return true })
	}
	return strings.Join(parts, t.join.Value), len(parts) > 0, why
}

// public translates a legacy value.
func (t *textPlan) public(legacy string) (s NullString, why string) {
	if t.values == nil {
		return NullString{legacy, true}, ""
	}
	for i := range t.few {
		if t.few[i].legacy == legacy {
			return NullString{t.few[i].public, true}, ""
		}
	}
	if len(t.few) < len(t.values) {
		if public, ok := t.values[legacy]; ok {
			return NullString{public, true}, ""
		}
	}
	if t.keep {
		return NullString{legacy, true}, ""
	}
	return s, whyUnknown
}

// guarded tells whether the legacy decides on the text. Only then can an
// internal id be in it.
func (t *textPlan) guarded() bool { return !t.fixed.Set && (t.values == nil || t.keep) }

// timePlan reads a field that holds a time.
type timePlan struct {
	fieldPlan
	parse  timeparse.Parser
	format string // for messages
}

// of is from where a mistake before makes all others none.
func (t *timePlan) of(f *jsonwalk.Frame, bad *violation) (at time.Time) {
	if bad.why != "" {
		return at
	}
	at, why := t.from(f)
	if why != "" {
		*bad = violation{t.name, why}
	}
	return at
}

// from maps the field of one record. why is empty when it can be accepted.
func (t *timePlan) from(f *jsonwalk.Frame) (at time.Time, why string) {
	text, why := t.text(f)
	if why != "" {
		return at, why
	}
	at, ok := t.parse(text)
	if !ok {
		return at, whyTime + " " + strconv.Quote(t.format)
	}
	return at, ""
}

// text is the time as the legacy writes it. If it stands in several fields, all of
// them are needed.
func (t *timePlan) text(f *jsonwalk.Frame) (text, why string) {
	if !t.join.Set {
		return single(firstOf(t.sources, f))
	}
	parts := make([]string, len(t.sources))
	for i, source := range t.sources {
		if parts[i], why = single(source.find(f)); why != "" {
			return "", why
		}
	}
	return strings.Join(parts, t.join.Value), ""
}

// single is the text of a value that must be there.
func single(v jsonwalk.Value) (text, why string) {
	switch {
	case !v.Present():
		return "", whyMissing
	case !v.Scalar():
		return "", whyShape
	}
	return v.String(), ""
}
