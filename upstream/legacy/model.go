package legacy

import (
	"math/rand/v2"
	"time"
)

// state and category are what the model knows. Their notations, the legacy's
// and the public one, are in the tables below.
type state uint8

const (
	pending state = iota
	answered
	closed
)

type category uint8

const (
	product category = iota
	delivery
	refund
	uncategorized
)

type role uint8

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

func plain(s string) text { return text{s, s} }

func (t text) plus(s string) text { return text{t.raw + s, t.public + s} }

func (t text) quote(id string) text { return text{t.raw + id, t.public + removed} }

type reply struct {
	id   string
	text text
	by   role
	at   time.Time
}

type ticket struct {
	id       string
	number   int64 // a serial past 2^53
	subject  text
	body     text
	state    state
	category category
	opened   time.Time
	replies  []reply
	buyer    *buyer
	company  *company
}

type buyer struct {
	account string
	ref     string    // internal UUID of the customer
	tickets []*ticket // newest first
	version int       // grows with every change of a list

	rng  *rand.Rand // moments and contents of changes
	next time.Time  // of the next change; zero: none
}

type company struct {
	account string
	name    string
	ref     string
	tickets []*ticket // newest first
	version int
}

type dataset struct {
	buyers      []*buyer
	companies   []*company
	byBuyer     map[string]*buyer
	byCompany   map[string]*company
	rng         *rand.Rand
	every       time.Duration
	nextNumber  int64
	sessionID   string
	traceID     string
	agentUserID string
}
