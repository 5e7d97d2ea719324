package mapping

import (
	"slices"
	"strings"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
)

// stage is something that all records of a list wait for before they are judged: the other rows
// of each, details, or responses. What comes for a record becomes a member of it.
type stage struct {
	name   string         // one of the three
	member string         // its name
	one    bool           // one thing comes for each record, and must; else an array does
	id     identity       // of a record: what comes is found by it
	noID   Violation      // of a record without one
	second *SecondRequest // the requests for it; nil: it comes with the list
}

// The stages.
const (
	stageRows      = "rows"
	stageDetails   = "details"
	stageResponses = "responses"
)

// SecondRequest is how the details of a list's records, or the responses to them, are asked for. It is read-only and safe for concurrent use.
type SecondRequest struct {
	Replies
	Name        string // of its stage
	Concurrency int    // requests at a time

	id         identity // of a record
	version    locators // of what came for a record; nil: it has none
	idOptional bool     // a record without one is not asked for
	batch      int      // records per request; 0: one
	key        locators // in a batch: where an element has the id of its record
}

// identity is what tells a record from others: values of it, by the placeholders of further requests.
type identity []idValue

type idValue struct {
	placeholder string
	path        string // as it was written
	at          locator
}

// idSeparator stands between several values in the one text that identifies a record.
const idSeparator = "\x00"

// bareID is the member that a record has which came as a bare id.
const bareID = "id"

// scalarID reads a value as an id: empty where nothing, null or an empty text is. single is false
// for what cannot be one.
func scalarID(v jsonwalk.Value) (id string, single bool) {
	if id = v.Plain(); id != "" && !v.Scalar() {
		return "", false
	}
	return id, true
}

// of gives the text that identifies a record: empty where a value of it is missing. single is false
// where one cannot be an id.
func (all identity) of(f *jsonwalk.Frame) (id string, single bool) {
	if len(all) == 1 && all[0].path == bareID && f.Element.Kind != jsonwalk.Object {
		return scalarID(f.Element) // as the record that it becomes has it
	}
	for i, one := range all {
		text, single := scalarID(one.at.find(f))
		switch {
		case text == "":
			return "", single
		case len(all) > 1 && strings.Contains(text, idSeparator):
			return "", false
		case i > 0:
			id += idSeparator
		}
		id += text
	}
	return id, true
}

// paths are where the values stand, for a person.
func (all identity) paths() string {
	paths := make([]string, len(all))
	for i, one := range all {
		paths[i] = one.path
	}
	return strings.Join(paths, ", ")
}

// displayID is the text for a person.
func displayID(id string) string { return strings.ReplaceAll(id, idSeparator, ", ") }

// Batch is what one request, or one for each page, is made for.
type Batch struct {
	IDs []string // of records
	// Version is that of the one record: while it is the same, what came for it is. Empty: it has none.
	Version string
}

// Request gives the request for what belongs to the records of a batch, and what takes the
// replies to it.
func (s *SecondRequest) Request(account string, batch Batch) (PagedRequest, *Attachment) {
	values := address.Values{address.Account: {account}}
	if s.batch > 0 {
		values[address.IDs] = batch.IDs
	} else {
		for i, value := range strings.SplitN(batch.IDs[0], idSeparator, len(s.id)) {
			values[s.id[i].placeholder] = []string{value}
		}
	}
	a := &Attachment{key: s.key}
	a.begin(&s.Replies, a.add)
	return PagedRequest{&s.request, values, true}, a
}

// Attachment is what came for the records of one batch.
type Attachment struct {
	reader
	key   locators
	parts []attachedPart
}

// attachedPart is a row, detail or response that belongs to a record.
type attachedPart struct {
	key    string // the id of the record, where it came in a batch
	value  jsonwalk.Value
	tables []map[string]jsonwalk.Value // that its fields are looked up in
}

// Take reads one reply. An error is an [*Error]; then the attachment is not to be used.
func (a *Attachment) Take(body string) (Page, error) { return a.readPage(body) }

// CheckEnd refuses what is not whole. An error is an [*Error].
func (a *Attachment) CheckEnd(end End) error { return a.checkEnd(end) }

// add keeps an element until it is put to its record.
func (a *Attachment) add(e element) *Error {
	a.parts = append(a.parts, attachedPart{a.key.first(e.Frame).Plain(), e.Element, e.Tables})
	return a.countElement(e)
}

// waitingRecord is a record in a stage.
type waitingRecord struct {
	id      string // empty: nothing can belong to it
	version string
	record  jsonwalk.Value
	parts   []attachedPart
	number  int
	tables  []map[string]jsonwalk.Value
}

// enterStage takes a record into a stage, with what the stages before have given it: unless it is
// known by that not to be shown, it waits.
func (b *Builder) enterStage(e element, nth int) *Error {
	if nth == len(b.plan.stages) {
		return b.addWhole(e)
	}
	s := &b.plan.stages[nth]
	fate, bad := b.judgeBefore(s, e)
	id, single := s.id.of(e.Frame)
	e.beforeDetail = s.name != stageResponses // whose records are judged before
	record := e.Element
	if record.Kind != jsonwalk.Object { // a bare id becomes a record
		record = jsonwalk.ObjectOf(bareID, record)
	}
	switch {
	case fate != fateServed:
	case id == "" && !(single && s.second != nil && s.second.idOptional):
		fate, bad = fateInvalid, s.noID
	case record.At(s.member).Kind != jsonwalk.Missing:
		fate, bad = fateInvalid, Violation{Field: "record", Problem: whyOwnMember}
	default:
		fate = fateWaiting
		one := waitingRecord{id: id, record: record, number: b.recordNumber, tables: e.Tables}
		if s.second != nil {
			one.version, _ = scalarID(s.second.version.first(e.Frame))
		}
		b.addWaiting(s, one)
	}
	return b.countFate(e, fate, bad)
}

