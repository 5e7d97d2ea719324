package upstream

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"inquiry-gateway/upstream/arena"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
	"inquiry-gateway/upstream/timeparse"
)

// The frames of a reply: each level of lists has its own values.
const (
	frameReply = iota
	frameRecord
	frameResponse
	frameCount
)

// reply turns the bytes of one reply into inquiries. It belongs to one request.
type reply struct {
	plan    *endpointPlan
	account string
	want    Request

	walker    *jsonwalk.Walker
	texts     arena.Texts
	ids       leakguard.Set
	list      []Inquiry
	responses []Response // of all records; each record has a part of it
	first     int        // the current record's first response
	broken    violation  // of the current record's responses
	keys      []string   // of each response's inquiry, in a batch
	refused   violation  // why the last refused record was
	fetchIDs  []string   // of each inquiry of the list, if its responses come by a second request

	size     int // of the reply in bytes
	seen     int // records, those that were skipped or filtered included
	skipped  map[string]int
	foreign  int
	sampling bool // keep the first records for drift
	samples  []string
	removed  map[string]int // internal ids by field
	err      *Error
}

// violation is one reason why a record cannot be accepted. Its zero value is
// none.
type violation struct{ field, why string }

// newReply prepares the mapping of one list.
func newReply(plan *endpointPlan, want Request) *reply {
	r := &reply{plan: plan, want: want, account: want.Account, list: []Inquiry{}}
	r.walker = jsonwalk.NewWalker(r, &r.ids, &r.texts, plan.sizes[:])
	return r
}

// take is a sink for the pages of the list.
func (r *reply) take(body string) (records int, err error) {
	before := r.seen
	if failed := r.collect(body); failed != nil {
		return 0, failed
	}
	return r.seen - before, nil
}

// collect maps one reply and adds its records to the list. The strings of the
// inquiries share memory with body.
func (r *reply) collect(body string) *Error {
	body = strings.TrimPrefix(body, "\ufeff") // .NET writes a mark that RFC 8259 lets us ignore
	seen, foreign, skipped, kept, samples := r.seen, r.foreign, maps.Clone(r.skipped), len(r.list), r.samples
	err := r.read(body)
	if err != nil && !utf8.ValidString(body) {
		// Whatever else is wrong with it: nothing of it has been seen.
		r.seen, r.foreign, r.skipped, r.list, r.samples = seen, foreign, skipped, r.list[:kept], samples
		return invalid("json", "the reply is not UTF-8")
	}
	return err
}

// read reads one reply that is UTF-8, or fails.
func (r *reply) read(body string) *Error {
	r.size = len(body)
	r.walker.Clear(frameReply)
	if err := r.walk(body, r.plan.root, frameReply); err != nil {
		return err
	}
	if r.plan.items != "" {
		items := jsonwalk.Lookup(body, r.plan.items)
		if items.Kind == r.plan.itemsKind() {
			if err := r.walk(items.Raw, r.plan.records, frameRecord); err != nil {
				return err
			}
		}
		return r.checkItems(items)
	}
	return r.checkItems(r.walker.Frame(frameReply).Value(r.plan.itemsSlot))
}

// checkItems tells an empty list from a reply that is no list.
func (r *reply) checkItems(items jsonwalk.Value) *Error {
	switch items.Kind {
	case r.plan.itemsKind():
		return nil
	case jsonwalk.Missing:
		if r.plan.noItems {
			return nil
		}
		return invalid("items", "the reply has nothing at the path of items")
	}
	return invalid("items", "the value at the path of items is no %s", r.plan.itemsKind())
}

// itemsKind is what the value that holds the records has to be.
func (p *endpointPlan) itemsKind() jsonwalk.Kind { return listKind(p.keyed) }

// listKind is object for the members of one, else array.
func listKind(keyed bool) jsonwalk.Kind {
	if keyed {
		return jsonwalk.Object
	}
	return jsonwalk.Array
}

// walk reads a text whose elements begin with the given frame.
func (r *reply) walk(s string, root *jsonwalk.Node, first int) *Error {
	switch err := r.walker.Walk(s, root, first); {
	case err == nil:
		return nil
	case errors.Is(err, jsonwalk.ErrStopped):
		return r.err
	default:
		return invalid("json", "%w", err)
	}
}

// Begin implements jsonwalk.Sink.
func (r *reply) Begin(frame int) {
	if frame == frameRecord {
		r.first, r.broken = len(r.responses), violation{}
	}
}

// End implements jsonwalk.Sink.
func (r *reply) End(frame int, element *jsonwalk.Frame) bool {
	if frame == frameRecord {
		return r.record(element)
	}
	return r.response(element)
}

// record takes one record. False ends the walk.
func (r *reply) record(f *jsonwalk.Frame) bool {
	if r.seen++; r.seen > r.plan.maxRecords {
		r.err = invalid("too_many", "more than %d records", r.plan.maxRecords)
		return false
	}
	if !f.IsObject() {
		return r.refuse(violation{"record", whyObject})
	}
	if r.sampling && len(r.samples) < driftRecords {
		r.samples = append(r.samples, f.Element)
	}
	for _, path := range r.plan.ids {
		jsonwalk.Lookup(f.Element, path).Scalars(r.ids.Add)
	}
	if !r.owned(f) {
		r.dropResponses()
		return r.plan.dropForeign
	}
	if len(r.list) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		r.list = slices.Grow(r.list, min(r.size/len(f.Element)+1, r.plan.maxRecords))
	}
	last := len(r.list)
	r.list = append(r.list, Inquiry{}) // where it will stay: it is large
	inq := &r.list[last]
	bad := r.inquiry(inq, f)
	if bad.why != "" {
		r.list = r.list[:last]
		return r.refuse(bad)
	}
	if r.want.Status != "" && inq.Status != r.want.Status ||
		r.want.InquiryType != "" && (!inq.InquiryType.Valid || inq.InquiryType.String != r.want.InquiryType) {
		r.list = r.list[:last]
		return true
	}
	return r.keep(f)
}

