package mapping

import (
	"cmp"
	"maps"
	"slices"
)

// Builder makes a list of inquiries of the replies that it comes in. It belongs to one
// fetch and is not safe for concurrent use.
type Builder struct {
	reader
	Counts                 // of what was met
	List    []Inquiry      // never nil; in the order of the legacy
	Removed map[string]int // internal ids, by field

	plan    *Plan
	mapper  mapper
	want    Want
	number  int            // of the record that is judged
	stage   int            // of the plan, that records wait in
	waiting []waiting      // in the order of the legacy
	rows    map[string]int // which of these rows are of
	// observe is told what became of each record, after it was judged. With it no record ends
	// the list. Nil: nobody asks.
	observe *Explainer
}

// Counts are what a list had in it besides good records.
type Counts struct {
	Skipped map[string]int // records that were refused, by field
	Foreign int            // records of another account
	Hidden  int            // records that where does not show
}

// NewBuilder prepares the mapping of one list.
func (p *Plan) NewBuilder(want Want) *Builder {
	b := &Builder{plan: p, want: want, List: []Inquiry{}}
	b.mapper = mapper{plan: p, allow: b.allow}
	b.ids.Patterns = p.idPatterns
	b.begin(&p.Replies, b.listed)
	return b
}

// Take maps one reply, and adds its records to the list. The strings of the inquiries share
// memory with body. An error is an [*Error]; then the list is not to be used.
func (b *Builder) Take(body string) (page Page, err error) {
	counts, kept := b.Counts, len(b.List)
	counts.Skipped = maps.Clone(counts.Skipped)
	before := b.Seen
	if page, err = b.readPage(body); err != nil && b.Seen == before { // it is not UTF-8
		b.Counts, b.List = counts, b.List[:kept]
	}
	return page, err
}

// listed takes a record as the list tells of it.
func (b *Builder) listed(e element) *Error {
	if err := b.count(e); err != nil {
		return err
	}
	b.number = b.Seen
	return b.enter(e, 0)
}

// whole takes a record of which all is there, and puts it into the list if that is its place.
func (b *Builder) whole(e element) *Error {
	if len(b.List) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		b.List = slices.Grow(b.List, min(b.bytes/len(e.Element.Raw())+1, b.MaxRecords))
		if b.inner != nil && b.mapper.made == nil {
			b.mapper.made = make([]Response, 0, cap(b.List))
		}
	}
	last := len(b.List)
	b.List = append(b.List, Inquiry{}) // where it will stay: it is large
	fate, bad := b.mapper.judge(&b.List[last], e, &b.want)
	if fate != taken {
		b.List = b.List[:last]
	}
	return b.settle(e, fate, bad)
}

// settle counts what became of a record. An error ends the list.
func (b *Builder) settle(e element, fate fate, bad Violation) *Error {
	bad.Record = b.number
	if b.observe != nil && fate != waits {
		b.observe.record(e, fate, bad)
	}
	switch {
	case b.err != nil:
		return b.err
	case fate == hidden:
		b.Hidden++
	case fate == foreign:
		if b.Foreign++; !b.plan.dropForeign {
			return b.ends(refusal("owner", "record %d: %s", bad.Record, bad.Problem))
		}
	case fate == refused:
		return b.refuse(bad, refusal("record", "record %d: %s: %s", bad.Record, bad.Field, bad.Problem))
	}
	return nil
}

// refuse counts a record that breaks the rules, and ends the list if the
// configuration does not say to skip it.
func (b *Builder) refuse(bad Violation, why *Error) *Error {
	if b.Skipped == nil {
		b.Skipped = make(map[string]int)
	}
	b.Skipped[bad.Field]++
	if b.plan.skipInvalid {
		return nil
	}
	return b.ends(why)
}

// ends refuses the list. For an Explainer it goes on, and the first reason is what a caller's
// list would have ended with.
func (b *Builder) ends(why *Error) *Error {
	if b.observe == nil {
		return why
	}
	b.observe.Refusal = cmp.Or(b.observe.Refusal, why)
	return nil
}

// EachDefaulted visits the texts that had nothing, or null, at their paths, with how
// often: the default was taken, or null.
func (b *Builder) EachDefaulted(visit func(field string, n int)) {
	for _, t := range b.plan.allTexts() {
		if n := b.mapper.defaulted[t.nth]; n > 0 {
			visit(t.name, n)
		}
	}
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
	clean := func(t *textField, s *string) {
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
		b.Removed[t.name] += n
	}
	for i := range b.List {
		b.plan.eachText(&b.List[i], clean)
	}
}

// eachText visits the texts of an inquiry that the legacy decides on. Only those may
// hold an internal id. It may change them. Empty texts are left out.
func (p *Plan) eachText(inq *Inquiry, visit func(*textField, *string)) {
	one := func(t *textField, s *string) {
		if t != nil && *s != "" && t.guarded() {
			visit(t, s)
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
