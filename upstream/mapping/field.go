package mapping

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/timeparse"
)

// source is where a public field comes from.
type source struct {
	name      string   // under which invalid records and removed ids are counted
	paths     []string // as they were written, for Explainer
	at        compiledPaths
	join      OptionalString // between the values at all paths; not set: the first present one counts
	needsAll  bool           // none of these may be missing
	viaLookup bool           // found by a look-up
	html      bool           // it is HTML, whose text counts
	nulls     []string       // values of the legacy that are missing ones, before or after that
}

// textField is a public field that is a text.
type textField struct {
	source
	index       int               // of all texts of the plan
	values      map[string]string // nil: all are served as they are
	references  []reference       // public values by what stands elsewhere in the record
	others      OptionalString    // the public value of all that are not known; not set: there is none
	keepUnknown bool              // those are served as they are
	def         OptionalString
	constant    OptionalString // the value of every record
	nullable    bool
}

// reference is the public value of what equals another value of the record.
type reference struct {
	at     compiledPath // within the record, also for a response
	public OptionalString
}

// timeField is a public field that is a time.
type timeField struct {
	source
	parse  timeparse.Parser
	format string // for messages
}

// maxTexts is more than the texts of a plan.
const maxTexts = 8

// Why a value cannot be accepted. These words go to logs and to probe, so they
// hold nothing of the value.
const (
	reasonMissing = "missing or null, and the field has no default"
	reasonShape   = "an object or array where a single value is expected"
	reasonUnknown = "a value that has no entry in values"
	reasonTime    = "not a time in the configured format"
)

// What a path harm that matches nothing.
const (
	harmIDs       = "internal ids would not be removed from texts"
	harmResponses = "every inquiry would look unanswered"
	harmDefault   = "every record has the default"
	harmRecords   = "no record would be shown"
	harmNull      = "every record has null"
)

// source compiles where a field comes from. A constant comes from nowhere.
func (s scope) source(key, name string, f FieldPath, fixed bool, harm string) source {
	o := source{name: name, join: f.Join, viaLookup: setting.IsSet(f.Lookup)}
	s.AddIf(len(f.Path) == 0 && !fixed && !o.viaLookup, key, "missing: say where the field comes from, as a GJSON path or as {path: ...}")
	o.at, o.paths = s.found(key, f.Path, f.Lookup, harm)
	return o
}

// found compiles paths of which the first present one counts, in the element or in the entry of a table,
// and returns them as a person reads them, too.
func (s scope) found(key string, paths Paths, lookup LookupConfig, harm string) (compiledPaths, Paths) {
	if !setting.IsSet(lookup) {
		s.notePaths(key, harm, false, paths...)
		return s.locateAll(key, key+".path", paths), paths
	}
	s.AddIf(len(paths) == 0, key+".path", "missing: the path, within the entry, of the value")
	s.notePaths(key+".lookup.by", "", true, lookup.By...)
	l, entry := s.lookup(key+".lookup", lookup)
	all := entry.locateAll(key+".path", key+".path", paths)
	for i := range all {
		all[i].lookup = l
	}
	return all, Paths{lookup.to(paths)}
}

// text compiles a field that holds a string, and null only if nullable. Keys that
// contradict each other are mistakes.
func (s scope) text(key, name string, f TextField, nullable bool) *textField {
	t := &textField{def: f.Default, nullable: nullable}
	if len(f.Path) == 0 && !setting.IsSet(f.Lookup) {
		t.constant = f.Default
	}
	nulls := t.translate(s, key+".values.", f.Values)
	s.AddIf(t.constant.Set && f.Values != nil, key+".values", "a default without a path is the value of every record; remove the one or the other")
	s.AddIf(f.Values != nil && len(f.Values) == 0, key+".values", "empty: no value would be accepted")
	s.AddIf(t.values == nil && f.ValuesJoin != "", key+".values_join", "there are no values to join; remove the key")
	s.AddIf(!nullable && f.Default.Null, key+".default", "%s is never null here; give a text", name)
	harm := ""
	switch {
	case f.Default.Set && !f.Default.Null:
		harm = harmDefault
	case nullable:
		harm = harmNull
	}
	t.source = s.source(key, name, f.FieldPath, t.constant.Set, harm)
	t.html, t.nulls = f.TrimHTML, nulls
	return t
}