// judgeBefore says what becomes of a record by what it has before a stage: each row has to be the
// account's, details are not asked for where the list shows that the record is not, and responses
// only for one that is shown.
func (b *Builder) judgeBefore(s *stage, e element) (fate, Violation) {
	switch object := e.Element.Kind == jsonwalk.Object; {
	case s.name == stageResponses:
		return b.plan.scratchMapper().judge(&Inquiry{}, e, &b.want)
	case s.name == stageRows && !object:
		return fateInvalid, Violation{Field: "record", Problem: whyObject}
	case s.name == stageRows:
		return b.plan.judgeOwner(e.Frame, b.want.Account)
	case b.plan.ownerInList && object:
		return b.plan.judgeShown(e.Frame, b.want.Account, true)
	}
	return fateServed, Violation{}
}

// addWaiting adds a record to those that wait. A further row is added to its record.
func (b *Builder) addWaiting(s *stage, one waitingRecord) {
	if s.second == nil {
		if at, known := b.rowIndex[one.id]; known {
			b.waiting[at].parts = append(b.waiting[at].parts, attachedPart{value: one.record, tables: one.tables})
			return
		}
		if b.rowIndex == nil {
			b.rowIndex = map[string]int{}
		}
		b.rowIndex[one.id] = len(b.waiting)
	}
	b.waiting = append(b.waiting, one)
}

// CheckEnd refuses a list that is not whole, and takes the records that wait for nothing else.
// An error is an [*Error].
func (b *Builder) CheckEnd(end End) error {
	if err := b.checkEnd(end); err != nil {
		return err
	}
	return b.advance()
}

// advance completes stages up to the next one that requests are to be made for.
func (b *Builder) advance() error {
	for b.stageIndex < len(b.plan.stages) && len(b.toAskFor()) == 0 {
		if err := b.completeStage(); err != nil {
			return err
		}
	}
	return nil
}

// toAskFor are the waiting records that requests are to be made for.
func (b *Builder) toAskFor() (all []*waitingRecord) {
	for i := range b.waiting {
		if b.waiting[i].id != "" && b.plan.stages[b.stageIndex].second != nil {
			all = append(all, &b.waiting[i])
		}
	}
	return all
}

// Next gives the requests that are to be made next; nil: there is nothing to ask for.
// [Builder.Attach] takes the replies.
func (b *Builder) Next() (s *SecondRequest, batches []Batch) {
	if b.stageIndex == len(b.plan.stages) || len(b.toAskFor()) == 0 {
		return nil, nil
	}
	s = b.plan.stages[b.stageIndex].second
	for some := range slices.Chunk(b.toAskFor(), max(s.batch, 1)) {
		batch := Batch{Version: some[0].version}
		for _, one := range some {
			batch.IDs = append(batch.IDs, one.id)
		}
		batches = append(batches, batch)
	}
	return s, batches
}

// Attach gives the records what came for them, one attachment for each of the batches. One id
// may stand for several records: each of them gets all. An error is an [*Error].
func (b *Builder) Attach(list []*Attachment) error {
	s, batches := b.Next()
	records, at := map[string][]*waitingRecord{}, 0
	for i, a := range list {
		clear(records)
		for n := len(batches[i].IDs); n > 0; at++ {
			if one := &b.waiting[at]; one.id != "" {
				records[one.id] = append(records[one.id], one)
				n--
			}
		}
		b.ids.Merge(&a.ids)
		b.bytes += a.bytes // with which what look-ups give is compared
		for _, p := range a.parts {
			if s.batch == 0 {
				p.key = batches[i].IDs[0]
			}
			if len(records[p.key]) == 0 { // it could be somebody else's
				return newError("record", "%s came for a record that was not asked for, or without its id", s.Name)
			}
			for _, one := range records[p.key] {
				one.parts = append(one.parts, p)
			}
		}
	}
	if err := b.completeStage(); err != nil {
		return err
	}
	return b.advance()
}

// completeStage gives each waiting record what has come for it, and takes it into the next stage.
func (b *Builder) completeStage() error {
	s, list, next := &b.plan.stages[b.stageIndex], b.waiting, b.stageIndex+1
	b.waiting, b.stageIndex = nil, next
	for _, one := range list {
		b.deliver = func(e element) *Error { return b.enterStage(e, next) }
		values := make([]jsonwalk.Value, len(one.parts))
		b.responseTables = b.responseTables[:0]
		for i, p := range one.parts {
			values[i] = p.value
			b.responseTables = append(b.responseTables, p.tables)
		}
		record := one.record
		switch {
		case one.id == "":
		case !s.one:
			record = record.With(s.member, jsonwalk.ArrayOf(values...))
		case len(values) == 1:
			record = record.With(s.member, values[0])
		case len(values) > 1:
			return newError("record", "two details of one record came")
		default:
			b.deliver = b.addWithoutDetail
		}
		if s.name == stageDetails {
			b.responseTables = b.responseTables[:0] // a detail is no response
		}
		b.recordNumber = one.number
		b.setTables(one.tables)
		_, err := b.walker.WalkItem(record.Raw(), b.plan.record)
		if failed := b.walkError(err); failed != nil {
			return failed
		}
	}
	b.responseTables = nil
	return nil
}

// addWithoutDetail takes a record for which no detail came.
func (b *Builder) addWithoutDetail(e element) *Error {
	return b.countFate(e, fateInvalid, Violation{Field: "details", Problem: whyNoDetail})
}
