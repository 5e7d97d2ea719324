package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// The frames of a reply: each level of lists has its own values.
const (
	frameReply = iota
	frameRecord
	frameResponse
	frameCount
)

// Builder makes a list of inquiries of the replies that it comes in. It belongs to one
// fetch and is not safe for concurrent use.
type Builder struct {
	List    []Inquiry // never nil; in the order of the legacy
	Counts            // of what was met
	Removed map[string]int
	// KeepSamples is how many responses of a second request are kept in Samples as they
	// came, refused ones too. 0: none.
	KeepSamples int
	Samples     []string

	// Allow is asked for more bytes where look-ups give more than what came, since an entry
	// may be named often; false refuses the list. Nil: there is no bound.
	Allow func(bytes int64) bool

	plan    *Plan
	want    Request
	walker  *jsonwalk.Walker
	texts   jsonwalk.Texts
	ids     leakguard.Set
	err     *Error         // why the walk was stopped
	tooMuch *Error         // why no record can be taken any more
	body    string         // the last reply
	bytes   int            // of all replies
	looked  int            // bytes that look-ups gave
	pages   int            // replies that were read
	met     []met          // the items of a list in pages
	held    jsonwalk.Value // what holds the items of the last reply
	number  int            // of the current record
	// notes is told what became of each record, after it was judged. With it no record
	// ends the list. Nil: nobody asks.
	notes *Explainer

	responses []Response           // of all records; each record has a part of it
	first     int                  // the current record's first response
	came      int                  // responses of the current record, those that are not shown included
	broken    violation            // of the current record's responses
	whole     map[aside]bool       // what was read beside responses and says that they are all
	keys      []string             // of each response's inquiry, in a batch; or of each detail's record
	spoilt    map[string]violation // in a batch: of inquiries that have a broken response, by their keys

	waiting   []waiting     // records that wait for their details; or details
	merging   bool          // their details are there
	noDetail  bool          // but that of the current record
	secondIDs []string      // of each inquiry of the list, if its responses come by a second request
	defaulted [maxTexts]int // records, or responses, without a value of each text
}

// Counts are what a list had in it besides good records.
type Counts struct {
	Seen    int            // records, those that were skipped or filtered included
	Skipped map[string]int // records that were refused, by field
	Foreign int            // records of another account
	Hidden  int            // records that where does not show
}

// EachDefaulted visits the texts that had nothing, or null, at their paths, with how
// often: the default was taken, or null.
func (b *Builder) EachDefaulted(visit func(field string, n int)) {
	texts := b.plan.texts()
	if p := b.plan.responses; p != nil {
		texts = append(texts, p.content, p.role)
	}
	for _, t := range texts {
		if n := b.defaulted[t.nth]; n > 0 {
			visit(t.name, n)
		}
	}
}

// NewBuilder prepares the mapping of one list.
func (p *Plan) NewBuilder(want Request) *Builder {
	b := &Builder{plan: p, want: want, List: []Inquiry{}}
	b.ids.Patterns = p.idPatterns
	b.walker = jsonwalk.NewWalker(b, &b.ids, &b.texts, p.sizes[:])
	return b
}

// Take maps one reply, adds its records to the list, and returns how many it had.
// The strings of the inquiries share memory with body. An error is an [*Error];
// then the list is not to be used.
func (b *Builder) Take(body string) (records int, err error) {
	before, kept, samples := b.Counts, len(b.List), len(b.Samples)
	before.Skipped = maps.Clone(before.Skipped)
	body = strings.TrimPrefix(body, "\ufeff") // .NET writes a mark that RFC 8259 lets us ignore
	failed := b.read(body)
	if failed == nil {
		return b.Seen - before.Seen, nil
	}
	if !utf8.ValidString(body) {
		// Whatever else is wrong with it: nothing of it has been seen.
		b.Counts, b.List, b.Samples = before, b.List[:kept], b.Samples[:samples]
		failed = refusal("json", "the reply is not UTF-8")
	}
	return 0, failed
}