// translate compiles values, and gives those of the legacy that mean null.
func (t *textField) translate(s scope, at string, values Values) (nulls []string) {
	for _, legacy := range slices.Sorted(maps.Keys(values)) {
		public := values[legacy]
		public.Null = public.Null || !public.Set
		public.Set = true
		s.AddIf(public.Value == "" && !public.Null, at+legacy, "the public value is empty")
		path, is := bracedPath(legacy)
		switch {
		case is:
			if to, ok := s.record.use(at+legacy, path, "", true); ok {
				t.references = append(t.references, reference{to, public})
			}
		case legacy == otherValues && public.Value == keepValue:
			t.keepUnknown = true
		case legacy == otherValues:
			t.others = public
		case public.Null:
			nulls = append(nulls, legacy)
			continue
		}
		if t.values == nil {
			t.values = make(map[string]string, len(values))
		}
		if !is && legacy != otherValues {
			t.values[legacy] = public.Value
		}
	}
	return nulls
}

// time compiles a field that holds a time.
func (s scope) time(key, name string, f TimeField) *timeField {
	s.AddIf(f.Join.Set && len(f.Path) < 2, key+".join", "a time is joined of several paths, such as [date, time]; name them, or remove the key")
	parse, formatErr, zoneErr := timeparse.New(f.Format, f.Zone)
	s.AddIf(formatErr != nil, key+".format", "%v", formatErr)
	s.AddIf(zoneErr != nil, key+".zone", "%v", zoneErr)
	t := &timeField{source: s.source(key, name, f.FieldPath, false, ""), parse: parse, format: cmp.Or(f.Format, "rfc3339")}
	t.needsAll = true
	return t
}

// The bounds of internal_id_patterns: each one reads every text of a list.
const (
	maxPatterns     = 20
	maxPatternBytes = 200
)

// patterns compiles what is removed from texts wherever it stands. Patterns past the
// bound, and those that match nothing visible, are mistakes.
func (c *compiler) patterns(field string, list []string) (compiled []*regexp.Regexp) {
	c.AddIf(len(list) > maxPatterns, field, "%d patterns; at most %d, join some with |", len(list), maxPatterns)
	for i, text := range list[:min(len(list), maxPatterns)] {
		at := index(field, i)
		if len(text) > maxPatternBytes {
			c.Add(at, "%d bytes; at most %d", len(text), maxPatternBytes)
			continue
		}
		p, err := regexp.Compile(text)
		if err != nil {
			continue // its tag, form, says so
		}
		// \b matches nothing in an empty text, but between characters.
		c.AddIf(p.MatchString("") || p.FindString("a 0-") == "" && p.MatchString("a 0-"), at, "matches the empty text; name at least one character that must be there")
		compiled = append(compiled, p)
	}
	return compiled
}

// compiledPath is where a value stands: at a path in an element, or in the entry of a table that
// the element names.
type compiledPath struct {
	jsontree.Path
	lookup *lookup
	xml    bool // of an element with attributes the text is meant
	key    bool // the name of the element itself is meant
}

// find returns the value at the path; missing: there is none.
func (c *compiledPath) find(e *element) jsontree.Value {
	v := e.Value
	if c.lookup != nil {
		v, _ = c.lookup.find(e)
	}
	return plainText(v.Get(c.Path), c.xml)
}

// compiledPaths are where a value may stand.
type compiledPaths []compiledPath

// first returns the first value that is there and not null; if there is none, the last one.
func (all compiledPaths) first(e *element) (v jsontree.Value) {
	for i := range all {
		if v = all[i].find(e); v.Present() {
			return v
		}
	}
	return v
}

