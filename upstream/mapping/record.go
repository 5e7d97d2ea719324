package mapping

import (
	"slices"

	"inquiry-gateway/upstream/jsonwalk"
)

// record takes one record. False ends the walk. The order of the checks matters: ids are
// collected before a record is dropped, because other texts may quote it; the owner comes
// before the fields, so that a stranger's record is refused as that, whatever it holds;
// conditions do, so that a record that is not shown may be incomplete.
func (r *Reply) record(f *jsonwalk.Frame) bool {
	if !r.another("records") {
		return false
	}
	if r.plan.collect != nil && !r.merging {
		return r.collect(f)
	}
	if !f.IsObject() {
		return r.refuse(violation{"record", whyObject})
	}
	if r.noDetail {
		return r.refuse(violation{"details", whyNoDetail})
	}
	if len(r.Samples) < r.KeepSamples {
		r.Samples = append(r.Samples, f.Element)
	}
	for _, path := range r.plan.ids {
		jsonwalk.Lookup(f.Element, path).Scalars(r.ids.Add)
	}
	if why := r.owned(f); why != "" {
		if r.dropResponses(); why == whyNoOwner && r.plan.dropForeign {
			return r.refuse(violation{"owner", why})
		}
		r.Foreign++
		r.err = refusal("owner", "record %d: %s", r.Seen, why)
		return r.plan.dropForeign
	}
	if !holds(r.plan.where, f) {
		r.dropResponses()
		r.Hidden++
		return true
	}
	if len(r.List) == 0 {
		// Records of one list are much alike: make room for as many as the rest
		// of the reply can hold.
		r.List = slices.Grow(r.List, min(r.size/len(f.Element)+1, r.plan.MaxRecords))
	}
	last := len(r.List)
	r.List = append(r.List, Inquiry{}) // where it will stay: it is large
	inq := &r.List[last]
	bad := r.inquiry(inq, f)
	if bad.why == "" && r.wanted(inq) {
		if bad = r.secondID(f); bad.why == "" {
			return true
		}
	}
	r.List = r.List[:last]
	return bad.why == "" || r.refuse(bad)
}

// another counts a record, and refuses the list that has too many.
func (r *Reply) another(what string) bool {
	if r.Seen++; r.Seen <= r.plan.MaxRecords {
		return true
	}
	r.err = refusal("too_many", "more than %d %s", r.plan.MaxRecords, what)
	return false
}

// wanted applies the filters.
func (r *Reply) wanted(inq *Inquiry) bool {
	return (r.want.Status == "" || inq.Status == r.want.Status) &&
		(r.want.InquiryType == "" || inq.InquiryType.Valid && inq.InquiryType.String == r.want.InquiryType)
}

// secondID notes what the responses of a record are asked for with, if a second
// request gets them.
func (r *Reply) secondID(f *jsonwalk.Frame) (bad violation) {
	if r.plan.Second == nil {
		return bad
	}
	id := firstOf(r.plan.Second.id, f)
	if id.Plain() == "" || !id.Scalar() {
		return violation{"responses", whyNoID}
	}
	r.secondIDs = append(r.secondIDs, id.String())
	return bad
}

// refuse counts a record that breaks the rules, and ends the reply if the
// configuration does not say to skip it.
func (r *Reply) refuse(bad violation) bool {
	if r.Skipped == nil {
		r.Skipped = make(map[string]int)
	}
	r.Skipped[bad.field]++
	r.refused = bad
	r.dropResponses()
	if r.plan.skipInvalid {
		return true
	}
	r.err = refusal("record", "record %d: %s: %s", r.Seen, bad.field, bad.why)
	return false
}

// dropResponses takes back those of the current record.
func (r *Reply) dropResponses() {
	clear(r.responses[r.first:])
	r.responses = r.responses[:r.first]
}

// owned compares a record's owner with the account, byte by byte: accounts
// that differ in case are two accounts. It says why the record is not the account's;
// empty: it is.
func (r *Reply) owned(f *jsonwalk.Frame) (why string) {
	if r.plan.owner == nil {
		return ""
	}
	switch v := firstOf(r.plan.owner, f); {
	case !v.Present() || !v.Scalar():
		return whyNoOwner
	case v.String() == r.want.Account:
		return ""
	}
	return whyStranger
}

// inquiry maps all fields of a record. The first mistake is told, and what follows it
// is not read.
func (r *Reply) inquiry(inq *Inquiry, f *jsonwalk.Frame) (bad violation) {
	plan := r.plan
	inq.Title = plan.title.of(f, &bad, &r.defaulted).String
	inq.Content = plan.content.of(f, &bad, &r.defaulted).String
	inq.Status = plan.status.of(f, &bad, &r.defaulted).String
	inq.InquiryType = plan.inquiryType.of(f, &bad, &r.defaulted)
	inq.CompanyName = plan.company.of(f, &bad, &r.defaulted).String
	inq.CreatedAt = plan.created.of(f, &bad)
	if bad.why == "" && plan.responses != nil && plan.Second == nil {
		bad = r.readResponses(f)
		inq.Responses = r.responses[r.first:len(r.responses):len(r.responses)]
	}
	return bad
}

// readResponses finishes what the parser began when it passed the array.
func (r *Reply) readResponses(f *jsonwalk.Frame) violation {
	plan := r.plan.responses
	v := plan.items.find(f)
	if v.Present() && v.Kind != plan.kind && !emptyObject(v, plan.kind) {
		return violation{"responses", whyList}
	}
	if plan.list != nil && v.Present() {
		if plan.entries != nil {
			array, all := plan.entries.of(f, v)
			if !all {
				return violation{"responses", whyNoEntry}
			}
			v = jsonwalk.FromJSON(array)
		}
		if err := r.walk(v.Raw, plan.list, frameResponse); err != nil {
			return violation{"responses", "the path of items makes no valid JSON"}
		}
	}
	if plan.holder != nil && r.broken.why == "" {
		return plan.holder.checkEnd(r, f, v)
	}
	return r.broken
}

// response takes one response. False ends the walk. A mistake is kept in broken until
// the record is judged: the array may stand before the record's owner in the text.
func (r *Reply) response(f *jsonwalk.Frame) bool {
	if r.plan.onlyResponses && !r.another("responses") {
		return false
	}
	if r.broken.why != "" {
		return true
	}
	if !f.IsObject() {
		r.broken = violation{"responses", whyObject}
		return true
	}
	if r.plan.onlyResponses && len(r.Samples) < r.KeepSamples {
		r.Samples = append(r.Samples, f.Element)
	}
	plan := r.plan.responses
	for _, path := range plan.ids {
		jsonwalk.Lookup(f.Element, path).Scalars(r.ids.Add)
	}
	if !holds(plan.where, f) {
		return true
	}
	if cap(r.responses) == 0 {
		r.responses = make([]Response, 0, max(1, cap(r.List)))
	}
	last := len(r.responses)
	r.responses = append(r.responses, Response{})
	one := &r.responses[last]
	one.Content = plan.content.of(f, &r.broken, &r.defaulted).String
	one.ResponderType = plan.role.of(f, &r.broken, &r.defaulted)
	one.CreatedAt = plan.created.of(f, &r.broken)
	if r.broken.why != "" {
		*one = Response{}
		r.responses = r.responses[:last]
		return true
	}
	if plan.key != nil {
		r.keys = append(r.keys, firstOf(plan.key, f).Plain())
	}
	return true
}
