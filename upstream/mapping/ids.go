package mapping

import (
	"regexp"
	"regexp/syntax"
	"slices"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// The bounds of internal_id_patterns: each one reads every text of a list.
const (
	maxIDPatterns     = 20
	maxIDPatternBytes = 200
)

// idPatterns are patterns of which only the groups are removed, if they have some.
func (c *compiler) idPatterns(field string, list []string) []*regexp.Regexp {
	for i, text := range list {
		c.AddIf(repeatsGroup(text), index(field, i), "a group is repeated, and only its last match would be removed; write (?:...) for what only holds the pattern together")
	}
	return c.patterns(field, list)
}

// patterns compiles what is removed from texts wherever it stands. Patterns past the
// bound, and those that match nothing visible, are refused.
func (c *compiler) patterns(field string, list []string) (compiled []*regexp.Regexp) {
	c.AddIf(len(list) > maxIDPatterns, field, "%d patterns; at most %d, join some with |", len(list), maxIDPatterns)
	for i, text := range list[:min(len(list), maxIDPatterns)] {
		at := index(field, i)
		if len(text) > maxIDPatternBytes {
			c.Add(at, "%d bytes; at most %d", len(text), maxIDPatternBytes)
			continue
		}
		p, err := regexp.Compile(text)
		if err != nil {
			continue // the tag form has told it
		}
		// \b matches nothing in an empty text, but between characters.
		c.AddIf(p.MatchString("") || p.FindString("a 0-") == "" && p.MatchString("a 0-"), at, "matches the empty text; name at least one character that must be there")
		compiled = append(compiled, p)
	}
	return compiled
}

// repeatsGroup tells whether a group that captures stands under a repetition.
func repeatsGroup(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && capturesWithin(tree, false)
}

func capturesWithin(re *syntax.Regexp, repeated bool) bool {
	if re.Op == syntax.OpCapture && repeated {
		return true
	}
	repeated = repeated || re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat
	return slices.ContainsFunc(re.Sub, func(inner *syntax.Regexp) bool { return capturesWithin(inner, repeated) })
}

// internalIDs puts the simple paths into the tree and gives the others back, which are
// looked up in each record.
func (c *compiler) internalIDs(field string, paths []string) (complex []source) {
	for i, path := range paths {
		if path == keyPath || !c.path(index(field, i), path) {
			continue
		}
		c.at.note(path)
		c.use(index(field, i), hidesIDs, false, path)
		id := source{path: path, xml: c.at.xml()}
		if keys, ok := jsonwalk.SimplePath(path, true); ok {
			c.root.At(keys, c.frame).MarkID(id.noID())
		} else {
			complex = append(complex, id)
		}
	}
	return complex
}

// each visits the ids in an element whose path is not simple.
func (s source) each(element string, visit func(string)) {
	jsonwalk.Lookup(element, s.path).Scalars(s.noID(), visit)
}

// noID begins the names of members that are no ids: of XML the attributes of an element, such
// as its type. A path may name one.
func (s source) noID() string {
	if s.xml {
		return decode.Attribute
	}
	return ""
}

// RemoveIDs removes the internal ids of the whole list from every text of it, and
// counts them by field in Removed. Call it after the last reply, because one
// record may quote another's id. Texts that come from the configuration, such as
// mapped status values, are left.
func (b *Builder) RemoveIDs() {
	if b.ids.Empty() {
		return
	}
	least := b.ids.Shortest()
	clean := func(d *field, s *string) {
		if len(*s) < least {
			return
		}
		text, n := b.ids.Clean(*s)
		if n == 0 {
			return
		}
		*s = text
		if b.Removed == nil {
			b.Removed = make(map[string]int)
		}
		b.Removed[d.name] += n
	}
	for i := range b.List {
		b.plan.eachText(&b.List[i], clean)
	}
}

// eachText visits the texts of an inquiry that the legacy decides on. Only those may
// hold an internal id. It may change them. Empty texts are left out.
func (p *Plan) eachText(inq *Inquiry, visit func(*field, *string)) {
	one := func(d *field, s *string) {
		if d != nil && *s != "" && d.guarded() {
			visit(d, s)
		}
	}
	one(p.title, &inq.Title)
	one(p.content, &inq.Content)
	one(p.status, &inq.Status)
	one(p.inquiryType, &inq.InquiryType.String)
	one(p.company, &inq.CompanyName)
	for j := range inq.Responses {
		one(p.responses.content, &inq.Responses[j].Content)
		one(p.responses.role, &inq.Responses[j].ResponderType.String)
	}
}
