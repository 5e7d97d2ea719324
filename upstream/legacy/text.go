package legacy

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Accounts with characters that have a meaning in paths and queries keep the
// gateway's escaping honest.
func buyerAccount(i int) string {
	return named(i, "buyer-%04d", BuyerTypical, BuyerOther, BuyerEmpty, BuyerBusy, "o'hara&sons", "mueller/soehne", "kim=min#su", "100%+1?")
}

// named is the name of that number, made by its form where there are not so many.
func named(i int, form string, names ...string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf(form, i)
}

// sellerAccount is the account of the company of that number; the last one has no
// inquiries.
func sellerAccount(i, companies int) string {
	if i == companies-1 {
		return SellerEmpty
	}
	return named(i, "vendor-%03d", SellerTypical, "nordlicht", "kim&co/outlet", "seoul-books")
}

// companyName is the name that a seller's records show.
func companyName(i, companies int) string {
	if i == companies-1 {
		return "Fresh Start Ltd."
	}
	return named(i, "Vendor %03d Inc.", "한강 상사 (Han River Trading)", "Nordlicht GmbH & Co. KG", `Kim "K&Co" <Outlet>`, "서울서점")
}

// subjects are what inquiries are about, with characters that go wrong in careless
// programs.
func subjects() []string {
	return []string{
		"Where is my parcel?", "Wrong size delivered", "배송이 언제 도착하나요?", "환불 요청드립니다",
		"Invoice shows the old address", `The label says "fragile" but the box was open`, "Rückgabe nach 14 Tagen möglich?",
		"Order arrived twice 📦📦", "Does it run on 110 V / 230 V?", "Back\\slash in the product name",
		"Price < 10,000 & shipping > 3,000", "هل يتوفر هذا المنتج؟", "Charged two times for one order",
		"Is the </script> tag part of the manual?", "Missing screws\t(4 of 8)", "Le café est arrivé froid ☕",
	}
}

// bodies are the texts of inquiries: with line breaks, scripts from right to left and
// emoji; one is empty.
func bodies() []string {
	return []string{
		"Hello,\n\nI ordered last week and nothing has arrived so far. Could you look into it?\n\nThank you",
		"안녕하세요. 주문한 상품이 아직 도착하지 않았습니다. 확인 부탁드립니다. 😀",
		"The box was damaged.\r\nPhotos are attached.\r\n-- \r\nSent from my phone",
		"Ich möchte den Artikel zurückgeben. Die Größe passt leider nicht – was muss ich tun?",
		`He said: "it's in the post". C:\temp\photo.jpg shows it is not.`,
		"Line separators\u2028and paragraph ones\u2029occur in pasted text, as do bells\a and zero width\u200bspaces.",
		"", "Please refund {\"amount\": 12900, \"currency\": \"KRW\"} to my card.",
		"Family emoji 👨‍👩‍👧‍👦, combining e\u0301, full width ＡＢＣ, maths 𝒳.",
	}
}

// answers are the texts of replies; one is empty.
func answers() []string {
	return []string{
		"Your parcel left our warehouse today.", "환불이 완료되었습니다. 감사합니다.", "We are sorry! A replacement is on its way 🙏",
		"Could you send us a photo?", "Is there any news?", "Vielen Dank für Ihre Geduld.", "Closed: no reply within 14 days.", "",
	}
}

// pick draws one of the texts.
func pick(rng *rand.Rand, of []string) string { return of[rng.IntN(len(of))] }

// chance is true so many times of 100.
func chance(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }

// write fills in the texts and replies of t. Some quote ids: the record's own,
// another record's of the same customer (which a filter may have taken out of
// the reply that shows the quotation), and a reply's.
func (d *dataset) write(t *ticket) {
	rng := d.rng
	t.subject = plain(pick(rng, subjects()))
	if chance(rng, 3) {
		t.subject = plain("Re: [").quote(t.otherID(rng)).plus("] ").plus(t.subject.raw)
	}
	t.body = plain(pick(rng, bodies()))
	switch n := rng.IntN(100); {
	case n < 8:
		t.body = t.body.plus("\n(ref ").quote(t.id).plus(")")
	case n < 14:
		t.body = t.body.plus("\nhttps://help.example/t/").quote(t.otherID(rng)).plus("#top")
	}
	d.writeReplies(t)
}

// otherID is the id of any inquiry of the same customer, which may be the ticket's own.
func (t *ticket) otherID(rng *rand.Rand) string {
	return t.buyer.tickets[rng.IntN(len(t.buyer.tickets))].id
}

// writeReplies writes one to three replies, the first one by the staff; few to a
// pending inquiry.
func (d *dataset) writeReplies(t *ticket) {
	n := 0
	switch {
	case t.state != pending:
		n = 1 + d.rng.IntN(3)
	case chance(d.rng, 30):
		n = 1
	}
	at := t.opened
	for i := range n {
		by := role(d.rng.IntN(len(roles)))
		if i == 0 && t.state != pending {
			by = staff
		}
		at = at.Add(time.Duration(60+d.rng.IntN(200_000)) * time.Second)
		t.replies = append(t.replies, d.newReply(t, by, at))
	}
}

// newReply writes a reply; seven of 100 quote an internal id.
func (d *dataset) newReply(t *ticket, by role, at time.Time) reply {
	r := reply{id: uuid(d.rng), by: by, at: at, text: plain(pick(d.rng, answers()))}
	switch n := d.rng.IntN(100); {
	case n < 4:
		r.text = r.text.plus(" Ticket ").quote(t.id)
	case n < 7:
		r.text = plain("See ").quote(r.id).plus(". ").plus(r.text.raw)
	}
	return r
}
