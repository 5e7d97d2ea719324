package upstream

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// guard is the state of one kind of list, beside its breaker, that survives a reload unless base_url changes. Its parts are
// safe for concurrent use.
type guard struct {
	budget    budget
	incidents *incidents
	foreign   minuteLog // records of other accounts, in the log
	invalid   minuteLog // records that break a rule of the mapping, in the log
}

// newGuard returns the state before the first request.
func newGuard(kind string, log *slog.Logger) *guard {
	return &guard{budget: budget{tokens: budgetBurst}, incidents: &incidents{kind: kind, log: log, open: map[Failure]*incident{}}}
}

// places bound the requests in flight at the legacy system, in all and per account. A buyer and a seller of one name are two
// accounts. A new list is rejected if no place is free; later requests of a list wait for one, and go before new
// lists. Idle accounts use no memory. places are safe for concurrent use.
type places struct {
	inFlight atomic.Int64
	bytes    replyBytes

	mu              sync.Mutex
	max, perAccount int
	all             *semaphore.Weighted
	accounts        map[accountKey]*accountPlaces
}

// accountKey names an account.
type accountKey struct{ kind, account string }

// accountPlaces are those of one account.
type accountPlaces struct {
	*semaphore.Weighted
	users int // requests that have a place or wait for one
}

// resize sets the bounds. Requests in flight no longer count if they change.
func (p *places) resize(max, perAccount int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if max != p.max || perAccount != p.perAccount {
		p.max, p.perAccount = max, perAccount
		p.all, p.accounts = semaphore.NewWeighted(int64(max)), map[accountKey]*accountPlaces{}
	}
}

// tryAcquire takes a place for the first request of a list. Without an error release must be called.
func (p *places) tryAcquire(k accountKey) (release func(), err error) {
	all, own, leave := p.join(k)
	switch {
	case !own.TryAcquire(1):
		leave()
		return nil, noPlace(reasonAccountFull)
	case !all.TryAcquire(1):
		own.Release(1)
		leave()
		return nil, noPlace(reasonFull)
	}
	return p.taken(all, own, leave), nil
}

// acquire waits for a place within the deadline of ctx. Without an error release must be called.
func (p *places) acquire(ctx context.Context, k accountKey) (release func(), err error) {
	all, own, leave := p.join(k)
	reason := reasonAccountFull
	if own.Acquire(ctx, 1) == nil {
		if all.Acquire(ctx, 1) == nil {
			return p.taken(all, own, leave), nil
		}
		own.Release(1)
		reason = reasonFull
	}
	leave()
	return nil, classify(ctx, noPlace(reason))
}

// noPlace is the error of a request without a place: the gateway's own bound, and no failure of the legacy system.
func noPlace(reason string) *Error {
	key := map[string]string{reasonFull: "max_concurrent", reasonAccountFull: "max_concurrent_per_account"}[reason]
	return notAsked(reason, time.Second, "all upstream.%s requests are in flight", key)
}

// join returns the places of all accounts and of one. The caller must call leave when it needs them no longer.
func (p *places) join(k accountKey) (all *semaphore.Weighted, own *accountPlaces, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, accounts := p.accounts[k], p.accounts
	if own == nil {
		own = &accountPlaces{Weighted: semaphore.NewWeighted(int64(p.perAccount))}
		accounts[k] = own
	}
	own.users++
	return p.all, own, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(accounts, k)
		}
	}
}

func (p *places) taken(all *semaphore.Weighted, own *accountPlaces, leave func()) (release func()) {
	p.inFlight.Add(1)
	return func() {
		p.inFlight.Add(-1)
		all.Release(1)
		own.Release(1)
		leave()
	}
}

// budget is a token bucket for repeats: every request adds a tenth of a token; every repeat and every second reading of a list takes
// a whole one. A legacy system that is down gets a tenth more requests, not twice as many. The bucket is full at the start, so that
// the first failures after a start are retried.
type budget struct {
	mu     sync.Mutex
	tokens float64
}

const (
	budgetShare = 0.1
	budgetBurst = 3
)

// deposit is called once for every request, whether it is repeated or not.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+budgetShare, budgetBurst)
}

// withdraw takes a token if there is one.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// maxRetryAfter bounds what the legacy system may tell us to wait.
const maxRetryAfter = time.Minute

// wholeSeconds rounds up, to one second at least.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110, 10.2.3). Fractions of a second, which some
// systems send, are rounded up. Zero: it has neither.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if decimal.MatchString(text) {
		seconds, _ := strconv.ParseFloat(text, 64) // +Inf beyond its range
		return time.Duration(math.Ceil(min(seconds, math.MaxInt32))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

var decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]*)?$`)

// minuteLog limits a message to one line a minute, which counts those that were left out.
type minuteLog struct {
	mu       sync.Mutex
	line     time.Time       // the last
	count    int             // since then
	accounts map[string]bool // that these are of, maxAccounts at most
}

// add counts n more events of an account. It returns the attributes of a line about all events since the last line; nil: no
// line is due.
func (s *minuteLog) add(account string, n int, now time.Time) (line []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts == nil {
		s.accounts = map[string]bool{}
	}
	if len(s.accounts) < maxAccounts {
		s.accounts[strings.Clone(account)] = true
	}
	if !s.line.IsZero() && now.Sub(s.line) < time.Minute {
		s.count += n
		return nil
	}
	line = []any{"accounts", len(s.accounts), "unlogged_records", s.count}
	s.line, s.count, s.accounts = now, 0, nil
	return line
}
