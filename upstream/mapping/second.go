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
	name   string    // one of the three
	member string    // its name
	one    bool      // one thing comes for each record, and must; else an array does
	id     identity  // of a record: what comes is found by it
	noID   Violation // of a record without one
	second *Second   // the requests for it; nil: it comes with the list
}

// The stages.
const (
	stageRows      = "rows"
	stageDetails   = "details"
	stageResponses = "responses"
)

// Second is how the details of a list's records, or the responses to them, are asked for by
// further requests. It is read-only and safe for concurrent use.
type Second struct {
	Replies
	Name        string // of its stage
	Concurrency int    // requests at a time

	id         identity // of a record
	version    sources  // of what came for a record; nil: it has none
	idOptional bool     // a record without one is not asked for
	batch      int      // records per request; 0: one
	key        sources  // in a batch: where an element has the id of its record
}

// identity is what tells a record from others: values of it, by the placeholders of further requests.
type identity []idValue

type idValue struct {
	placeholder string
	path        string // as it was written
	at          source
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

// shownID is the text for a person.
func shownID(id string) string { return strings.ReplaceAll(id, idSeparator, ", ") }

// Batch is what one request, or one for each page, is made for.
type Batch struct {
	IDs []string // of records
	// Version is that of the one record: while it is the same, what came for it is. Empty: it has none.
	Version string
}

// Request gives the requests for what belongs to the records of a batch, and what takes the
// replies.
func (s *Second) Request(account string, batch Batch) (Asking, *Attachment) {
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
	return Asking{&s.request, values, true}, a
}

// Attachment is what came for the records of one batch.
type Attachment struct {
	reader
	key   sources
	parts []attached
}

// attached is something that belongs to a record: a row, its detail or a response.
type attached struct {
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
	a.parts = append(a.parts, attached{a.key.first(e.Frame).Plain(), e.Element, e.Tables})
	return a.count(e)
}

// waiting is a record before all that belongs to it is there.
type waiting struct {
	id      string // empty: nothing can belong to it
	version string
	record  jsonwalk.Value
	parts   []attached
	number  int
	tables  []map[string]jsonwalk.Value
}

// enter takes a record that has what the stages before gave it: if nothing is known against it, it
// waits for what belongs to it.
func (b *Builder) enter(e element, nth int) *Error {
	if nth == len(b.plan.stages) {
		return b.whole(e)
	}
	s := &b.plan.stages[nth]
	fate, bad := b.judgeBefore(s, e)
	id, single := s.id.of(e.Frame)
	e.early = s.name != stageResponses // whose records are judged before
	record := e.Element
	if record.Kind != jsonwalk.Object { // a bare id becomes a record
		record = jsonwalk.ObjectOf(bareID, record)
	}
	switch {
	case fate != taken:
	case id == "" && !(single && s.second != nil && s.second.idOptional):
		fate, bad = refused, s.noID
	case record.At(s.member).Kind != jsonwalk.Missing:
		fate, bad = refused, Violation{Field: "record", Problem: whyOwnMember}
	default:
		fate = waits
		one := waiting{id: id, record: record, number: b.number, tables: e.Tables}
		if s.second != nil {
			one.version, _ = scalarID(s.second.version.first(e.Frame))
		}
		b.wait(s, one)
	}
	return b.settle(e, fate, bad)
}

// judgeBefore says what becomes of a record by what it has before a stage: each row has to be the
// account's, details are not asked for where the list shows that the record is not, and responses
// only for one that is shown.
func (b *Builder) judgeBefore(s *stage, e element) (fate, Violation) {
	switch object := e.Element.Kind == jsonwalk.Object; {
	case s.name == stageResponses:
		return b.plan.scratch().judge(&Inquiry{}, e, &b.want)
	case s.name == stageRows && !object:
		return refused, Violation{Field: "record", Problem: whyObject}
	case s.name == stageRows:
		return b.plan.owned(e.Frame, b.want.Account)
	case b.plan.told && object:
		return b.plan.belongs(e.Frame, b.want.Account, true)
	}
	return taken, Violation{}
}

// wait keeps a record, or puts a row to the one that it belongs to.
func (b *Builder) wait(s *stage, one waiting) {
	if s.second == nil {
		if at, known := b.rows[one.id]; known {
			b.waiting[at].parts = append(b.waiting[at].parts, attached{value: one.record, tables: one.tables})
			return
		}
		if b.rows == nil {
			b.rows = map[string]int{}
		}
		b.rows[one.id] = len(b.waiting)
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

// advance goes on to the next stage that requests are made for.
func (b *Builder) advance() error {
	for b.stage < len(b.plan.stages) && len(b.asked()) == 0 {
		if err := b.complete(); err != nil {
			return err
		}
	}
	return nil
}

// asked are the records that requests are to be made for.
func (b *Builder) asked() (all []*waiting) {
	for i := range b.waiting {
		if b.waiting[i].id != "" && b.plan.stages[b.stage].second != nil {
			all = append(all, &b.waiting[i])
		}
	}
	return all
}

// Next gives the requests that are to be made next; nil: there is nothing to ask for.
// [Builder.Attach] takes the replies.
func (b *Builder) Next() (s *Second, batches []Batch) {
	if b.stage == len(b.plan.stages) || len(b.asked()) == 0 {
		return nil, nil
	}
	s = b.plan.stages[b.stage].second
	for some := range slices.Chunk(b.asked(), max(s.batch, 1)) {
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
	records, at := map[string][]*waiting{}, 0
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
				return refusal("record", "%s came for a record that was not asked for, or without its id", s.Name)
			}
			for _, one := range records[p.key] {
				one.parts = append(one.parts, p)
			}
		}
	}
	if err := b.complete(); err != nil {
		return err
	}
	return b.advance()
}

// complete gives all records that wait what belongs to them, and takes them into the next stage.
func (b *Builder) complete() error {
	s, list, next := &b.plan.stages[b.stage], b.waiting, b.stage+1
	b.waiting, b.stage = nil, next
	for _, one := range list {
		b.take = func(e element) *Error { return b.enter(e, next) }
		values := make([]jsonwalk.Value, len(one.parts))
		b.partTables = b.partTables[:0]
		for i, p := range one.parts {
			values[i] = p.value
			b.partTables = append(b.partTables, p.tables)
		}
		record := one.record
		switch {
		case one.id == "":
		case !s.one:
			record = record.With(s.member, jsonwalk.ArrayOf(values...))
		case len(values) == 1:
			record = record.With(s.member, values[0])
		case len(values) > 1:
			return refusal("record", "two details of one record came")
		default:
			b.take = b.detailless
		}
		if s.name == stageDetails {
			b.partTables = b.partTables[:0] // a detail is no response
		}
		b.number = one.number
		b.lookIn(one.tables)
		_, err := b.walker.WalkItem(record.Raw(), b.plan.record)
		if refused := b.walked(err); refused != nil {
			return refused
		}
	}
	b.partTables = nil
	return nil
}

// detailless takes a record for which no detail came.
func (b *Builder) detailless(e element) *Error {
	return b.settle(e, refused, Violation{Field: "details", Problem: whyNoDetail})
}