// read walks one reply and says whether it is a list. Conditions and tables come first,
// since records are mapped while the text is walked. They are read where they stand, so that
// the text is checked before.
func (b *Builder) read(body string) *Error {
	b.body, b.held = body, jsonwalk.Value{}
	b.pages++
	b.bytes += len(body)
	b.walker.Clear(frameReply)
	if len(b.plan.expect) > 0 || len(b.plan.tables) > 0 {
		for _, read := range []func(string) *Error{b.check, b.expected, b.indexTables} {
			if err := read(body); err != nil {
				return err
			}
		}
	}
	if err := b.walk(body, b.plan.root, frameReply); err != nil {
		return err
	}
	if b.plan.single != "" {
		return b.takeDetail(body)
	}
	f, l, ok := b.walker.Frame(frameReply), &b.plan.items, false
	f.Element = body
	var err *Error
	b.held, ok, err = b.items(l, f, frameRecord)
	// An empty list is one thing, a reply that is no list another.
	switch {
	case b.tooMuch != nil:
		return b.tooMuch
	case err != nil:
		return err
	case ok || b.held.Kind == jsonwalk.Missing && l.optional:
		return nil
	case b.held.Kind == jsonwalk.Missing:
		return refusal("items", "the reply has nothing at the path of items")
	}
	return refusal("items", "the value at the path of items is no %s", l.kind)
}

// ItemsText is what holds the items of the last reply, as it came. It is empty where nothing
// is at their path, which items_optional allows.
func (b *Builder) ItemsText() string { return b.held.Raw }

// check walks a text of which nothing is wanted yet.
func (b *Builder) check(body string) *Error { return b.walk(body, &unwanted, frameReply) }

var unwanted jsonwalk.Node

// walk reads a text whose elements begin with the given frame. It may be called while
// another text is walked.
func (b *Builder) walk(s string, root *jsonwalk.Node, first int) *Error {
	return b.walked(b.walker.Walk(s, root, first))
}

// walked gives the refusal for what a walk ended with.
func (b *Builder) walked(err error) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonwalk.ErrStopped):
		return b.err
	default:
		return refusal("json", "%w", err)
	}
}

// Begin implements jsonwalk.Sink. What the walk meets until End is of this record or
// response.
func (b *Builder) Begin(frame int) {
	if frame == frameRecord {
		b.first, b.came, b.broken = len(b.responses), 0, violation{}
	} else {
		b.came++
	}
}

// End implements jsonwalk.Sink.
func (b *Builder) End(frame int, element *jsonwalk.Frame) bool {
	if frame == frameRecord {
		return b.record(element)
	}
	return b.response(element)
}

// violation is one reason why a record cannot be accepted. Its zero value is
// none.
type violation struct{ field, why string }

// Why a record cannot be accepted.
const (
	whyObject     = "not an object"
	whyList       = "not the array, or the object, that items says"
	whyNoOwner    = "no owner"
	whyNoID       = "no id to ask for the responses with"
	whyNoDetailID = "no id to ask for the details with"
	whyNoDetail   = "no detail came for the record"
	whyNoEntry    = "one of them has no entry in the table of lookup"
	whyStranger   = "another owner than the account"
	whyTooMuch    = "what look-ups give, as often as it is named, is larger than max_response_bytes"
)

// fate is what becomes of a record.
type fate uint8

const (
	taken   fate = iota
	waits        // for its detail
	unasked      // the request's filters leave it out
	hidden       // where does not show it
	foreign      // of another account
	refused      // it breaks a rule
)

// record takes one record. False ends the walk.
func (b *Builder) record(f *jsonwalk.Frame) bool {
	if !b.merging && !b.another("records", f) {
		return false
	}
	fate, bad := b.judge(f)
	if fate != taken {
		b.dropResponses()
	}
	if b.notes != nil && fate != waits {
		b.notes.noteRecord(f, fate, bad)
	}
	if b.tooMuch != nil {
		b.err = b.tooMuch
		return false
	}
	switch fate {
	case hidden:
		b.Hidden++
	case foreign:
		b.Foreign++
		return b.plan.dropForeign || b.ends(refusal("owner", "record %d: %s", b.number, bad.why))
	case refused:
		return b.refuse(bad, refusal("record", "record %d: %s: %s", b.number, bad.field, bad.why))
	case taken, waits, unasked:
	}
	return true
}

// another counts a record, and refuses the list that has too many.
func (b *Builder) another(what string, f *jsonwalk.Frame) bool {
	b.Seen++
	b.meet(f)
	if b.number = b.Seen; b.Seen <= b.plan.MaxRecords {
		return true
	}
	b.err = refusal("too_many", "more than %d %s", b.plan.MaxRecords, what)
	return false
}

