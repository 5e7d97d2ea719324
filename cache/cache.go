// Package cache keeps finished v1 bodies in the process and in Redis, fresh on
// purpose.
//
// [Lists.Lookup] answers out of the process, or leaves the key to [Lists.Get]. Get loads the
// key's base, which is the list that the legacy is asked for, and selects the wanted list
// from it where the two differ. load serves what the policy allows at once; else it joins
// the one flight of the base and waits for it. A flight looks into the process once more,
// then into Redis, then contends for the fleet's lease, and fills: see obtain. How an entry
// may be served is judged in one place, judge, by the policy in force at that moment.
//
// Three things make an entry unusable besides its age: another key or mapping than the one
// that is asked for (belongsTo), a purge since its fill began (epochs.current), and the
// chance that a purge was missed (epochs.confirmed).
package cache

import (
	"context"
	"errors"
	"time"
)

// The two kinds of caller. A key of any other kind is refused.
const (
	KindBuyer  = "buyer"
	KindSeller = "seller"
)

// The tiers that a [Result] can name. A fill has no tier.
const (
	TierLocal = "local"
	TierRedis = "redis"
)

// ErrFillPanicked is what every waiter gets when the fill panicked or ended its
// goroutine. The panic is logged with its stack.
var ErrFillPanicked = errors.New("cache: the fill panicked")

// ErrFillOverdue is what every waiter gets when the fill neither returned nor
// gave up at its deadline. It wraps [context.DeadlineExceeded].
var ErrFillOverdue error = overdueError{}

// ErrClosed is returned for a look-up that would need a fill after Close.
var ErrClosed = errors.New("cache: closed")

// ErrUnknownKind is returned for a key whose kind is neither buyer nor seller.
var ErrUnknownKind = errors.New("cache: the key's kind is neither buyer nor seller")

// overdueError is a type because it wraps another error.
type overdueError struct{}

func (overdueError) Error() string { return "cache: the fill went past its deadline" }
func (overdueError) Unwrap() error { return context.DeadlineExceeded }

// Key names one list: everything of a request that affects the bytes. Empty
// Status or InquiryType means no filter. It is comparable.
type Key struct {
	Kind        string `json:"kind"`
	Account     string `json:"account"`
	Status      string `json:"status,omitempty"`
	InquiryType string `json:"inquiry_type,omitempty"`
}

// Content is a finished v1 body and the moment when the legacy answered.
type Content struct {
	Body       []byte    // handed over: the caller must not change it afterwards
	AnsweredAt time.Time // zero or in the future: taken as now
	NoStore    bool      // serve it, but keep it in no tier
	// Fingerprint is that of the mapping that made the body. A list of another
	// mapping than the one its flight began under is served to who waits for it,
	// and kept in no tier.
	Fingerprint string
}

// Fill fetches a list. It runs detached from the caller: its context keeps the
// caller's values, has its own deadline and ends early only when the cache is
// closed. It is called once per key at a time. An error is never stored.
type Fill func(ctx context.Context, k Key) (Content, error)

// Background tells whether nobody waits for the fill that ctx belongs to.
func Background(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

// InBackground marks ctx as that of a fill for which nobody waits.
func InBackground(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// backgroundKey is where a context says that nobody waits.
type backgroundKey struct{}

// FillError is what the error of a fill may say about itself, for the back-off.
// Any other error is taken as a failure of its list alone.
type FillError interface {
	error
	// EndpointFault: the legacy fails for lists of other accounts as well.
	EndpointFault() bool
	// Refused: the legacy was not asked. That says nothing about the list.
	Refused() bool
}

// Variant is one coding of a body, ready to be written. Neither field may be
// changed: both are shared by all readers.
type Variant struct {
	Body   []byte   // nil: this coding does not exist
	Length []string // the decimal Content-Length as a header value
}

// Outcome says how a look-up was answered.
type Outcome string

// The outcomes of a look-up that has an entry.
const (
	Hit             Outcome = "hit"              // fresh, from a tier
	Miss            Outcome = "miss"             // filled for this caller
	Collapsed       Outcome = "collapsed"        // waited for another caller's fill
	Impossible      Outcome = "impossible"       // the empty list: no record can have the filter values
	StaleRevalidate Outcome = "stale-revalidate" // stale, a refresh is on its way
	StaleError      Outcome = "stale-error"      // stale, because the last fill failed
)

// Result is the answer of a look-up.
type Result struct {
	Entry   *Entry
	Outcome Outcome
	Tier    string        // TierLocal, TierRedis, or empty for a fill
	Stored  bool          // the entry of this fill is in a tier now
	Expired bool          // a list was there before this fill, too old to be served
	Age     time.Duration // since the legacy answered, never negative
	TTL     time.Duration // remaining freshness by today's policy, jitter included; negative when stale
	Wait    time.Duration // time spent reading Redis, filling or waiting; 0 on a local hit

	lookedAt time.Time // of Lookup
}
