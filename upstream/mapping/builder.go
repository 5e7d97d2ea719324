package mapping

import (
	"cmp"
	"slices"
)

// Builder maps the replies of one fetch to a list of inquiries. It is not safe for concurrent use.
type Builder struct {
	reader
	Counts                 // of records that are not in List
	List    []Inquiry      // never nil; in the order of the legacy
	Removed map[string]int // internal ids, by field

	plan         *Plan
	mapper       mapper
	want         Query
	recordNumber int             // of the record that is evaluated, from 1
	stageIndex   int             // of the plan's stage that records wait in
	waiting      []waitingRecord // in the order of the legacy
	rowIndex     map[string]int  // of the record in waiting, by what its rows have in common
	// explainer observes the outcome of each record, none of which then ends the list. Nil: the list is for a caller.
	explainer *Explainer
}

// Counts are the records of a list that are not served.
type Counts struct {
	Skipped map[string]int // invalid records, by field
	Foreign int            // records of another account
	Hidden  int            // records that do not meet where
}

// NewBuilder returns a Builder for the list of one request.
func (p *Plan) NewBuilder(want Query) *Builder {
	b := &Builder{plan: p, want: want, List: []Inquiry{}}
	b.mapper = mapper{plan: p, allow: func(bytes int) bool { return b.allowLookup(bytes) == nil }}
	b.ids.Patterns = p.idPatterns
	b.begin(&p.Replies, b.addListed)
	return b
}

// Take maps one reply, and adds its records to the list. The strings of the inquiries share
// memory with body. An error is an [*Error]; then the list is not to be used.
func (b *Builder) Take(body string) (Page, error) { return b.readPage(body) }

// addListed adds a record of the list.
func (b *Builder) addListed(e *element) *Error {
	if double, err := b.countElement(e); err != nil || double {
		return err
	}
	b.recordNumber = b.Seen
	return b.enterStage(e, 0)
}

// addWhole evaluates a record that is complete, and adds it to the list if it is to be served.
func (b *Builder) addWhole(e *element) *Error {
	if len(b.List) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		b.List = slices.Grow(b.List, min(b.bytes/len(e.Raw())+1, b.MaxRecords))
		if b.responseItems != nil && b.mapper.responses == nil {
			b.mapper.responses = make([]Response, 0, cap(b.List))
		}
	}
	last := len(b.List)
	b.List = append(b.List, Inquiry{}) // where it will stay: it is large
	outcome, bad := b.mapper.evaluate(&b.List[last], e, &b.want)
	if outcome != outcomeServed {
		b.List = b.List[:last]
	}
	return b.recordOutcome(e, outcome, bad)
}

// recordOutcome counts the outcome of a record. Its error ends the list.
func (b *Builder) recordOutcome(e *element, outcome outcome, bad Violation) *Error {
	bad.Record = b.recordNumber
	if b.explainer != nil && outcome != outcomeWaiting {
		b.explainer.explainRecord(e, outcome, bad)
	}
	switch {
	case b.err != nil:
		return b.err
	case outcome == outcomeHidden:
		b.Hidden++
	case outcome == outcomeForeign:
		if b.Foreign++; !b.plan.dropForeign {
			return b.fail(newError("owner", "record %d: %s", bad.Record, bad.Problem))
		}
	case outcome == outcomeInvalid:
		if b.Skipped == nil {
			b.Skipped = make(map[string]int)
		}
		// Without an owner it must not be dropped silently: the path may be wrong, and lose all of the list.
		if b.Skipped[bad.Field]++; !b.plan.skipsInvalid || bad.Problem == reasonNoOwner && !b.plan.dropForeign {
			return b.fail(newError("record", "record %d: %s: %s", bad.Record, bad.Field, bad.Problem))
		}
	}
	return nil
}

// fail ends the list with an error. For an Explainer it goes on, and the first error is what a
// caller's list would have ended with.
func (b *Builder) fail(why *Error) *Error {
	if b.explainer == nil {
		return why
	}
	b.explainer.FirstError = cmp.Or(b.explainer.FirstError, why)
	return nil
}

// EachDefaulted visits the fields that were missing or null in records, so that their default or null is served, and responses, if
// records had none. n is the number of records or responses.
func (b *Builder) EachDefaulted(visit func(field string, n int)) {
	if n := b.mapper.withoutResponses; n > 0 {
		visit("responses", n)
	}
	for _, t := range b.plan.allTexts() {
		if n := b.mapper.defaulted[t.index]; n > 0 {
			visit(t.name, n)
		}
	}
}

// RemoveIDs removes the internal ids of all records from the texts of the list, and counts them by field in Removed. It must be
// called after the last reply, because one record may quote another's id. Fields with values of the configuration
// only, such as a status with values, are left as they are.
func (b *Builder) RemoveIDs() {
	if b.ids.Empty() {
		return
	}
	clean := func(t *textField, s *string) {
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

// eachText visits the texts of an inquiry that may have an internal id in them, see
// [textField.mayContainIDs]. visit may change them. Empty texts are left out.
func (p *Plan) eachText(inq *Inquiry, visit func(*textField, *string)) {
	one := func(t *textField, s *string) {
		if t != nil && *s != "" && t.mayContainIDs() {
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
		one(p.responses.responderType, &inq.Responses[j].ResponderType.String)
	}
}