// judge says what becomes of a record, and puts it into the list if that is its place.
// The order matters: ids are collected first, whatever becomes of the record, because other
// texts may quote it; the owner comes before the fields, so that a stranger's record is
// refused as that, whatever it holds; conditions do, so that a record that is not shown may
// be incomplete. A record that waits for its detail is judged by what the list tells of it,
// and again with the detail.
func (b *Builder) judge(f *jsonwalk.Frame) (fate, violation) {
	p := b.plan
	early := p.collect != nil && !b.merging
	for _, id := range p.items.ids {
		id.each(f.Element, b.ids.Add)
	}
	var held jsonwalk.Value // the responses
	if p.responses != nil && p.Second == nil {
		held = b.readResponses(f)
	}
	switch {
	case !f.IsObject() && !early:
		return refused, violation{"record", whyObject}
	case b.noDetail:
		return refused, violation{"details", whyNoDetail}
	}
	if !early || p.early && f.IsObject() {
		why := b.foreign(f)
		switch {
		case why == whyNoOwner && p.dropForeign:
			return refused, violation{"owner", why}
		case why != "":
			return foreign, violation{"owner", why}
		case p.items.where.unmet(f, early) != nil:
			return hidden, violation{}
		}
	}
	if early {
		return b.wait(f)
	}
	if len(b.List) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		b.List = slices.Grow(b.List, min(len(b.body)/len(f.Element)+1, p.MaxRecords))
	}
	last := len(b.List)
	b.List = append(b.List, Inquiry{}) // where it will stay: it is large
	inq := &b.List[last]
	bad := b.inquiry(inq, f, held)
	shown := b.wanted(inq)
	if bad.why == "" && shown && p.Second != nil {
		if id, ok := p.Second.id.of(f); ok {
			b.secondIDs = append(b.secondIDs, id)
		} else {
			bad = violation{"responses", whyNoID}
		}
	}
	switch {
	case bad.why != "":
		b.List = b.List[:last]
		return refused, bad
	case !shown:
		b.List = b.List[:last]
		return unasked, bad
	}
	return taken, bad
}

// foreign compares a record's owner with the account, byte by byte: accounts that differ
// in case are two accounts. It says why the record is not the account's; empty: it is.
func (b *Builder) foreign(f *jsonwalk.Frame) (why string) {
	if b.plan.owner == nil {
		return ""
	}
	switch v := b.plan.owner.first(f); {
	case !v.Present() || !v.Scalar():
		return whyNoOwner
	case v.String() == b.want.Account:
		return ""
	}
	return whyStranger
}

// wanted applies the filters.
func (b *Builder) wanted(inq *Inquiry) bool {
	return (b.want.Status == "" || inq.Status == b.want.Status) &&
		(b.want.InquiryType == "" || inq.InquiryType.Valid && inq.InquiryType.String == b.want.InquiryType)
}

// refuse counts a record that breaks the rules, and ends the list if the
// configuration does not say to skip it. False ends the walk.
func (b *Builder) refuse(bad violation, why *Error) bool {
	if b.Skipped == nil {
		b.Skipped = make(map[string]int)
	}
	b.Skipped[bad.field]++
	return b.plan.skipInvalid || b.ends(why)
}

// ends refuses the list, which ends the walk: false. For an Explainer it goes on, and the
// first reason is what a caller's list would have ended with.
func (b *Builder) ends(why *Error) bool {
	if b.notes == nil {
		b.err = why
		return false
	}
	b.notes.Refusal = cmp.Or(b.notes.Refusal, why)
	return true
}

// dropResponses takes back those of the current record.
func (b *Builder) dropResponses() {
	clear(b.responses[b.first:])
	b.responses = b.responses[:b.first]
}

