package mapping

import (
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// Violation is one reason to refuse a record. Its zero value is none.
type Violation struct {
	Record  int    `json:"record"` // from 1
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// Why a record cannot be accepted.
const (
	whyObject    = "not an object"
	whyList      = "not the array, or the object, that items says"
	whyNoOwner   = "no owner"
	whyNoID      = "no id to ask for the "
	whyNoDetail  = "no detail came for the record"
	whyNoEntry   = "one of them has no entry in the table of lookup"
	whyStranger  = "another owner than the account"
	whyNoGroup   = "no value at the path of group"
	whyOwnMember = "a member of its own of the name that what belongs to it is to have (rows, or details.as)"
	whyTooMuch   = "more than max_response_bytes"
)

// fate is what becomes of a record.
type fate uint8

const (
	taken   fate = iota
	waits        // for what else belongs to it
	unasked      // the request's filters leave it out
	hidden       // where does not show it
	foreign      // of another account
	refused      // it breaks a rule
)

// mapper maps records and responses, each by itself.
type mapper struct {
	plan      *Plan
	defaulted [maxTexts]int        // records, or responses, without a value of each text
	made      []Response           // of all records; each record has a part of it
	compared  []string             // of the current record: what values are compared with
	allow     func(bytes int) bool // what look-ups give
}

// scratch maps what is not put into a list.
func (p *Plan) scratch() *mapper {
	return &mapper{plan: p, allow: func(int) bool { return true }}
}

// foreign compares a record's owner, or each of several, with the account, byte by byte: accounts
// that differ in case are two accounts. Blanks around an owner are those of a column of fixed
// width. It says why the record is not the account's; empty: it is.
func (p *Plan) foreign(f *jsonwalk.Frame, account string) (why string) {
	if p.owner == nil {
		return ""
	}
	v := p.owner.first(f)
	if v.Kind != jsonwalk.Array {
		return notOf(v, account)
	}
	why = whyNoOwner
	v.Each(func(one jsonwalk.Value) bool {
		if one.Scalar() {
			why = notOf(one, account)
		}
		return why != ""
	})
	return why
}

// notOf says why an owner is not the account.
func notOf(owner jsonwalk.Value, account string) (why string) {
	if !owner.Scalar() {
		return whyNoOwner
	}
	if text := owner.String(); text == account || strings.TrimSpace(text) == account {
		return ""
	}
	return whyStranger
}

// owned says what becomes of a record by its owner, who comes before all else: a stranger's record
// is refused as that, whatever it holds.
func (p *Plan) owned(f *jsonwalk.Frame, account string) (fate, Violation) {
	switch why := p.foreign(f, account); {
	case why == "":
		return taken, Violation{}
	case why == whyNoOwner && p.dropForeign: // it is nobody's to drop: all of a list could be lost unseen
		return refused, Violation{Field: "owner", Problem: why}
	default:
		return foreign, Violation{Field: "owner", Problem: why}
	}
}

// belongs says what becomes of a record before its fields are read, so that one that is not shown
// may be incomplete. early: its detail is not there yet.
func (p *Plan) belongs(f *jsonwalk.Frame, account string, early bool) (fate, Violation) {
	fate, bad := p.owned(f, account)
	if fate == taken && p.items.where.unmet(f, early) != nil {
		fate = hidden
	}
	return fate, bad
}

// judge says what becomes of a record of which all is there, and maps it.
func (m *mapper) judge(inq *Inquiry, e element, want *Want) (fate, Violation) {
	if e.Element.Kind != jsonwalk.Object {
		return refused, Violation{Field: "record", Problem: whyObject}
	}
	fate, bad := m.plan.belongs(e.Frame, want.Account, false)
	if fate != taken {
		return fate, bad
	}
	before := len(m.made)
	if bad = m.record(inq, e); bad.Problem != "" {
		fate = refused
	} else if !want.has(inq) {
		fate = unasked
	}
	if fate != taken {
		m.made = m.made[:before]
	}
	return fate, bad
}

// has tells whether an inquiry is wanted, whatever the legacy was asked for.
func (w *Want) has(inq *Inquiry) bool {
	return (w.Status == "" || inq.Status == w.Status) &&
		(w.InquiryType == "" || inq.InquiryType.Valid && inq.InquiryType.String == w.InquiryType)
}

// record maps all fields of a record. The first mistake is told, and what follows it
// is not read.
func (m *mapper) record(inq *Inquiry, e element) (bad Violation) {
	m.compare(e.Frame)
	inq.Title = m.text(m.plan.title, e.Frame, &bad).String
	inq.Content = m.text(m.plan.content, e.Frame, &bad).String
	inq.Status = m.text(m.plan.status, e.Frame, &bad).String
	inq.InquiryType = m.text(m.plan.inquiryType, e.Frame, &bad)
	inq.CompanyName = m.text(m.plan.company, e.Frame, &bad).String
	if bad.Problem == "" {
		inq.CreatedAt, bad.Problem = m.plan.created.of(e.Frame)
		bad.Field = m.plan.created.name
	}
	if bad.Problem == "" && m.plan.inner != nil {
		first := len(m.made)
		bad = m.answers(e)
		inq.Responses = m.made[first:len(m.made):len(m.made)]
	}
	return bad
}

// compare notes the values of a record that others are compared with.
func (m *mapper) compare(f *jsonwalk.Frame) {
	if len(m.plan.compared) > 0 {
		m.compared = make([]string, len(m.plan.compared))
		for i, other := range m.plan.compared {
			m.compared[i] = other.find(f).Plain()
		}
	}
}

// answers maps the responses in a record.
func (m *mapper) answers(e element) (bad Violation) {
	for i := m.plan.responses.skip; i < len(e.responses) && bad.Problem == ""; i++ {
		bad = m.response(&e.responses[i])
	}
	if bad.Problem == "" && e.broken != "" {
		bad = Violation{Field: "responses", Problem: e.broken}
	}
	if holder := m.plan.responses.holder; bad.Problem == "" && holder != nil {
		bad = holder.check(e, &m.plan.Paging)
	}
	return bad
}

// response maps a response and puts it to those that were made, if it is shown.
func (m *mapper) response(f *jsonwalk.Frame) (bad Violation) {
	r := m.plan.responses
	switch {
	case f.Element.Kind != jsonwalk.Object:
		return Violation{Field: "responses", Problem: whyObject}
	case m.plan.inner.where.unmet(f, false) != nil:
		return bad
	}
	last := len(m.made)
	m.made = append(m.made, Response{})
	one := &m.made[last]
	one.Content = m.text(r.content, f, &bad).String
	one.ResponderType = m.text(r.role, f, &bad)
	if bad.Problem == "" {
		if one.CreatedAt, bad.Problem = r.created.of(f); bad.Problem != "" {
			bad.Field = r.created.name
		}
	}
	return bad
}

// text maps a text from where a mistake before makes all others none. A field that the
// kind has not is null. What was missing is counted.
func (m *mapper) text(t *textField, f *jsonwalk.Frame, bad *Violation) (s NullString) {
	if t == nil || bad.Problem != "" {
		return s
	}
	s, found, why := t.of(f, m.compared)
	switch {
	case why != "":
		*bad = Violation{Field: t.name, Problem: why}
	case !found:
		m.defaulted[t.nth]++
	case t.looked && !m.allow(len(s.String)):
		*bad = Violation{Field: t.name, Problem: whyTooMuch}
	}
	return s
}
