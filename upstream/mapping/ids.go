package mapping

import "slices"

// HasUUIDs tells whether internal ids of the list are UUIDs. Then RemoveIDs leaves
// no UUID in a text.
func (r *Reply) HasUUIDs() bool { return r.ids.HasUUIDs() }

// Sort puts the whole list into the configured order. Records of the same time stay as
// the legacy gave them. Call it last.
func (r *Reply) Sort() {
	if r.plan.newestFirst {
		slices.SortStableFunc(r.List, func(a, b Inquiry) int { return b.CreatedAt.Compare(a.CreatedAt) })
	}
}

// RemoveIDs removes the internal ids of the whole list from every text of it, and
// counts them by field in Removed. Call it after the last reply, because one
// record may quote another's id. Texts that come from the configuration, such as
// mapped status values, are left.
func (r *Reply) RemoveIDs() {
	if r.ids.Empty() {
		return
	}
	p, least := r.plan, r.ids.Shortest()
	for i := range r.List {
		inq := &r.List[i]
		r.clean(p.title, &inq.Title, least)
		r.clean(p.content, &inq.Content, least)
		r.clean(p.status, &inq.Status, least)
		r.clean(p.inquiryType, &inq.InquiryType.String, least)
		r.clean(p.company, &inq.CompanyName, least)
		for j := range inq.Responses {
			r.clean(p.responses.content, &inq.Responses[j].Content, least)
			r.clean(p.responses.role, &inq.Responses[j].ResponderType.String, least)
		}
	}
}

// clean cleans one text, unless it is too short to hold an id.
func (r *Reply) clean(t *textPlan, s *string, least int) {
	if len(*s) < least || t == nil || !t.guarded() {
		return
	}
	clean, n := r.ids.Clean(*s)
	if n == 0 {
		return
	}
	*s = clean
	if r.Removed == nil {
		r.Removed = make(map[string]int)
	}
	r.Removed[t.name] += n
}
