package mapping

import (
	"cmp"
	"maps"
	"slices"

	"inquiry-gateway/upstream/jsonwalk"
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
	waiting []waiting      // records that wait for their details, or for their rows
	rows    map[string]int // which of these rows are of
	asking  []asked        // inquiries of the list whose responses come by a second request
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

// waiting is a record before its detail, or all of its rows, are there.
type waiting struct {
	id     string
	record jsonwalk.Value
	rows   []jsonwalk.Value // the others
	number int
	tables []map[string]jsonwalk.Value
}

// asked is an inquiry whose responses are asked for.
type asked struct {
	id       string
	inquiry  int      // of the list
	compared []string // see mapper
}

// NewBuilder prepares the mapping of one list.
func (p *Plan) NewBuilder(want Want) *Builder {
	b := &Builder{plan: p, want: want, List: []Inquiry{}}
	b.mapper = mapper{plan: p, allow: b.allow}
	b.ids.Patterns = p.idPatterns
	b.begin(&p.Replies, "record", b.listed)
	return b
}

// Take maps one reply, adds its records to the list, and returns how many it had.
// The strings of the inquiries share memory with body. An error is an [*Error];
// then the list is not to be used.
func (b *Builder) Take(body string) (records int, err error) {
	counts, kept := b.Counts, len(b.List)
	counts.Skipped = maps.Clone(counts.Skipped)
	before := b.Seen
	if records, err = b.reader.Take(body); err != nil && b.Seen == before { // it is not UTF-8
		b.Counts, b.List = counts, b.List[:kept]
	}
	return records, err
}

// listed takes a record as the list tells of it.
func (b *Builder) listed(e element) *Error {
	if err := b.count(e); err != nil {
		return err
	}
	b.number = b.Seen
	switch {
	case b.plan.group != nil:
		return b.row(e)
	case b.plan.Details != nil:
		return b.detailed(e)
	}
	return b.whole(e)
}

// detailed keeps a record for the time when its detail is there.
func (b *Builder) detailed(e element) *Error {
	d, object := b.plan.Details, e.Element.Kind == jsonwalk.Object
	id, state := d.id.of(e.Frame)
	if d.idPath == bareID && !object {
		id, state = scalarID(e.Element) // as the record that it becomes has it
	}
	if d.idOptional && object && state == idMissing {
		return b.whole(e)
	}
	e.early = true
	fate, bad := taken, Violation{}
	if b.plan.told && object {
		fate, bad = b.plan.belongs(e.Frame, b.want.Account, true)
	}
	switch {
	case fate != taken:
	case state != idThere:
		fate, bad = refused, Violation{Field: "details", Problem: whyNoDetailID}
	default:
		fate = waits
		b.waiting = append(b.waiting, waiting{id: id, record: e.Element, number: b.number, tables: e.Tables})
	}
	return b.settle(e, fate, bad)
}

// row keeps a row until all rows of its record are there. Each must be the account's.
func (b *Builder) row(e element) *Error {
	e.early = true
	if e.Element.Kind != jsonwalk.Object {
		return b.settle(e, refused, Violation{Field: "record", Problem: whyObject})
	}
	fate, bad := b.plan.owned(e.Frame, b.want.Account)
	if fate != taken {
		return b.settle(e, fate, bad)
	}
	id, state := scalarID(b.plan.group.first(e.Frame))
	switch {
	case state != idThere:
		return b.settle(e, refused, Violation{Field: "record", Problem: whyNoGroup})
	case e.Element.At(rowsMember).Kind != jsonwalk.Missing:
		return b.settle(e, refused, Violation{Field: "record", Problem: whyRows})
	}
	if b.rows == nil {
		b.rows = map[string]int{}
	}
	if at, known := b.rows[id]; known {
		b.waiting[at].rows = append(b.waiting[at].rows, e.Element)
	} else {
		b.rows[id] = len(b.waiting)
		b.waiting = append(b.waiting, waiting{id: id, record: e.Element, number: b.number, tables: e.Tables})
	}
	return nil
}

// rowsMember is the member of a record that has its other rows.
const rowsMember = "rows"

// CheckEnd refuses a list that is not whole, see there, and takes the records of which all rows
// are there now.
func (b *Builder) CheckEnd(end End) error {
	if err := b.reader.CheckEnd(end); err != nil {
		return err
	}
	return b.group()
}

// group takes the records that came as rows.
func (b *Builder) group() error {
	for i := 0; i < len(b.waiting) && b.plan.group != nil; i++ {
		one := b.waiting[i]
		b.take = b.whole
		if err := b.complete(one, rowsMember, jsonwalk.ArrayOf(one.rows...)); err != nil {
			return err
		}
	}
	if b.plan.group != nil {
		b.waiting = nil
	}
	return nil
}

// complete takes a record with what it waited for as a member.
func (b *Builder) complete(one waiting, name string, rest jsonwalk.Value) error {
	b.number = one.number
	b.lookIn(one.tables)
	_, err := b.walker.WalkItem(one.record.With(name, rest).Raw(), b.plan.merged)
	if refused := b.walked(err); refused != nil {
		return refused
	}
	return nil
}

// whole judges a record of which all is there, and puts it into the list if that is its place.
func (b *Builder) whole(e element) *Error {
	if e.Element.Kind != jsonwalk.Object {
		return b.settle(e, refused, Violation{Field: "record", Problem: whyObject})
	}
	fate, bad := b.plan.belongs(e.Frame, b.want.Account, false)
	if fate != taken {
		return b.settle(e, fate, bad)
	}
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
	inq := &b.List[last]
	if bad = b.mapper.record(inq, e); bad.Problem != "" {
		fate = refused
	} else if !b.want.has(inq) {
		fate = unasked
	} else if b.plan.Responses != nil {
		switch id, state := b.plan.Responses.id.of(e.Frame); {
		case state == idThere:
			b.asking = append(b.asking, asked{id, last, b.mapper.compared})
		case state == idWrong || !b.plan.Responses.idOptional:
			fate, bad = refused, Violation{Field: "responses", Problem: whyNoID}
		}
	}
	if fate != taken {
		b.mapper.made = b.mapper.made[:len(b.mapper.made)-len(inq.Responses)]
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

// has tells whether an inquiry is wanted, whatever the legacy was asked for.
func (w *Want) has(inq *Inquiry) bool {
	return (w.Status == "" || inq.Status == w.Status) &&
		(w.InquiryType == "" || inq.InquiryType.Valid && inq.InquiryType.String == w.InquiryType)
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
