package upstream

// sweep removes the internal ids of the whole reply from every text of it. It
// runs after the last record, because one record may quote another's id. Texts
// that come from the configuration, such as mapped status values, are left.
func (r *reply) sweep() {
	if r.ids.Empty() {
		return
	}
	p, least := r.plan, r.ids.Shortest()
	for i := range r.list {
		inq := &r.list[i]
		r.cleanText(p.title, &inq.Title, least)
		r.cleanText(p.content, &inq.Content, least)
		r.cleanText(p.status, &inq.Status, least)
		r.cleanText(p.inquiryType, &inq.InquiryType.String, least)
		r.cleanText(p.company, &inq.CompanyName, least)
		for j := range inq.Responses {
			r.cleanText(p.responses.content, &inq.Responses[j].Content, least)
			r.cleanText(p.responses.role, &inq.Responses[j].ResponderType.String, least)
		}
	}
}

// cleanText cleans one text, unless it is too short to hold an id.
func (r *reply) cleanText(t *textPlan, s *string, least int) {
	if len(*s) >= least && t != nil && t.guarded() {
		r.clean(t, s)
	}
}

// clean cleans one text and counts what was in it under the field's name.
func (r *reply) clean(t *textPlan, s *string) {
	clean, n := r.ids.Clean(*s)
	if n == 0 {
		return
	}
	*s = clean
	if r.removed == nil {
		r.removed = make(map[string]int)
	}
	r.removed[t.name] += n
}
