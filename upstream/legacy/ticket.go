package legacy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"inquiry-gateway/upstream"
)

// ticket is one inquiry. It stands in the list of its buyer and in that of its company. Its
// JSON is how the newer endpoint shows it.
type ticket struct {
	ID       string   `json:"uuid"`
	Number   int64    `json:"no"` // a serial past 2^53
	Customer customer `json:"customer"`
	Subject  string   `json:"subject"`
	Body     body     `json:"body"`
	State    code     `json:"state"`
	Category code     `json:"category"`
	Opened   local    `json:"opened"`
	Replies  []reply  `json:"replies"` // where there are none, null or an empty list
	Memo     string   `json:"_memo"`

	buyer, company *account
}

type customer struct {
	ID  string `json:"id"`
	Ref string `json:"ref"` // internal UUID
}

type body struct {
	Text   string  `json:"text"`
	Format string  `json:"format"`
	Lang   *string `json:"lang"`
}

// reply is one answer to a ticket.
type reply struct {
	ID   string  `json:"uuid"`
	Text string  `json:"text"`
	By   *author `json:"by"` // null: the system
	At   local   `json:"at"`
}

type author struct {
	Role code   `json:"role"`
	Mail string `json:"mail,omitempty"`
	User string `json:"user_uuid,omitempty"`
}

// code is a letter or an abbreviation; the empty one is null.
type code string

// MarshalJSON implements json.Marshaler.
func (c code) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// What the codes of the newer endpoint are to the older one, and to the public.
var (
	vendorCodes = map[code]code{"P": "PRD", "D": "DLV", "R": "RFD"}
	vendorRoles = map[code]code{"C": "01", "S": "02"}
	statuses    = map[code]string{"N": "pending", "A": "answered", "C": "closed"}
	types       = map[code]string{"P": "product", "D": "delivery", "R": "refund"}
	responders  = map[code]string{"C": "customer", "S": "staff"}
)

// sellerDefaultType is the public type of a seller's record whose legacy type is
// null, because a seller's inquiry_type cannot be null.
const sellerDefaultType = "other"

// local is a moment as the clocks of Seoul show it, without a zone.
type local time.Time

// seoul is spelled out as an offset so that the package needs no zone data; the
// zone has been UTC+9 without summer time for all of the generated period.
func (l local) seoul(layout string) string {
	return time.Time(l).In(time.FixedZone("Asia/Seoul", 9*60*60)).Format(layout)
}

// MarshalJSON implements json.Marshaler.
func (l local) MarshalJSON() ([]byte, error) { return json.Marshal(l.seoul("2006-01-02 15:04:05")) }

// object is JSON whose names the older endpoint abbreviates.
type object map[string]any

// forVendor is the ticket as the older endpoint shows it: with digits for times, and codes
// in objects of their own.
func (t *ticket) forVendor() object {
	var category object
	if t.Category != "" {
		category = object{"cd": vendorCodes[t.Category]}
	}
	thread := []object{}
	for _, r := range t.Replies {
		thread = append(thread, object{"msgId": r.ID, "rl": vendorRoles[r.role()]})
	}
	return object{
		"ticketId": t.ID, "seq": t.Number, "ttl": t.Subject, "memo": t.Memo, "regDt": t.Opened.seoul("20060102150405"),
		"vendor": object{"code": t.company.id, "ref": t.company.ref, "corp": object{"name": object{"local": t.company.name, "en": nil}}},
		"st":     object{"cd": t.State}, "kind": category, "thread": thread,
		"rqstr": t.buyer.ref, // internal UUID
	}
}

// role is the letter of whoever wrote a reply.
func (r reply) role() code {
	if r.By == nil {
		return ""
	}
	return r.By.Role
}

// render writes tickets as a whole reply of a kind's endpoint.
func render(kind string, tickets []*ticket) []byte {
	if kind == KindBuyer {
		return fmt.Appendf(nil, `{"result":{"code":"OK","total":%d.0,"items":%s},"took_ms":3}`, len(tickets), marshal(tickets))
	}
	list := make([]object, len(tickets))
	for i, t := range tickets {
		list[i] = t.forVendor()
	}
	return fmt.Appendf(nil, `{"resultCode":"0000","resultMsg":null,"data":{"cnt":"%d","list":%s}}`, len(list), escaped(marshal(list)))
}

// marshal writes what always has a JSON form.
func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("legacy: " + err.Error())
	}
	return text
}

