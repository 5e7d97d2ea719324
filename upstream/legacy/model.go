package legacy

import (
	"math/rand/v2"
	"time"
)

// state, category and role are what the model knows. Their notations are in the
// tables below.
type (
	state    uint8
	category uint8
	role     uint8
)

const (
	pending state = iota
	answered
	closed
)

const (
	product category = iota
	delivery
	refund
	uncategorized
)

const (
	customer role = iota
	staff
	system
)

// notation is how one value is written in each of the three places it shows up.
// null means that the place has a JSON null instead.
type notation struct{ buyer, seller, public string }

const null = ""

var (
	states = [...]notation{
		pending:  {"N", "N", "pending"},
		answered: {"A", "A", "answered"},
		closed:   {"C", "C", "closed"},
	}
	categories = [...]notation{
		product:       {"P", "PRD", "product"},
		delivery:      {"D", "DLV", "delivery"},
		refund:        {"R", "RFD", "refund"},
		uncategorized: {null, null, null},
	}
	roles = [...]notation{
		customer: {"C", "01", "customer"},
		staff:    {"S", "02", "staff"},
		system:   {null, null, null},
	}
)

// sellerDefaultType is the public type of a seller's record whose legacy type is
// null, because a seller's inquiry_type cannot be null.
const sellerDefaultType = "other"

// removed is what the gateway puts in the place of an internal id.
const removed = "[removed]"

// text is a string as the legacy stores it and as the public may see it. They
// differ where a UUID is quoted.
type text struct{ raw, public string }

// plain is a text without an internal id.
func plain(s string) text { return text{s, s} }

// plus appends a text without an internal id.
func (t text) plus(s string) text { return text{t.raw + s, t.public + s} }

// quote appends an internal id, which the public does not see.
func (t text) quote(id string) text { return text{t.raw + id, t.public + removed} }

// reply is one answer to a ticket.
type reply struct {
	id   string
	text text
	by   role
	at   time.Time
}

// ticket is one inquiry. It stands in the list of its buyer and in that of its company.
type ticket struct {
	id       string
	number   int64 // a serial past 2^53
	subject  text
	body     text
	state    state
	category category
	opened   time.Time
	replies  []reply
	buyer    *owner
	company  *owner
}

// owner is an account with its list: a buyer, or a seller's company.
type owner struct {
	account string
	name    string    // of a company
	ref     string    // internal UUID
	tickets []*ticket // newest first
	version int       // grows with every change of the list

	rng  *rand.Rand // a buyer's: moments and contents of changes
	next time.Time  // of the next change; zero: none
}

// owners are the accounts of one kind.
type owners struct {
	list      []*owner
	byAccount map[string]*owner
}

// add appends an account. Its name must not be there yet.
func (all *owners) add(o *owner) {
	all.list = append(all.list, o)
	all.byAccount[o.account] = o
}

// dataset is all that the server knows. The server's lock guards it.
type dataset struct {
	kinds       map[string]*owners
	rng         *rand.Rand
	every       time.Duration
	nextNumber  int64
	sessionID   string
	traceID     string
	agentUserID string
}

func (d *dataset) buyers() []*owner    { return d.kinds[KindBuyer].list }
func (d *dataset) companies() []*owner { return d.kinds[KindSeller].list }

// of finds an account. One that does not exist has an empty list.
func (d *dataset) of(kind, account string) owner {
	if all := d.kinds[kind]; all != nil && all.byAccount[account] != nil {
		return *all.byAccount[account]
	}
	return owner{account: account}
}

// borrowed is a ticket that looks as if account owned it, also where it owns none.
func (d *dataset) borrowed(kind, account string) *ticket {
	if own := d.of(kind, account).tickets; len(own) > 0 {
		return own[0]
	}
	t := *d.foreign(kind, account)
	b, c := *t.buyer, *t.company
	if kind == KindBuyer {
		b.account = account
	} else {
		c.account = account
	}
	t.buyer, t.company = &b, &c
	return &t
}

// foreign is a ticket that account does not own.
func (d *dataset) foreign(kind, account string) *ticket {
	for _, o := range d.kinds[kind].list {
		if o.account != account && len(o.tickets) > 0 {
			return o.tickets[0]
		}
	}
	return d.buyers()[0].tickets[0]
}
