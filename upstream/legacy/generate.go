package legacy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Accounts that every data set has, whatever its seed.
const (
	BuyerTypical  = "acme"     // a few dozen inquiries
	BuyerOther    = "globex"   // a dozen
	BuyerEmpty    = "initech"  // none
	BuyerBusy     = "megacorp" // a fifth of all inquiries
	SellerTypical = "hanriver" // the biggest company
	SellerEmpty   = "fresh-start"
)

// account is a buyer, or a seller's company, with its list.
type account struct {
	id      string
	name    string    // of a company
	ref     string    // internal UUID
	tickets []*ticket // newest first
	version int       // grows with every change of the list
	bodies  map[string][]byte
}

// sort puts the newest inquiry first, and of those of one second the later one.
func (a *account) sort() {
	slices.SortFunc(a.tickets, func(a, b *ticket) int {
		return cmp.Or(time.Time(b.Opened).Compare(time.Time(a.Opened)), cmp.Compare(b.Number, a.Number))
	})
}

// dataset is all that the server knows. The server's lock guards it.
type dataset struct {
	kinds                       map[string][]*account
	byID                        map[string]*account // by kind and account
	rng                         *rand.Rand
	nextNumber                  int64
	sessionID, traceID, agentID string
}

// account finds an account. One that does not exist has an empty list.
func (d *dataset) account(kind, id string) *account {
	if a := d.byID[kind+" "+id]; a != nil {
		return a
	}
	return &account{id: id}
}

// Accounts with characters that have a meaning in paths and queries keep the
// gateway's escaping honest.
var (
	buyerIDs     = []string{BuyerTypical, BuyerOther, BuyerEmpty, BuyerBusy, "o'hara&sons", "mueller/soehne", "kim=min#su", "100%+1?"}
	sellerIDs    = []string{SellerTypical, "nordlicht", "kim&co/outlet", "seoul-books"}
	companyNames = []string{"한강 상사 (Han River Trading)", "Nordlicht GmbH & Co. KG", `Kim "K&Co" <Outlet>`, "서울서점"}
)

// named is the name of that number, made by its form where there are not so many.
func named(i int, form string, names []string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf(form, i)
}

// generate makes all data from the seed: accounts, then inquiries, then texts. The
// order of the draws is part of the data: a draw more changes everything behind it.
func generate(o Options) *dataset {
	d := &dataset{
		kinds: map[string][]*account{}, byID: map[string]*account{},
		rng:        rand.New(rand.NewPCG(o.Seed, 0x6c6567616379)),
		nextNumber: 9_007_199_254_740_993, // 2^53 + 1: lost by a float64
	}
	d.sessionID, d.traceID, d.agentID = d.uuid(), d.uuid(), d.uuid()
	add := func(kind, id, name string) {
		a := &account{id: id, name: name, ref: d.uuid()}
		d.kinds[kind] = append(d.kinds[kind], a)
		d.byID[kind+" "+id] = a
	}
	const companies = 8
	for i := range companies - 1 {
		add(KindSeller, named(i, "vendor-%03d", sellerIDs), named(i, "Vendor %03d Inc.", companyNames))
	}
	add(KindSeller, SellerEmpty, "Fresh Start Ltd.")
	for i := range o.Buyers {
		add(KindBuyer, named(i, "buyer-%04d", buyerIDs), "")
	}
	// The period is fixed: data that followed the wall clock would differ between two
	// runs with one seed.
	const days = 540
	firstDay := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range o.Inquiries {
		b := d.buyerOf(i, o.Inquiries)
		d.open(b, firstDay.Add(time.Duration(d.rng.IntN(days*86400))*time.Second))
	}
	for _, accounts := range d.kinds {
		for _, a := range accounts {
			a.sort()
		}
	}
	// Texts come last, because they quote ids of other records.
	for _, b := range d.kinds[KindBuyer] {
		for _, t := range b.tickets {
			d.write(t)
		}
	}
	return d
}

// buyerOf spreads inquiries unevenly: fixed small lists for the accounts that
// demos use, a very long one, an empty one, and a falling curve for the rest.
func (d *dataset) buyerOf(i, all int) *account {
	const typical, other = 24, 12
	buyers := d.kinds[KindBuyer]
	switch rest := len(buyers) - 4; {
	case i < typical:
		return buyers[0]
	case i < typical+other:
		return buyers[1]
	case i < typical+other+all/5 || rest == 0:
		return buyers[3]
	default:
		return buyers[4+d.skewed(rest)]
	}
}

// open adds a ticket without texts to both lists. Of 100 states 30 are N and 45 A.
func (d *dataset) open(b *account, at time.Time) *ticket {
	t := &ticket{ID: d.uuid(), Number: d.nextNumber, Customer: customer{b.id, b.ref}, Opened: local(at), Memo: internalNote, buyer: b}
	switch n := d.rng.IntN(100); {
	case n < 30:
		t.State = "N"
	case n < 75:
		t.State = "A"
	default:
		t.State = "C"
	}
	t.Category = []code{"P", "D", "R", ""}[d.rng.IntN(4)]
	companies := d.kinds[KindSeller]
	t.company = companies[d.skewed(len(companies)-1)] // never the last one: it stays empty
	if d.nextNumber%2 == 0 {
		t.Replies = []reply{} // else null
	}
	d.nextNumber++
	b.tickets = append(b.tickets, t)
	t.company.tickets = append(t.company.tickets, t)
	return t
}