// isNull tells whether the configuration takes a value for a missing one.
func (o *source) isNull(v jsontree.Value) (null bool) {
	if len(o.nulls) > 0 && v.Scalar() {
		_, null = o.trimmed(v.String())
	}
	return null
}

// trimmed returns a text without its HTML. null: it means that nothing is there.
func (o *source) trimmed(raw string) (text string, null bool) {
	if text = raw; o.html {
		text = htmlText(raw)
	}
	return text, slices.Contains(o.nulls, raw) || slices.Contains(o.nulls, text)
}

// value gives the field as the legacy has it, without what is no part of it. found is false for
// a missing value, which is no mistake yet: there may be a default.
func (o *source) value(e *element) (s string, found bool, why string) {
	if o.join.Set {
		return o.joinedValue(e)
	}
	for i := range o.at {
		switch v := o.at[i].find(e); {
		case v.Scalar():
			if text, null := o.trimmed(v.String()); !null {
				return text, true, ""
			}
		case v.Present():
			return "", false, reasonShape
		}
	}
	return "", false, ""
}

// joinedValue joins the values of all paths, and those in an array. A text leaves out missing ones;
// a time needs all.
func (o *source) joinedValue(e *element) (s string, found bool, why string) {
	var parts []string
	add := func(v jsontree.Value) {
		switch {
		case v.Scalar() && !o.isNull(v):
			parts = append(parts, v.String())
		case v.Present() && !v.Scalar():
			why = reasonShape
		case o.needsAll:
			why = reasonMissing
		}
	}
	for i := range o.at {
		v := o.at[i].find(e)
		if v.Kind() != jsontree.Array || o.needsAll {
			add(v)
			continue
		}
		for _, one := range v.All() {
			add(one)
		}
	}
	s, null := o.trimmed(strings.Join(parts, o.join.Value))
	return s, len(parts) > 0 && !null, why
}

// of maps the field of an element, which is the record or a response to it. why is empty when it can be
// accepted; found is false for a default, or for null where nothing is.
func (t *textField) of(e, record *element) (s NullString, found bool, why string) {
	if t.constant.Set {
		return NullString{t.constant.Value, !t.constant.Null}, true, ""
	}
	legacy, found, why := t.value(e)
	public := t.def
	if found {
		public = t.public(legacy, record)
		found = !public.Null
	}
	switch {
	case why != "":
		return s, false, why
	case found && !public.Set:
		return s, false, reasonUnknown
	case !found && !t.def.Set && !t.nullable:
		return s, false, reasonMissing
	case !found:
		public = t.def
	}
	return NullString{public.Value, public.Set && !public.Null}, found, ""
}

// public translates a legacy value; not set: it is not known.
func (t *textField) public(legacy string, record *element) OptionalString {
	if t.values == nil {
		return OptionalString{Set: true, Value: legacy}
	}
	if public, ok := t.values[legacy]; ok {
		return OptionalString{Set: true, Value: public}
	}
	for i := range t.references {
		if like := &t.references[i]; legacy != "" && like.at.find(record).Plain() == legacy {
			return like.public
		}
	}
	if t.keepUnknown {
		return OptionalString{Set: true, Value: legacy}
	}
	return t.others
}

// mayContainIDs tells whether an internal id can be in the text: not where the configuration has all its values.
func (t *textField) mayContainIDs() bool {
	return !t.constant.Set && (t.values == nil || t.keepUnknown)
}

// of maps the time of one record. why is empty when it can be accepted.
func (t *timeField) of(e *element) (at time.Time, why string) {
	text, found, why := t.value(e)
	if why == "" && !found {
		why = reasonMissing
	}
	if why != "" {
		return at, why
	}
	at, ok := t.parse(text)
	if !ok {
		return at, reasonTime + " " + strconv.Quote(t.format)
	}
	return at, ""
}
