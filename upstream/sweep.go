package upstream

// sweep removes the internal ids of the whole reply from every text of it. It
// runs after the last record, because one record may quote another's id. Texts
// that come from the configuration, such as mapped status values, are left.
func (r *reply) sweep() {
	if r.ids.empty() {
		return
	}
	p := r.plan
	for i := range r.list {
		inq := &r.list[i]
		r.cleanText(p.title, &inq.Title)
		r.cleanText(p.content, &inq.Content)
		r.cleanText(p.status, &inq.Status)
		r.cleanText(p.inquiryType, &inq.InquiryType.String)
		r.cleanText(p.company, &inq.CompanyName)
		for j := range inq.Responses {
			r.cleanText(p.responses.content, &inq.Responses[j].Content)
			r.cleanText(p.responses.role, &inq.Responses[j].ResponderType.String)
		}
	}
}

// cleanText cleans one text and counts what was in it under the field's name.
func (r *reply) cleanText(t *textPlan, s *string) {
	if t == nil || !t.guarded() || *s == "" {
		return
	}
	clean, n := r.ids.clean(*s)
	if n == 0 {
		return
	}
	*s = clean
	if r.removed == nil {
		r.removed = make(map[string]int)
	}
	r.removed[t.name] += n
}