// inquiry maps all fields of a record. The first mistake is told, and what follows it
// is not read. Its responses, which held has, were read before.
func (b *Builder) inquiry(inq *Inquiry, f *jsonwalk.Frame, held jsonwalk.Value) (bad violation) {
	p := b.plan
	inq.Title = b.text(p.title, f, &bad).String
	inq.Content = b.text(p.content, f, &bad).String
	inq.Status = b.text(p.status, f, &bad).String
	inq.InquiryType = b.text(p.inquiryType, f, &bad)
	inq.CompanyName = b.text(p.company, f, &bad).String
	if bad.why == "" {
		inq.CreatedAt, bad.why = p.created.moment(f)
		bad.field = p.created.name
	}
	if bad.why == "" && p.responses != nil && p.Second == nil {
		if bad = b.broken; bad.why == "" && p.responses.holder != nil {
			bad = p.responses.holder.checkEnd(b, f, held)
		}
		inq.Responses = b.responses[b.first:len(b.responses):len(b.responses)]
	}
	return bad
}

// text maps a text from where a mistake before makes all others none. A field that the
// kind has not is null. What was missing is counted.
func (b *Builder) text(d *field, f *jsonwalk.Frame, bad *violation) (s NullString) {
	if d == nil || bad.why != "" {
		return s
	}
	s, found, why := d.text(f)
	switch {
	case why != "":
		*bad = violation{d.name, why}
	case !found:
		b.defaulted[d.nth]++
	case d.looked && !b.allow(len(s.String)):
		*bad = violation{d.name, whyTooMuch}
	}
	return s
}

// allow counts what a look-up gives and tells whether it may be held.
func (b *Builder) allow(bytes int) bool {
	before := max(b.looked, b.bytes)
	b.looked += bytes
	if more := b.looked - before; b.tooMuch == nil && more > 0 && b.Allow != nil && !b.Allow(int64(more)) {
		b.tooMuch = refusal("too_large", whyTooMuch)
	}
	return b.tooMuch == nil
}

// readResponses finishes what the parser began when it passed the array: responses that it
// does not meet on its way are read here. It gives what holds them.
func (b *Builder) readResponses(f *jsonwalk.Frame) jsonwalk.Value {
	held, ok, err := b.items(&b.plan.responses.list, f, frameResponse)
	switch {
	case held.Present() && !ok:
		b.broken = violation{"responses", whyList}
	case err != nil:
		b.broken = violation{"responses", err.Error()}
	}
	return held
}

// response takes one response. False ends the walk. A mistake is kept until the record is
// judged: the array may stand before the record's owner in the text. The ids of all responses
// are collected, those after a mistake included.
func (b *Builder) response(f *jsonwalk.Frame) bool {
	if b.plan.onlyResponses && !b.another("responses", f) {
		return false
	}
	p := b.plan.responses
	for _, id := range p.ids {
		id.each(f.Element, b.ids.Add)
	}
	if b.broken.why != "" {
		return true
	}
	before := len(b.responses)
	bad := b.mapResponse(f)
	if p.key == nil {
		b.broken = bad
		return true
	}
	switch key := p.key.first(f).Plain(); {
	case bad.why == "" && len(b.responses) == before: // not shown
	case bad.why == "":
		b.keys = append(b.keys, key)
	case key == "": // whose it is cannot be told
		b.broken = bad
	default:
		if b.spoilt == nil {
			b.spoilt = map[string]violation{}
		}
		b.spoilt[key] = bad
	}
	return true
}

// mapResponse puts a response into the list, if it is shown.
func (b *Builder) mapResponse(f *jsonwalk.Frame) (bad violation) {
	p, most := b.plan.responses, entriesPerRecord*b.plan.MaxRecords
	switch {
	case b.came > most && !b.plan.onlyResponses:
		return violation{"responses", fmt.Sprintf("more than %d", most)}
	case !f.IsObject():
		return violation{"responses", whyObject}
	}
	if len(b.Samples) < b.KeepSamples {
		b.Samples = append(b.Samples, f.Element)
	}
	if p.where.unmet(f, false) != nil {
		return bad
	}
	if cap(b.responses) == 0 {
		b.responses = make([]Response, 0, max(1, cap(b.List)))
	}
	last := len(b.responses)
	b.responses = append(b.responses, Response{})
	one := &b.responses[last]
	one.Content = b.text(p.content, f, &bad).String
	one.ResponderType = b.text(p.role, f, &bad)
	if bad.why == "" {
		var why string
		if one.CreatedAt, why = p.created.moment(f); why != "" {
			bad = violation{p.created.name, why}
		}
	}
	if bad.why != "" {
		*one = Response{}
		b.responses = b.responses[:last]
	}
	return bad
}
