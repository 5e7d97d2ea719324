package upstream

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// reply turns the bytes of one reply into inquiries. It belongs to one request.
type reply struct {
	plan    *endpointPlan
	account string
	want    Request

	frames    [frameCount][]value
	ids       idSet
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

func newReply(plan *endpointPlan, want Request) *reply {
	r := &reply{plan: plan, want: want, account: want.Account, list: []Inquiry{}}
	for i, n := range plan.sizes {
		r.frames[i] = make([]value, n)
	}
	return r
}

// read maps a list that is one reply.
func (r *reply) read(body string) *Error {
	if err := r.collect(body); err != nil {
		return err
	}
	r.sweep()
	return nil
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
	if !utf8.ValidString(body) {
		return invalid("json", "the reply is not UTF-8")
	}
	r.size = len(body)
	r.clear(frameReply)
	if err := r.parse(body, r.plan.root); err != nil {
		return err
	}
	if r.plan.items != "" {
		items := lookup(body, r.plan.items)
		if items.kind == r.plan.itemsKind() {
			if err := r.parse(items.raw, r.plan.records); err != nil {
				return err
			}
		}
		return r.checkItems(items)
	}
	return r.checkItems(r.frames[frameReply][r.plan.itemsSlot])
}

func (r *reply) checkItems(items value) *Error {
	switch items.kind {
	case r.plan.itemsKind():
		return nil
	case missing:
		if r.plan.noItems {
			return nil
		}
		return invalid("items", "the reply has nothing at the path of items")
	}
	return invalid("items", "the value at the path of items is no %s", r.plan.itemsKind())
}

// itemsKind is what the value that holds the records has to be.
func (p *endpointPlan) itemsKind() kind { return listKind(p.keyed) }

func listKind(keyed bool) kind {
	if keyed {
		return object
	}
	return array
}

func (r *reply) parse(s string, n *node) *Error {
	p := parser{s: s, into: r}
	if p.document(n) {
		return nil
	}
	if r.err != nil {
		return r.err
	}
	return p.err
}

// capture is called by the parser for every value that a node wants.
func (r *reply) capture(n *node, v value) {
	for _, slot := range n.slots {
		r.frames[n.frame][slot] = v
	}
	if n.id {
		r.ids.add(v)
	}
}

// clear is called by the parser before each element of a list.
func (r *reply) clear(frame int) {
	clear(r.frames[frame])
	if frame == frameRecord {
		r.first, r.broken = len(r.responses), violation{}
	}
}

// record is called by the parser after each record.
func (r *reply) record(v value) bool {
	if r.seen++; r.seen > r.plan.maxRecords {
		r.err = invalid("too_many", "more than %d records", r.plan.maxRecords)
		return false
	}
	if v.kind != object {
		return r.refuse(violation{"record", whyObject})
	}
	if r.sampling && len(r.samples) < driftRecords {
		r.samples = append(r.samples, v.raw)
	}
	for _, path := range r.plan.ids {
		r.ids.add(lookup(v.raw, path))
	}
	if !r.owned(v.raw) {
		r.responses = r.responses[:r.first]
		return r.plan.dropForeign
	}
	inq, bad := r.inquiry(v.raw)
	if bad.why != "" {
		return r.refuse(bad)
	}
	if r.want.Status != "" && inq.Status != r.want.Status ||
		r.want.InquiryType != "" && (!inq.InquiryType.Valid || inq.InquiryType.String != r.want.InquiryType) {
		return true
	}
	if cap(r.list) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		r.list = make([]Inquiry, 0, min(r.size/len(v.raw)+1, r.plan.maxRecords))
	}
	return r.keep(inq, v.raw)
}