// keep completes the last inquiry of the list.
func (r *reply) keep(f *jsonwalk.Frame) bool {
	if p := r.plan.responses; p != nil && p.fetch != nil {
		id := firstOf(p.fetch.id, f)
		if textOf(id) == "" || !id.Scalar() {
			r.list = r.list[:len(r.list)-1]
			return r.refuse(violation{"responses", whyNoID})
		}
		r.fetchIDs = append(r.fetchIDs, id.String())
	}
	return true
}

// refuse counts a record that breaks the rules, and ends the reply if the
// configuration does not say to skip it.
func (r *reply) refuse(bad violation) bool {
	if r.skipped == nil {
		r.skipped = make(map[string]int)
	}
	r.skipped[bad.field]++
	r.refused = bad
	r.dropResponses()
	if r.plan.skipInvalid {
		return true
	}
	r.err = invalid("record", "record %d: %s: %s", r.seen, bad.field, bad.why)
	return false
}

// dropResponses takes back those of the current record.
func (r *reply) dropResponses() {
	clear(r.responses[r.first:])
	r.responses = r.responses[:r.first]
}

// owned compares a record's owner with the account, byte by byte: accounts
// that differ in case are two accounts.
func (r *reply) owned(f *jsonwalk.Frame) bool {
	if r.plan.owner == nil {
		return true
	}
	v := firstOf(r.plan.owner, f)
	why := whyStranger
	switch {
	case !v.Present() || !v.Scalar():
		why = whyNoOwner
	case v.String() == r.account:
		return true
	}
	r.foreign++
	r.err = invalid("owner", "record %d: %s", r.seen, why)
	return false
}

// inquiry maps one record.
func (r *reply) inquiry(inq *Inquiry, f *jsonwalk.Frame) (bad violation) {
	plan := r.plan
	inq.Title = plan.title.of(f, &bad).String
	inq.Content = plan.content.of(f, &bad).String
	inq.Status = plan.status.of(f, &bad).String
	inq.InquiryType = plan.inquiryType.of(f, &bad)
	inq.CompanyName = plan.company.of(f, &bad).String
	inq.CreatedAt = plan.created.of(f, &bad)
	if bad.why == "" && plan.responses != nil && plan.responses.fetch == nil {
		bad = r.readResponses(f)
		inq.Responses = r.responses[r.first:len(r.responses):len(r.responses)]
	}
	return bad
}

// readResponses finishes what the parser began when it passed the array.
func (r *reply) readResponses(f *jsonwalk.Frame) violation {
	plan := r.plan.responses
	v := plan.items.find(f)
	if v.Present() && v.Kind != listKind(plan.keyed) {
		return violation{"responses", whyList}
	}
	if plan.list != nil && v.Present() {
		if err := r.walk(v.Raw, plan.list, frameResponse); err != nil {
			return violation{"responses", "the path of items makes no valid JSON"}
		}
	}
	return r.broken
}

// response takes one response. False ends the walk.
func (r *reply) response(f *jsonwalk.Frame) bool {
	if r.plan.second {
		if r.seen++; r.seen > r.plan.maxRecords {
			r.err = invalid("too_many", "more than %d responses", r.plan.maxRecords)
			return false
		}
	}
	if r.broken.why != "" {
		return true
	}
	if !f.IsObject() {
		r.broken = violation{"responses", whyObject}
		return true
	}
	plan := r.plan.responses
	for _, path := range plan.ids {
		jsonwalk.Lookup(f.Element, path).Scalars(r.ids.Add)
	}
	if cap(r.responses) == 0 {
		r.responses = make([]Response, 0, max(1, cap(r.list)))
	}
	last := len(r.responses)
	r.responses = append(r.responses, Response{})
	one := &r.responses[last]
	one.Content = plan.content.of(f, &r.broken).String
	one.ResponderType = plan.role.of(f, &r.broken)
	one.CreatedAt = plan.created.of(f, &r.broken)
	if r.broken.why != "" {
		*one = Response{}
		r.responses = r.responses[:last]
		return true
	}
	if plan.key != nil {
		r.keys = append(r.keys, textOf(firstOf(plan.key, f)))
	}
	return true
}

// of is from where a mistake before makes all others none. A field that the kind
// has not is null.
func (t *textPlan) of(f *jsonwalk.Frame, bad *violation) (s NullString) {
	if t == nil || bad.why != "" {
		return s
	}
	s, why := t.from(f)
	if why != "" {
		*bad = violation{t.name, why}
	}
	return s
}

// timePlan reads a field that holds a time.
type timePlan struct {
	name    string
	paths   []string // as they were written, for probe
	sources []source
	parse   timeparse.Parser
	format  string // for messages
}

// of is from where a mistake before makes all others none.
func (t *timePlan) of(f *jsonwalk.Frame, bad *violation) (at time.Time) {
	if bad.why != "" {
		return at
	}
	at, why := t.from(f)
	if why != "" {
		*bad = violation{t.name, why}
	}
	return at
}

// from maps the field of one record. why is empty when it can be accepted.
func (t *timePlan) from(f *jsonwalk.Frame) (at time.Time, why string) {
	v := firstOf(t.sources, f)
	switch {
	case !v.Present():
		return at, whyMissing
	case !v.Scalar():
		return at, whyShape
	}
	at, ok := t.parse(v.String())
	if !ok {
		return at, whyTime + " " + strconv.Quote(t.format)
	}
	return at, ""
}