// skewed returns an index below n; low ones are likelier.
func (d *dataset) skewed(n int) int {
	u := d.rng.Float64()
	return int(u * u * float64(n))
}

// uuid returns a random UUID of version 4 (RFC 9562).
func (d *dataset) uuid() string {
	hi, lo := d.rng.Uint64(), d.rng.Uint64()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(0b11<<62) | 0b10<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

// The texts of inquiries and replies, with characters that go wrong in careless programs:
// line breaks, scripts from right to left, emoji. One content and one reply is empty.
var (
	subjects = []string{
		"Where is my parcel?", "Wrong size delivered", "배송이 언제 도착하나요?", "환불 요청드립니다",
		"Invoice shows the old address", `The label says "fragile" but the box was open`, "Rückgabe nach 14 Tagen möglich?",
		"Order arrived twice 📦📦", "Does it run on 110 V / 230 V?", "Back\\slash in the product name",
		"Price < 10,000 & shipping > 3,000", "هل يتوفر هذا المنتج؟", "Charged two times for one order",
		"Is the </script> tag part of the manual?", "Missing screws\t(4 of 8)", "Le café est arrivé froid ☕",
	}
	contents = []string{
		"Hello,\n\nI ordered last week and nothing has arrived so far. Could you look into it?\n\nThank you",
		"안녕하세요. 주문한 상품이 아직 도착하지 않았습니다. 확인 부탁드립니다. 😀",
		"The box was damaged.\r\nPhotos are attached.\r\n-- \r\nSent from my phone",
		"Ich möchte den Artikel zurückgeben. Die Größe passt leider nicht – was muss ich tun?",
		`He said: "it's in the post". C:\temp\photo.jpg shows it is not.`,
		"Line separators\u2028and paragraph ones\u2029occur in pasted text, as do bells\a and zero width\u200bspaces.",
		"", "Please refund {\"amount\": 12900, \"currency\": \"KRW\"} to my card.",
		"Family emoji 👨‍👩‍👧‍👦, combining e\u0301, full width ＡＢＣ, maths 𝒳.",
	}
	answers = []string{
		"Your parcel left our warehouse today.", "환불이 완료되었습니다. 감사합니다.", "We are sorry! A replacement is on its way 🙏",
		"Could you send us a photo?", "Is there any news?", "Vielen Dank für Ihre Geduld.", "Closed: no reply within 14 days.", "",
	}
)

// pick draws one of the texts.
func (d *dataset) pick(of []string) string { return of[d.rng.IntN(len(of))] }

// write fills in the texts and replies of t. Some quote ids: the record's own,
// another record's of the same customer (which a filter may have taken out of
// the reply that shows the quotation), and a reply's.
func (d *dataset) write(t *ticket) {
	other := func() string { return t.buyer.tickets[d.rng.IntN(len(t.buyer.tickets))].ID }
	t.Subject = d.pick(subjects)
	if d.rng.IntN(100) < 3 {
		t.Subject = "Re: [" + other() + "] " + t.Subject
	}
	t.Body = body{Text: d.pick(contents), Format: "plain"}
	switch n := d.rng.IntN(100); {
	case n < 8:
		t.Body.Text += "\n(ref " + t.ID + ")"
	case n < 14:
		t.Body.Text += "\nhttps://help.example/t/" + other() + "#top"
	}
	// One to three replies, the first one by the staff; one in few to a pending inquiry.
	n := 0
	switch {
	case t.State != "N":
		n = 1 + d.rng.IntN(3)
	case d.rng.IntN(100) < 30:
		n = 1
	}
	at := time.Time(t.Opened)
	for i := range n {
		by := []code{"C", "S", ""}[d.rng.IntN(3)]
		if i == 0 && t.State != "N" {
			by = "S"
		}
		at = at.Add(time.Duration(60+d.rng.IntN(200_000)) * time.Second)
		t.Replies = append(t.Replies, d.newReply(t, by, at))
	}
}

// newReply writes a reply; seven of 100 quote an internal id.
func (d *dataset) newReply(t *ticket, by code, at time.Time) reply {
	r := reply{ID: d.uuid(), At: local(at), Text: d.pick(answers)}
	switch by {
	case "S":
		r.By = &author{by, "cs@" + agentDomain, d.agentID}
	case "C":
		r.By = &author{Role: by}
	}
	switch n := d.rng.IntN(100); {
	case n < 4:
		r.Text += " Ticket " + t.ID
	case n < 7:
		r.Text = "See " + r.ID + ". " + r.Text
	}
	return r
}
