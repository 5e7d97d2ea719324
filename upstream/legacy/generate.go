package legacy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// seoul is spelled out as an offset so that the package needs no zone data; the
// zone has been UTC+9 without summer time for all of the generated period.
func seoul() *time.Location { return time.FixedZone("Asia/Seoul", 9*60*60) }

// days is the length of the generated period.
const days = 540

// firstDay is fixed: data that followed the wall clock would differ between two
// runs with one seed.
func firstDay() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

// generate makes all data from the seed: accounts, then inquiries, then texts. The
// order of the draws is part of the data: a draw more changes everything behind it.
func generate(o Options) *dataset {
	d := &dataset{
		kinds: map[string]*owners{
			KindBuyer:  {byAccount: make(map[string]*owner, o.Buyers)},
			KindSeller: {byAccount: make(map[string]*owner, o.Companies)},
		},
		rng:        rand.New(rand.NewPCG(o.Seed, 0x6c6567616379)),
		nextNumber: 9_007_199_254_740_993, // 2^53 + 1: lost by a float64
	}
	d.sessionID, d.traceID, d.agentUserID = uuid(d.rng), uuid(d.rng), uuid(d.rng)
	for i := range o.Companies {
		d.kinds[KindSeller].add(&owner{account: sellerAccount(i, o.Companies), name: companyName(i, o.Companies), ref: uuid(d.rng)})
	}
	for i := range o.Buyers {
		d.kinds[KindBuyer].add(&owner{account: buyerAccount(i), ref: uuid(d.rng), rng: rand.New(rand.NewPCG(o.Seed, uint64(i)))})
	}
	for i := range o.Inquiries {
		d.addTicket(d.ownerOf(i, o.Inquiries), firstDay().Add(time.Duration(d.rng.IntN(days*86400))*time.Second))
	}
	for _, of := range d.kinds {
		for _, o := range of.list {
			slices.SortFunc(o.tickets, newestFirst)
		}
	}
	// Texts come last, because they quote ids of other records.
	for _, b := range d.buyers() {
		for _, t := range b.tickets {
			d.write(t)
		}
	}
	return d
}

// ownerOf spreads inquiries unevenly: fixed small lists for the accounts that
// demos use, a very long one, an empty one, and a falling curve for the rest.
func (d *dataset) ownerOf(i, all int) *owner {
	const typical, other = 24, 12
	known := d.kinds[KindBuyer].byAccount
	switch rest := len(d.buyers()) - 4; {
	case i < typical:
		return known[BuyerTypical]
	case i < typical+other:
		return known[BuyerOther]
	case i < typical+other+all/5 || rest == 0:
		return known[BuyerBusy]
	default:
		return d.buyers()[4+skewed(d.rng, rest)]
	}
}

// addTicket appends a ticket without texts.
func (d *dataset) addTicket(b *owner, opened time.Time) *ticket {
	t := &ticket{
		id:       uuid(d.rng),
		number:   d.nextNumber,
		state:    someState(d.rng),
		category: category(d.rng.IntN(len(categories))),
		opened:   opened,
		buyer:    b,
		company:  d.companies()[skewed(d.rng, len(d.companies())-1)], // never the last one: it stays empty
	}
	d.nextNumber++
	b.tickets = append(b.tickets, t)
	t.company.tickets = append(t.company.tickets, t)
	return t
}

// newestFirst orders by the opening time, and by the number where that is the same.
func newestFirst(a, b *ticket) int {
	return cmp.Or(b.opened.Compare(a.opened), cmp.Compare(b.number, a.number))
}

// someState draws a state: 30 of 100 are pending, 45 answered, the others closed.
func someState(rng *rand.Rand) state {
	switch n := rng.IntN(100); {
	case n < 30:
		return pending
	case n < 75:
		return answered
	default:
		return closed
	}
}

// skewed returns an index below n; low ones are likelier.
func skewed(rng *rand.Rand, n int) int {
	u := rng.Float64()
	return int(u * u * float64(n))
}

// uuid returns a random UUID of version 4 (RFC 9562).
func uuid(rng *rand.Rand) string {
	hi, lo := rng.Uint64(), rng.Uint64()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(0b11<<62) | 0b10<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}
