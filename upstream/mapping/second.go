package mapping

import (
	"slices"
	"strings"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// Second is how the responses to a list's inquiries, or the details of its records,
// are asked for by further requests. It is read-only and safe for concurrent use.
type Second struct {
	Replies
	Concurrency int // requests at a time

	id     identity // of a record
	idPath string   // as it was written
	batch  int      // records per request; 0: one
	key    sources  // in a batch: where an element has the id of its record

	idOptional bool // a record without one is not asked for
}

// identity is what a further request is made with: values of a record by their
// placeholders.
type identity []idValue

type idValue struct {
	placeholder string
	at          source
}

// idSeparator stands between several values in the one text that identifies a record.
const idSeparator = "\x00"

// idState tells whether an id is there.
type idState uint8

const (
	idThere   idState = iota
	idMissing         // nothing, null or an empty text
	idWrong           // no single value
)

// scalarID reads a value as an id.
func scalarID(v jsonwalk.Value) (id string, state idState) {
	switch id = v.Plain(); {
	case id == "":
		return "", idMissing
	case !v.Scalar():
		return "", idWrong
	}
	return id, idThere
}

// of gives the text that identifies a record.
func (all identity) of(f *jsonwalk.Frame) (id string, state idState) {
	for i, one := range all {
		text, state := scalarID(one.at.find(f))
		switch {
		case state != idThere:
			return "", state
		case len(all) > 1 && strings.Contains(text, idSeparator):
			return "", idWrong
		case i > 0:
			id += idSeparator
		}
		id += text
	}
	return id, idThere
}

// shownID is the text for a person.
func shownID(id string) string { return strings.ReplaceAll(id, idSeparator, ", ") }

// noID begins the names of members that are no ids: of XML the attributes of an element, such
// as its type. A path may name one.
func (s source) noID() string {
	if s.xml {
		return decode.Attribute
	}
	return ""
}

// Request gives the requests for what belongs to the records with the ids, and what
// takes the replies.
func (s *Second) Request(account string, ids []string) (Asking, *Attachment) {
	values := address.Values{address.Account: {account}}
	if s.batch > 0 {
		values[address.IDs] = ids
	} else {
		for i, value := range strings.SplitN(ids[0], idSeparator, len(s.id)) {
			values[s.id[i].placeholder] = []string{value}
		}
	}
	a := &Attachment{key: s.key}
	a.begin(&s.Replies, "response", a.add)
	return Asking{&s.request, values, true}, a
}

// batches are the ids of some records, as many together as one request asks for.
func (s *Second) batches(ids []string) [][]string {
	if s == nil || len(ids) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(ids, max(s.batch, 1)))
}

// Attachment is what came for the records of one batch.
type Attachment struct {
	reader
	key      sources
	elements []attached
	kept     jsonwalk.Slots
}

// attached is a response or a detail, with the id of its record where it came in a batch.
type attached struct {
	key    string
	hidden bool // where does not show it
	jsonwalk.Frame
}

// add keeps an element until it is put to its record.
func (a *Attachment) add(e element) *Error {
	if err := a.count(e); err != nil {
		return err
	}
	hidden := e.Element.Kind == jsonwalk.Object && a.items.where.unmet(e.Frame, false) != nil
	a.elements = append(a.elements, attached{a.key.first(e.Frame).Plain(), hidden, e.Keep(&a.kept)})
	return nil
}

// deal gives each record of a batch what came for it, by their indexes. One id may stand for
// several records: each of them gets all. What came for a record that was not asked for could be
// somebody else's: stranger.
func (s *Second) deal(ids []string, a *Attachment) (of [][]*attached, stranger *attached) {
	of = make([][]*attached, len(ids))
	records := make(map[string][]int, len(ids))
	for i, id := range ids {
		records[id] = append(records[id], i)
	}
	for i := range a.elements {
		one, all := &a.elements[i], []int{0}
		if s.batch > 0 {
			all = records[one.key]
		}
		if stranger == nil && len(all) == 0 && !one.hidden {
			stranger = one
		}
		for _, record := range all {
			of[record] = append(of[record], one)
		}
	}
	return of, stranger
}