// escaped rewrites JSON in the notation of old serializers: everything outside
// ASCII as \u escapes, in surrogate pairs where needed, and \/ for a slash. Both
// occur inside strings only, so the values stay the same.
func escaped(in []byte) []byte {
	out := make([]byte, 0, len(in)+len(in)/4)
	for _, unit := range utf16.Encode([]rune(string(in))) {
		switch {
		case unit == '/':
			out = append(out, `\/`...)
		case unit < 0x80:
			out = append(out, byte(unit))
		default:
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// mostBodies bounds the rendered replies that are kept of one account.
const mostBodies = 64

// list renders a reply, which must not be changed. Replies are kept so that this server
// costs little beside the gateway that it is measured with. With foreign it has a record
// of another account at its end.
func (s *Server) list(kind, id string, f filter, foreign bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	own := s.data.account(kind, id)
	key := fmt.Sprint(f, foreign)
	if own.bodies[key] != nil {
		return own.bodies[key]
	}
	tickets := []*ticket{}
	for _, t := range own.tickets {
		if (len(f.states) == 0 || slices.Contains(f.states, string(t.State))) && (len(f.categories) == 0 || slices.Contains(f.categories, string(t.Category))) {
			tickets = append(tickets, t)
		}
	}
	if foreign {
		for _, other := range s.data.kinds[kind] {
			if other.id != id && len(other.tickets) > 0 {
				tickets = append(tickets, other.tickets[0])
				break
			}
		}
	}
	if own.bodies == nil || len(own.bodies) == mostBodies {
		own.bodies = map[string][]byte{}
	}
	own.bodies[key] = render(kind, tickets)
	return own.bodies[key]
}

// Truth is what a correct gateway that uses [Mapping] knows after asking for
// this list now: public values, UTC times, and "[removed]" for every quoted
// internal id. It is derived from the data itself, not from the JSON that this
// server sends. Empty status or inquiryType: no filter. The result is never nil.
func (s *Server) Truth(kind, account, status, inquiryType string) []upstream.Inquiry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	inquiries := []upstream.Inquiry{}
	for _, t := range s.data.account(kind, account).tickets {
		q := t.public(kind)
		if (status == "" || q.Status == status) && (inquiryType == "" || q.InquiryType.String == inquiryType) {
			inquiries = append(inquiries, q)
		}
	}
	return inquiries
}

// public is a ticket as a record of the kind shows it.
func (t *ticket) public(kind string) upstream.Inquiry {
	q := upstream.Inquiry{
		Title: withoutIDs(t.Subject), Status: statuses[t.State], InquiryType: nullable(types[t.Category]), CreatedAt: time.Time(t.Opened).UTC(),
	}
	if kind == KindSeller {
		q.CompanyName = t.company.name
		if !q.InquiryType.Valid {
			q.InquiryType = nullable(sellerDefaultType)
		}
		return q
	}
	q.Content = withoutIDs(t.Body.Text)
	q.Responses = make([]upstream.Response, 0, len(t.Replies))
	for _, r := range t.Replies {
		q.Responses = append(q.Responses, upstream.Response{
			Content: withoutIDs(r.Text), ResponderType: nullable(responders[r.role()]), CreatedAt: time.Time(r.At).UTC(),
		})
	}
	return q
}

// nullable is null for an empty text.
func nullable(s string) upstream.NullString { return upstream.NullString{String: s, Valid: s != ""} }

// quotedID finds internal ids: the texts hold no other UUIDs.
var quotedID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// withoutIDs is a text as the public sees it.
func withoutIDs(text string) string { return quotedID.ReplaceAllString(text, "[removed]") }

// InternalIDs returns every UUID that the legacy system uses: of inquiries,
// responses, customers, companies, agents, sessions and traces. None may be in
// any reply of the gateway.
func (s *Server) InternalIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []string{s.data.sessionID, s.data.traceID, s.data.agentID}
	for _, c := range s.data.kinds[KindSeller] {
		ids = append(ids, c.ref)
	}
	for _, b := range s.data.kinds[KindBuyer] {
		ids = append(ids, b.ref)
		for _, t := range b.tickets {
			ids = append(ids, t.ID)
			for _, r := range t.Replies {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// Accounts lists the accounts of a kind, those named by constants first. Another
// kind has none.
func (s *Server) Accounts(kind string) []string {
	var ids []string
	for _, a := range s.data.kinds[kind] {
		ids = append(ids, a.id)
	}
	return ids
}

// Answer changes the list of a buyer now, as [dataset.touch] does; the seller's list changes
// with it. It reports false for an unknown account, which stays without inquiries.
func (s *Server) Answer(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, known := s.data.byID[KindBuyer+" "+account]
	if known {
		s.data.touch(b, time.Now())
	}
	return known
}

// maxCatchUp bounds the changes applied at one look after a long pause.
const maxCatchUp = 10_000

// catchUp applies the changes that were due until now. After a pause with too many the
// moments begin anew from now. The caller holds mu.
func (s *Server) catchUp() {
	if s.opts.ChangeEvery == 0 {
		return
	}
	now := time.Now()
	for n := 0; !s.nextChange.After(now); n++ {
		if n == maxCatchUp {
			s.nextChange = now
		}
		buyers := s.data.kinds[KindBuyer]
		s.data.touch(buyers[s.data.rng.IntN(len(buyers))], s.nextChange)
		s.nextChange = s.nextChange.Add(s.pause())
	}
}

// pause draws an exponentially distributed time: changes come independently of
// each other, as people's do.
func (s *Server) pause() time.Duration {
	if s.opts.ChangeEvery == 0 {
		return 0
	}
	return time.Duration(s.data.rng.ExpFloat64() * float64(s.opts.ChangeEvery) / float64(s.opts.Buyers))
}

// revised marks a reworded reply; its length stays bounded however often that happens.
const revised = " (revised "

// touch changes the list of a buyer: the oldest pending inquiry is answered; where none is
// pending, the newest inquiry's last reply is reworded; where there is no inquiry, one is
// opened.
func (d *dataset) touch(b *account, at time.Time) {
	at = at.UTC().Truncate(time.Second)
	if len(b.tickets) == 0 {
		t := d.open(b, at)
		t.State = "N"
		d.write(t)
		t.company.sort()
		t.changed()
		return
	}
	t := b.tickets[0]
	for _, older := range b.tickets {
		if older.State == "N" {
			t = older
		}
	}
	if last := len(t.Replies) - 1; t.State != "N" && last >= 0 {
		text, _, _ := strings.Cut(t.Replies[last].Text, revised)
		t.Replies[last].Text = fmt.Sprintf("%s%s%d)", text, revised, b.version)
	} else {
		t.State = "A"
		t.Replies = append(t.Replies, d.newReply(t, "S", at))
	}
	t.changed()
}

// changed forgets the rendered replies of both lists.
func (t *ticket) changed() {
	for _, a := range []*account{t.buyer, t.company} {
		a.version++
		a.bodies = nil
	}
}
