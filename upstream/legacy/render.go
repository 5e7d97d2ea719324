package legacy

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// The two time notations: wall clock of Seoul, no zone.
const (
	buyerTime  = "2006-01-02 15:04:05"
	sellerTime = "20060102150405"
)

const (
	agentDomain  = "agents.legacydesk.internal"
	internalNote = "internal note: do not show"
)

type buyerItem struct {
	UUID     string        `json:"uuid"`
	No       int64         `json:"no"`
	Customer buyerCustomer `json:"customer"`
	Subject  string        `json:"subject"`
	Body     buyerBody     `json:"body"`
	State    string        `json:"state"`
	Category *string       `json:"category"`
	Opened   string        `json:"opened"`
	Replies  []buyerReply  `json:"replies"` // null where there are none and the number is odd
	Memo     string        `json:"_memo"`
}

type buyerCustomer struct {
	ID  string `json:"id"`
	Ref string `json:"ref"`
}

type buyerBody struct {
	Text   string  `json:"text"`
	Format string  `json:"format"`
	Lang   *string `json:"lang"`
}

type buyerReply struct {
	UUID string    `json:"uuid"`
	Text string    `json:"text"`
	By   *buyerWho `json:"by"` // null: written by the system
	At   string    `json:"at"`
}

type buyerWho struct {
	Role string `json:"role"`
	Mail string `json:"mail,omitempty"`
	User string `json:"user_uuid,omitempty"`
}

type sellerItem struct {
	TicketID  string          `json:"ticketId"`
	Seq       int64           `json:"seq"`
	Vendor    sellerVendor    `json:"vendor"`
	Title     string          `json:"ttl"`
	St        sellerCode      `json:"st"`
	Kind      *sellerCode     `json:"kind"`
	Requester string          `json:"rqstr"` // internal UUID of the customer
	RegDt     string          `json:"regDt"`
	Thread    []sellerMessage `json:"thread"`
	Memo      *string         `json:"memo"`
}

type sellerVendor struct {
	Code string     `json:"code"`
	Ref  string     `json:"ref"`
	Corp sellerCorp `json:"corp"`
}

type sellerCorp struct {
	Name struct {
		Local string  `json:"local"`
		En    *string `json:"en"`
	} `json:"name"`
}

type sellerCode struct {
	Cd string `json:"cd"`
}

type sellerMessage struct {
	ID   string `json:"msgId"`
	Role string `json:"rl"`
}

func optional(s string) *string {
	if s == null {
		return nil
	}
	return &s
}

func local(t time.Time, layout string) string { return t.In(seoul()).Format(layout) }

func (d *dataset) buyerItem(t *ticket) any {
	item := buyerItem{
		UUID: t.id, No: t.number,
		Customer: buyerCustomer{ID: t.buyer.account, Ref: t.buyer.ref},
		Subject:  t.subject.raw,
		Body:     buyerBody{Text: t.body.raw, Format: "plain"},
		State:    states[t.state].buyer,
		Category: optional(categories[t.category].buyer),
		Opened:   local(t.opened, buyerTime),
		Memo:     internalNote,
	}
	if t.number%2 == 0 {
		item.Replies = []buyerReply{}
	}
	for _, r := range t.replies {
		item.Replies = append(item.Replies, buyerReply{UUID: r.id, Text: r.text.raw, By: d.who(r.by), At: local(r.at, buyerTime)})
	}
	return item
}

func (d *dataset) who(by role) *buyerWho {
	switch by {
	case staff:
		return &buyerWho{Role: roles[by].buyer, Mail: "cs@" + agentDomain, User: d.agentUserID}
	case customer:
		return &buyerWho{Role: roles[by].buyer}
	default:
		return nil
	}
}

func (d *dataset) sellerItem(t *ticket) any {
	item := sellerItem{
		TicketID: t.id, Seq: t.number,
		Vendor:    sellerVendor{Code: t.company.account, Ref: t.company.ref},
		Title:     t.subject.raw,
		St:        sellerCode{states[t.state].seller},
		Requester: t.buyer.ref,
		RegDt:     local(t.opened, sellerTime),
		Thread:    []sellerMessage{},
		Memo:      optional(internalNote),
	}
	item.Vendor.Corp.Name.Local = t.company.name
	if code := categories[t.category].seller; code != null {
		item.Kind = &sellerCode{code}
	}
	for _, r := range t.replies {
		item.Thread = append(item.Thread, sellerMessage{r.id, roles[r.by].seller})
	}
	return item
}

// record renders one ticket in the notation of a kind.
func (d *dataset) record(kind string, t *ticket) []byte {
	item := d.buyerItem(t)
	if kind == KindSeller {
		item = d.sellerItem(t)
	}
	rendered, err := json.Marshal(item)
	if err != nil {
		panic("legacy: strings and numbers always marshal: " + err.Error())
	}
	if kind == KindSeller {
		rendered = escaped(rendered)
	}
	return rendered
}

// escaped rewrites JSON in the notation of old serializers: everything outside
// ASCII as \u escapes, in surrogate pairs where needed, and \/ for a slash. Both
// occur inside strings only, so the values stay the same.
func escaped(in []byte) []byte {
	out := make([]byte, 0, len(in)+len(in)/4)
	for i := 0; i < len(in); {
		r, size := utf8.DecodeRune(in[i:])
		i += size
		switch {
		case r == '/':
			out = append(out, `\/`...)
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// envelope joins rendered records into a whole reply.
func envelope(kind string, records [][]byte) []byte {
	head, tail := `{"result":{"code":"OK","total":%d,"items":[`, `]},"took_ms":3}`
	if kind == KindSeller {
		head, tail = `{"resultCode":"0000","resultMsg":null,"data":{"cnt":"%d","list":[`, `]}}`
	}
	body := fmt.Appendf(nil, head, len(records))
	for i, r := range records {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	return append(body, tail...)
}