// Batches are the ids of the list's inquiries, as many together as one further
// request asks for. It is empty if there is nothing to ask for.
func (b *Builder) Batches() [][]string {
	ids := make([]string, len(b.asking))
	for i, one := range b.asking {
		ids[i] = one.id
	}
	return b.plan.Responses.batches(ids)
}

// AddResponses gives the inquiries of the list the responses that came, one attachment for each
// of the batches. An error is an [*Error].
func (b *Builder) AddResponses(list []*Attachment) error {
	broken, next := map[int]bool{}, 0
	for i, ids := range b.Batches()[:len(list)] {
		a := list[i]
		b.ids.Merge(&a.ids)
		b.bytes += a.bytes // with which what look-ups give is compared
		of, stranger := b.plan.Responses.deal(ids, a)
		if stranger != nil {
			if bad := b.mapper.response(&stranger.Frame); stranger.key == "" && bad.Problem != "" {
				return refusal("record", "%s: %s", bad.Field, bad.Problem)
			}
			return refusal("record", "a response belongs to an inquiry that was not asked for")
		}
		for _, mine := range of {
			one := b.asking[next]
			next++
			bad := b.answer(one, mine)
			if b.err != nil {
				return b.err
			}
			if b.observe != nil {
				b.observe.answered(one, mine, bad)
			}
			// Whether a mistake in one of them ends the list is the configuration's choice, as
			// for any other mistake in a record.
			if broken[one.inquiry] = bad.Problem != ""; !broken[one.inquiry] {
				continue
			}
			if err := b.refuse(bad, refusal("record", "responses of inquiry %d: %s: %s", one.inquiry+1, bad.Field, bad.Problem)); err != nil {
				return err
			}
		}
	}
	kept := b.List[:0]
	for i, inq := range b.List {
		if !broken[i] {
			kept = append(kept, inq)
		}
	}
	clear(b.List[len(kept):])
	b.List = kept
	return nil
}

// answer maps the responses that came for an inquiry.
func (b *Builder) answer(one asked, all []*attached) (bad Violation) {
	first := len(b.mapper.made)
	b.mapper.compared = one.compared
	for i := b.plan.responses.skip; i < len(all) && bad.Problem == ""; i++ {
		bad = b.mapper.response(&all[i].Frame)
	}
	b.List[one.inquiry].Responses = b.mapper.made[first:len(b.mapper.made):len(b.mapper.made)]
	return bad
}

// bareID is the member that a record has which came as a bare id.
const bareID = "id"

// DetailBatches are the ids of the records that details are asked for, as many
// together as one request asks for.
func (b *Builder) DetailBatches() [][]string {
	ids := make([]string, len(b.waiting))
	for i, one := range b.waiting {
		ids[i] = one.id
	}
	return b.plan.Details.batches(ids)
}

// AddDetails maps the records of the list with the details that came, one attachment for each
// of the batches. An error is an [*Error].
func (b *Builder) AddDetails(list []*Attachment) error {
	details := make([]jsonwalk.Value, 0, len(b.waiting)) // missing: none came
	for i, ids := range b.DetailBatches()[:len(list)] {
		of, stranger := b.plan.Details.deal(ids, list[i])
		if stranger != nil {
			return refusal("record", "a detail came of a record that was not asked for")
		}
		for _, mine := range of {
			switch len(mine) {
			case 0:
				details = append(details, jsonwalk.Value{})
			case 1:
				details = append(details, mine[0].Element)
			default:
				return refusal("record", "two details of one record came")
			}
		}
	}
	details = details[:len(b.waiting)]
	for i, one := range b.waiting {
		if one.record.Kind != jsonwalk.Object { // a bare id becomes a record
			one.record = jsonwalk.ObjectOf(bareID, one.record)
		}
		if one.record.At(b.plan.detail).Kind != jsonwalk.Missing {
			return refusal("record", "a record has a member %q of its own; give another name as details.as", b.plan.detail)
		}
		if b.take = b.whole; details[i].Kind == jsonwalk.Missing {
			b.take = b.detailless
		}
		if err := b.complete(one, b.plan.detail, details[i]); err != nil {
			return err
		}
	}
	return nil
}

// detailless takes a record for which no detail came.
func (b *Builder) detailless(e element) *Error {
	return b.settle(e, refused, Violation{Field: "details", Problem: whyNoDetail})
}
