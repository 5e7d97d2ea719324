package mapping

import (
	"strings"

	"inquiry-gateway/upstream/jsontree"
)

// Violation is a rule that a record breaks. The zero value is none.
type Violation struct {
	Record  int    `json:"record"` // from 1
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// Why a record cannot be accepted.
const (
	reasonObject  = "not an object"
	reasonList    = "not the array, or the object, that items says"
	reasonNoOwner = "no owner"

	reasonNoResponses = "nothing at the path of responses.items; where that means that there are none, set items_optional"
	reasonNoID        = "no id to ask for the "
	reasonNoDetail    = "no detail came for the record"
	reasonNoEntry     = "one of them has no entry in the table of lookup"
	reasonForeign     = "another owner than the account"
	reasonNoGroup     = "no value at the path of group"
	reasonOwnMember   = "a member of its own of the name that what belongs to it is to have (rows or details)"
	reasonTooMuch     = "more than max_response_bytes"
)

// outcome is the result of evaluating a record. Its words are those of metrics and configuration: a hidden
// record does not meet where, an invalid one breaks a rule.
type outcome uint8

const (
	outcomeServed   outcome = iota
	outcomeWaiting          // for what else belongs to it
	outcomeFiltered         // the request's filters leave it out
	outcomeHidden           // where does not show it
	outcomeForeign          // of another account
	outcomeInvalid          // it breaks a rule
)

// mapper maps records and responses, each by itself.
type mapper struct {
	plan             *Plan
	withoutResponses int                  // records with nothing, or null, at responses.items, which items_optional allows
	defaulted        [maxTexts]int        // records, or responses, without a value of each text
	responses        []Response           // of all records: those of each are a part of it
	allow            func(bytes int) bool // what look-ups give
}

// scratchMapper returns a mapper for records that are evaluated but not added to a list.
func (p *Plan) scratchMapper() *mapper {
	return &mapper{plan: p, allow: func(int) bool { return true }}
}

// accountPlaceholder is the account in owner.is.
const accountPlaceholder = "{account}"

// ownerOf returns what stands as the owner in the records of an account.
func (p *Plan) ownerOf(account string) string {
	if p.ownerIs == accountPlaceholder { // as nearly always: nothing to build for each record
		return account
	}
	return strings.ReplaceAll(p.ownerIs, accountPlaceholder, account)
}

// ownerMismatch says why a record is not the account's; empty: it is. The owner, or one of several,
// must be the account byte by byte: accounts that differ in case are two accounts. Blanks around an
// owner are those of a column of fixed width.
func (p *Plan) ownerMismatch(e *element, account string) (why string) {
	if p.owner == nil {
		return ""
	}
	want := p.ownerOf(account)
	v := p.owner.first(e)
	if v.Kind() != jsontree.Array {
		return mismatch(v, want)
	}
	why = reasonNoOwner
	for _, one := range v.All() {
		if one.Scalar() {
			if why = mismatch(one, want); why == "" {
				break
			}
		}
	}
	return why
}

// mismatch says why an owner is not the one that is wanted.
func mismatch(owner jsontree.Value, want string) (why string) {
	if !owner.Scalar() {
		return reasonNoOwner
	}
	if text := owner.String(); text == want || strings.TrimSpace(text) == want {
		return ""
	}
	return reasonForeign
}

// evaluateOwner compares the owner of a record, before anything else: another account's record is foreign, even if it breaks other
// rules.
func (p *Plan) evaluateOwner(e *element, account string) (outcome, Violation) {
	switch why := p.ownerMismatch(e, account); {
	case why == "":
		return outcomeServed, Violation{}
	case why == reasonNoOwner: // the mapping does not fit, or the record is broken; no other account is involved
		return outcomeInvalid, Violation{Field: "owner", Problem: why}
	default:
		return outcomeForeign, Violation{Field: "owner", Problem: why}
	}
}

// evaluateShown compares the owner and applies where, before the fields are mapped: a record that is not shown may lack
// some. beforeDetail: its detail has not been fetched yet.
func (p *Plan) evaluateShown(e *element, account string, beforeDetail bool) (outcome, Violation) {
	outcome, bad := p.evaluateOwner(e, account)
	if outcome == outcomeServed && p.items.where.firstUnmet(e, beforeDetail) != nil {
		outcome = outcomeHidden
	}
	return outcome, bad
}

// evaluate maps a record that is complete.
func (m *mapper) evaluate(inq *Inquiry, e *element, want *Query) (outcome, Violation) {
	if e.Kind() != jsontree.Object {
		return outcomeInvalid, Violation{Field: "record", Problem: reasonObject}
	}
	outcome, bad := m.plan.evaluateShown(e, want.Account, false)
	if outcome != outcomeServed {
		return outcome, bad
	}
	before := len(m.responses)
	if bad = m.mapRecord(inq, e); bad.Problem != "" {
		outcome = outcomeInvalid
	} else if !want.matches(inq) {
		outcome = outcomeFiltered
	}
	if outcome != outcomeServed {
		m.responses = m.responses[:before]
	}
	return outcome, bad
}

// matches reports whether an inquiry meets the filters. It does not rely on the legacy system to apply them.
func (w *Query) matches(inq *Inquiry) bool {
	return (w.Status == "" || inq.Status == w.Status) &&
		(w.InquiryType == "" || inq.InquiryType.Valid && inq.InquiryType.String == w.InquiryType)
}

// mapRecord maps the fields of a record up to the first violation, which it returns.
func (m *mapper) mapRecord(inq *Inquiry, e *element) (bad Violation) {
	inq.Title = m.mapText(m.plan.title, e, e, &bad).String
	inq.Content = m.mapText(m.plan.content, e, e, &bad).String
	inq.Status = m.mapText(m.plan.status, e, e, &bad).String
	inq.InquiryType = m.mapText(m.plan.inquiryType, e, e, &bad)
	inq.CompanyName = m.mapText(m.plan.company, e, e, &bad).String
	if bad.Problem == "" {
		inq.CreatedAt, bad.Problem = m.plan.created.of(e)
		bad.Field = m.plan.created.name
	}
	if bad.Problem == "" && m.plan.responseItems != nil {
		first := len(m.responses)
		bad = m.mapResponses(e)
		inq.Responses = m.responses[first:len(m.responses):len(m.responses)]
	}
	return bad
}

// mapResponses maps the responses in a record.
func (m *mapper) mapResponses(e *element) (bad Violation) {
	for i := m.plan.responses.skip; i < len(e.responses) && bad.Problem == ""; i++ {
		bad = m.mapResponse(&e.responses[i], e)
	}
	switch {
	case bad.Problem != "" || e.container.Present():
	case !m.plan.responses.optional:
		bad = Violation{Field: "responses", Problem: reasonNoResponses}
	case m.plan.Responses == nil:
		m.withoutResponses++
	}
	if bad.Problem == "" && e.problem != "" {
		bad = Violation{Field: "responses", Problem: e.problem}
	}
	if why := m.plan.responses.incomplete(e); bad.Problem == "" && why != "" {
		bad = Violation{Field: "responses", Problem: "these are not all: " + why + "; get them by fetch"}
	}
	return bad
}

// incomplete returns why a record lacks some of its responses; empty: it has all, or does not tell.
func (r *responseFields) incomplete(e *element) string {
	if r.total != nil {
		if text := r.total.find(e).Plain(); text != "" {
			if n, ok := jsontree.Count(text); !ok || n != len(e.responses) {
				return r.total.String() + " is another number than came"
			}
		}
	}
	if c := r.last.firstUnmet(e, false); c != nil {
		return c.path + " " + c.describe()
	}
	return ""
}

// mapResponse maps a response, and adds it if it meets where.
func (m *mapper) mapResponse(e, record *element) (bad Violation) {
	r := m.plan.responses
	switch {
	case e.Kind() != jsontree.Object:
		return Violation{Field: "responses", Problem: reasonObject}
	case m.plan.responseItems.where.firstUnmet(e, false) != nil:
		return bad
	}
	last := len(m.responses)
	m.responses = append(m.responses, Response{})
	one := &m.responses[last]
	one.Content = m.mapText(r.content, e, record, &bad).String
	one.ResponderType = m.mapText(r.responderType, e, record, &bad)
	if bad.Problem == "" {
		if one.CreatedAt, bad.Problem = r.created.of(e); bad.Problem != "" {
			bad.Field = r.created.name
		}
	}
	return bad
}

// mapText maps a text, and sets bad if that breaks a rule. It does nothing if bad is set already. A field that the kind does not have
// is null. Missing values are counted.
func (m *mapper) mapText(t *textField, e, record *element, bad *Violation) (s NullString) {
	if t == nil || bad.Problem != "" {
		return s
	}
	s, found, why := t.of(e, record)
	switch {
	case why != "":
		*bad = Violation{Field: t.name, Problem: why}
	case !found:
		m.defaulted[t.index]++
	case t.viaLookup && !m.allow(len(s.String)):
		*bad = Violation{Field: t.name, Problem: reasonTooMuch}
	}
	return s
}
