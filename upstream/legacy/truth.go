package legacy

import (
	"inquiry-gateway/upstream"
)

// Accounts lists the accounts of a kind, those named by constants first. Another
// kind has none.
func (s *Server) Accounts(kind string) []string {
	var accounts []string
	if of := s.data.kinds[kind]; of != nil {
		for _, o := range of.list {
			accounts = append(accounts, o.account)
		}
	}
	return accounts
}

// Truth is what a correct gateway that uses [Mapping] knows after asking for
// this list now: public values, UTC times, and "[removed]" for every quoted
// internal id. It is derived from the data itself, not from the JSON that this
// server sends. Empty status or inquiryType: no filter. The result is never nil.
func (s *Server) Truth(kind, account, status, inquiryType string) []upstream.Inquiry {
	s.catchUp()
	s.mu.RLock()
	defer s.mu.RUnlock()
	inquiries := []upstream.Inquiry{}
	for _, t := range s.data.of(kind, account).tickets {
		q := t.public(kind)
		if status != "" && q.Status != status || inquiryType != "" && q.InquiryType.String != inquiryType {
			continue
		}
		inquiries = append(inquiries, q)
	}
	return inquiries
}

// public is a ticket as a record of the kind shows it.
func (t *ticket) public(kind string) upstream.Inquiry {
	q := upstream.Inquiry{
		Title:       t.subject.public,
		Status:      states[t.state].public,
		InquiryType: nullable(categories[t.category].public),
		CreatedAt:   t.opened.UTC(),
	}
	if kind == KindSeller {
		q.CompanyName = t.company.name
		if !q.InquiryType.Valid {
			q.InquiryType = nullable(sellerDefaultType)
		}
		return q
	}
	q.Content = t.body.public
	q.Responses = make([]upstream.Response, 0, len(t.replies))
	for _, r := range t.replies {
		q.Responses = append(q.Responses, upstream.Response{
			Content:       r.text.public,
			ResponderType: nullable(roles[r.by].public),
			CreatedAt:     r.at.UTC(),
		})
	}
	return q
}

// nullable is null for an empty text.
func nullable(s string) upstream.NullString {
	return upstream.NullString{String: s, Valid: s != null}
}

// InternalIDs returns every UUID that the legacy system uses: of inquiries,
// responses, customers, companies, agents, sessions and traces. None may be in
// any reply of the gateway.
func (s *Server) InternalIDs() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := []string{s.data.sessionID, s.data.traceID, s.data.agentUserID}
	for _, c := range s.data.companies() {
		ids = append(ids, c.ref)
	}
	for _, b := range s.data.buyers() {
		ids = append(ids, b.ref)
		for _, t := range b.tickets {
			ids = append(ids, t.id)
			for _, r := range t.replies {
				ids = append(ids, r.id)
			}
		}
	}
	return ids
}

// Markers returns strings of headers, error pages and fields that are not
// mapped. Like internal ids, none may be in any reply of the gateway.
func (s *Server) Markers() []string {
	return []string{serverName, poweredBy, backendHost, sessionCookie, agentDomain, internalNote, loginPhrase, crashPhrase}
}