// keep adds an inquiry to the list.
func (r *reply) keep(inq Inquiry, record string) bool {
	if p := r.plan.responses; p != nil && p.fetch != nil {
		id := firstOf(p.fetch.id, r.frames[frameRecord], record)
		if textOf(id) == "" || !id.scalar() {
			return r.refuse(violation{"responses", whyNoID})
		}
		r.fetchIDs = append(r.fetchIDs, id.String())
	}
	r.list = append(r.list, inq)
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
	r.responses = r.responses[:r.first]
	if r.plan.skipInvalid {
		return true
	}
	r.err = invalid("record", "record %d: %s: %s", r.seen, bad.field, bad.why)
	return false
}

func (r *reply) owned(record string) bool {
	if r.plan.owner == nil {
		return true
	}
	v := firstOf(r.plan.owner, r.frames[frameRecord], record)
	why := whyStranger
	switch {
	case !v.present() || !v.scalar():
		why = whyNoOwner
	case v.String() == r.account:
		return true
	}
	r.foreign++
	r.err = invalid("owner", "record %d: %s", r.seen, why)
	return false
}

// inquiry maps one record.
func (r *reply) inquiry(record string) (inq Inquiry, bad violation) {
	plan, frame := r.plan, r.frames[frameRecord]
	str := func(t *textPlan) (s NullString) {
		if t == nil || bad.why != "" {
			return s
		}
		s, why := t.from(frame, record)
		if why != "" {
			bad = violation{t.name, why}
		}
		return s
	}
	inq.Title = str(plan.title).String
	inq.Content = str(plan.content).String
	inq.Status = str(plan.status).String
	inq.InquiryType = str(plan.inquiryType)
	inq.CompanyName = str(plan.company).String
	if bad.why != "" {
		return inq, bad
	}
	var why string
	if inq.CreatedAt, why = plan.created.from(frame, record); why != "" {
		return inq, violation{plan.created.name, why}
	}
	if plan.responses != nil && plan.responses.fetch == nil {
		bad = r.readResponses(record)
		inq.Responses = r.responses[r.first:len(r.responses):len(r.responses)]
	}
	return inq, bad
}

// readResponses finishes what the parser began when it passed the array.
func (r *reply) readResponses(record string) violation {
	plan := r.plan.responses
	v := plan.items.find(r.frames[frameRecord], record)
	if v.present() && v.kind != listKind(plan.keyed) {
		return violation{"responses", whyList}
	}
	if plan.list != nil && v.present() {
		if err := r.parse(v.raw, plan.list); err != nil {
			return violation{"responses", "the path of items makes no valid JSON"}
		}
	}
	return r.broken
}

// response is called by the parser after each response.
func (r *reply) response(v value) bool {
	if r.plan.second {
		if r.seen++; r.seen > r.plan.maxRecords {
			r.err = invalid("too_many", "more than %d responses", r.plan.maxRecords)
			return false
		}
	}
	if r.broken.why != "" {
		return true
	}
	if v.kind != object {
		r.broken = violation{"responses", whyObject}
		return true
	}
	plan, frame := r.plan.responses, r.frames[frameResponse]
	for _, path := range plan.ids {
		r.ids.add(lookup(v.raw, path))
	}
	content, why := plan.content.from(frame, v.raw)
	if why != "" {
		r.broken = violation{plan.content.name, why}
		return true
	}
	role, why := plan.role.from(frame, v.raw)
	if why != "" {
		r.broken = violation{plan.role.name, why}
		return true
	}
	at, why := plan.created.from(frame, v.raw)
	if why != "" {
		r.broken = violation{plan.created.name, why}
		return true
	}
	if plan.key != nil {
		r.keys = append(r.keys, textOf(firstOf(plan.key, frame, v.raw)))
	}
	r.responses = append(r.responses, Response{Content: content.String, ResponderType: role, CreatedAt: at})
	return true
}

// from maps the field of one record. why is empty when it can be accepted.
func (t *timePlan) from(frame []value, record string) (at time.Time, why string) {
	v := firstOf(t.sources, frame, record)
	switch {
	case !v.present():
		return at, whyMissing
	case !v.scalar():
		return at, whyShape
	}
	at, ok := t.parse(v.String())
	if !ok {
		return at, whyTime + " " + strconv.Quote(t.format)
	}
	return at, ""
}
