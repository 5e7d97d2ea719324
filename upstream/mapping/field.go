package mapping

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/timeparse"
)

// field is a public field: where it comes from, and what is made of it. It is a text, or
// a time.
type field struct {
	plain   bool     // a string in slot is the legacy's value: what most fields are
	slot    int      // the only source
	name    string   // as violations and removed ids are counted
	paths   []string // as they were written, for Explainer
	sources sources
	join    Default // between the values of all sources; not set: the first present one counts
	looked  bool    // found by a look-up

	time   timeparse.Parser // nil: a text
	format string           // of the time, for messages

	nth      int // among the texts of the plan
	values   map[string]string
	few      []entry // of values, if there are no more than fewValues
	def      Default
	fixed    Default // const
	nullable bool
	cut      []*regexp.Regexp
	html     bool
	noEmpty  bool     // an empty string is a missing value
	nulls    []string // values of the legacy that are missing ones
	keep     bool     // unknown values stay as they are
}

// maxTexts is more than the texts of a plan.
const maxTexts = 8

// entry is one of the values of a field.
type entry struct{ legacy, public string }

// fewValues are found faster one by one than in a map.
const fewValues = 8

// Why a value cannot be accepted. These words go to logs and to probe, so they
// hold nothing of the value.
const (
	whyMissing = "missing or null, and the field has no default"
	whyShape   = "an object or array where a single value is expected"
	whyUnknown = "a value that has no entry in values"
	whyTime    = "not a time in the configured format"
)

// What a path hides that matches nothing.
const (
	hidesIDs       = "internal ids would not be removed from texts"
	hidesResponses = "every inquiry would look unanswered"
	hidesDefault   = "every record has the default"
	hidesRecords   = "no record would be shown"
	hidesNull      = "every record has null"
)

// field compiles where a field comes from: a look-up, or paths of which the first
// present one counts. A constant comes from nowhere.
func (c *compiler) field(key, name string, f Field, hides string) *field {
	d := &field{name: name, paths: f.Path, join: f.Join, looked: setting.Says(f.Lookup)}
	if d.looked {
		c.AddIf(len(f.Path) > 0 || f.Const.Set, key+".lookup", "the field has a path or a constant, too; remove the one or the other")
		d.paths, d.sources = Paths{f.Lookup.String()}, c.lookup(key+".lookup", f.Lookup)
		return d
	}
	c.AddIf(len(f.Path) == 0 && !f.Const.Set, key, "missing: say where the field comes from, as a GJSON path or as {path: ...}")
	d.sources = c.sources(key, key+".path", f.Path)
	if d.plain = !f.Join.Set && len(d.sources) == 1 && d.sources[0].path == ""; d.plain {
		d.slot = d.sources[0].slot
	}
	c.use(key, hides, false, f.Path...)
	return d
}

// text compiles a field that holds a string, and null only if nullable. Keys that
// contradict each other are refused.
func (c *compiler) text(key, name string, f Field, nullable bool) *field {
	values, nulls := f.translations()
	c.AddIf(f.Format != "" || f.Zone != "", key, "format and zone are for times; remove them")
	c.AddIf(f.Const.Set && (len(f.Path) > 0 || values != nil || f.Default.Set), key+".const",
		"a constant needs no path, values or default; remove the one or the others")
	c.AddIf(f.Values != nil && len(f.Values) == 0, key+".values", "empty: no value would be accepted")
	c.AddIf(values == nil && f.UnknownValues != "", key+".unknown_values", "there are no values that a value could be missing from; remove the key")
	c.AddIf(values == nil && f.ValuesJoin != "", key+".values_join", "there are no values to join; remove the key")
	c.AddIf(!nullable && f.Default.Null, key+".default", "%s is never null here; give a text", name)
	c.AddIf(!nullable && f.Const.Null, key+".const", "%s is never null here; give a text", name)
	for _, legacy := range nulls {
		c.AddIf(values[legacy] != "", key+".null_values", "%q has an entry in values, too; remove the one or the other", legacy)
	}
	hides := ""
	switch {
	case f.Default.Set && !f.Default.Null:
		hides = hidesDefault
	case nullable:
		hides = hidesNull
	}
	t := c.field(key, name, f, hides)
	t.values, t.def, t.fixed, t.nullable, t.nulls = values, f.Default, f.Const, nullable, nulls
	t.cut, t.html, t.noEmpty, t.keep = c.patterns(key+".cut", f.Cut), f.TrimHTML, f.Empty == "missing", f.UnknownValues == "keep"
	t.plain = t.plain && !t.fixed.Set && t.cut == nil && !t.html && !t.noEmpty && t.nulls == nil
	for legacy, public := range values {
		c.AddIf(public == "", key+".values."+legacy, "the public value is empty")
		if len(values) <= fewValues {
			t.few = append(t.few, entry{legacy, public})
		}
	}
	return t
}

// time compiles a field that holds a time. Keys that only texts have are refused,
// because they would have no effect.
func (c *compiler) time(key, name string, f Field) *field {
	for of, used := range map[string]bool{
		"values": f.Values != nil, "const": f.Const.Set, "null_values": len(f.NullValues) > 0, "trim_html": f.TrimHTML, "cut": len(f.Cut) > 0,
		"unknown_values": f.UnknownValues != "", "values_join": f.ValuesJoin != "", "empty": f.Empty != "",
	} {
		c.AddIf(used, key+"."+of, "%s is for texts; remove the key", of)
	}
	c.AddIf(f.Default.Set, key+".default", "a time has no default: nobody can know when it was; remove the key")
	c.AddIf(f.Join.Set && len(f.Path) < 2, key+".join", "a time is joined of several paths, such as [date, time]; name them, or remove the key")
	t := c.field(key, name, f, "")
	var formatErr, zoneErr error
	t.time, formatErr, zoneErr = timeparse.New(f.Format, f.Zone)
	t.format = cmp.Or(f.Format, "rfc3339")
	c.AddIf(formatErr != nil, key+".format", "%v", formatErr)
	c.AddIf(zoneErr != nil, key+".zone", "%v", zoneErr)
	return t
}

// source is where in a record a value stands: in a slot of the frame that the
// parser fills, or behind a path that only gjson understands.
type source struct {
	slot   int
	path   string  // "": the slot
	lookup *lookup // instead of these: in a table of the reply
	xml    bool    // of an element with attributes the text is meant
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

// sources are where a value may stand.
type sources []source

// first gives the first value that is there and not null; if there is none, the last one.
func (all sources) first(f *jsonwalk.Frame) (v jsonwalk.Value) {
	for _, s := range all {
		if v = s.find(f); v.Present() {
			return v
		}
	}
	return v
}

// legacy gives the field as the legacy has it. found is false for a missing value,
// which is no mistake yet: there may be a default.
func (d *field) legacy(f *jsonwalk.Frame) (s string, found bool, why string) {
	if d.join.Set {
		return d.joined(f)
	}
	var v jsonwalk.Value
	for _, source := range d.sources {
		v = source.find(f)
		if v.Present() && !(d.noEmpty && v.Raw == `""`) {
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

// joined puts the values of all paths together. Of a text, missing ones are left out and
// those of arrays stand in their order; of a time all are needed.
func (d *field) joined(f *jsonwalk.Frame) (s string, found bool, why string) {
	var parts []string
	add := func(v jsonwalk.Value) bool {
		switch {
		case v.Scalar() && !(d.noEmpty && v.Raw == `""`):
			parts = append(parts, v.String())
		case v.Present() && !v.Scalar():
			why = whyShape
		case d.time != nil:
			why = whyMissing
		}
		return true
	}
	for _, source := range d.sources {
		if v := source.find(f); v.Kind == jsonwalk.Array && d.time == nil {
			v.Each(add)
		} else {
			add(v)
		}
	}
	return strings.Join(parts, d.join.Value), len(parts) > 0, why
}

// text maps the field of one record. why is empty when it can be accepted; found is
// false for a default, or for null where nothing is. Most fields are plain and most
// values strings: these take the first branch and no other.
func (d *field) text(f *jsonwalk.Frame) (s NullString, found bool, why string) {
	if d.plain {
		if v := f.Value(d.slot); v.Kind == jsonwalk.Text {
			s, why = d.public(v.In(f.Texts))
			return s, true, why
		}
	}
	if d.fixed.Set {
		return NullString{d.fixed.Value, !d.fixed.Null}, true, ""
	}
	legacy, found, why := d.legacy(f)
	for _, p := range d.cut {
		legacy = p.ReplaceAllString(legacy, "")
	}
	if d.html {
		legacy = htmlText(legacy)
	}
	if d.noEmpty && legacy == "" || slices.Contains(d.nulls, legacy) {
		found = false
	}
	switch {
	case why != "":
		return s, false, why
	case found:
		s, why = d.public(legacy)
		return s, true, why
	case d.def.Set && !d.def.Null:
		return NullString{d.def.Value, true}, false, ""
	case d.nullable:
		return s, false, ""
	}
	return s, false, whyMissing
}

// public translates a legacy value.
func (d *field) public(legacy string) (s NullString, why string) {
	if d.values == nil {
		return NullString{legacy, true}, ""
	}
	for i := range d.few {
		if d.few[i].legacy == legacy {
			return NullString{d.few[i].public, true}, ""
		}
	}
	if len(d.few) < len(d.values) {
		if public, ok := d.values[legacy]; ok {
			return NullString{public, true}, ""
		}
	}
	if d.keep {
		return NullString{legacy, true}, ""
	}
	return s, whyUnknown
}

// guarded tells whether the legacy decides on the text. Only then can an
// internal id be in it.
func (d *field) guarded() bool { return !d.fixed.Set && (d.values == nil || d.keep) }

// moment maps the time of one record. why is empty when it can be accepted.
func (d *field) moment(f *jsonwalk.Frame) (at time.Time, why string) {
	text, found := "", false
	if d.plain {
		if v := f.Value(d.slot); v.Kind == jsonwalk.Text {
			text, found = v.In(f.Texts), true
		}
	}
	if !found {
		if text, found, why = d.legacy(f); why == "" && !found {
			why = whyMissing
		}
	}
	if why != "" {
		return at, why
	}
	at, ok := d.time(text)
	if !ok {
		return at, whyTime + " " + strconv.Quote(d.format)
	}
	return at, ""
}
