package upstream

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// guard is what the gateway knows of one list of the legacy system, whatever configuration
// reads it: it outlives a reload that leaves base_url as it is. In each part a failure is
// evidence about its account first. Its parts are safe for concurrent use.
type guard struct {
	breaker   *currentBreaker // outlives a change of base_url, too, as its gauge does
	hold      hold
	budget    budget
	incidents *incidents
	foreign   minuteLog // records of other accounts, in the log
	invalid   minuteLog // records that break a rule of the mapping, in the log
}

// newGuard knows nothing yet.
func newGuard(kind string, b *currentBreaker, log *slog.Logger) *guard {
	return &guard{breaker: b, budget: budget{tokens: budgetMost}, incidents: &incidents{kind: kind, log: log, open: map[Failure]*incident{}}}
}

// bulkhead bounds the requests that are under way at the legacy system, of all accounts and
// of each, so that no account takes all: each request is made with a permit. A buyer and a
// seller of one name are two accounts. One with nothing under way takes no memory.
type bulkhead struct {
	mu       sync.Mutex
	taken    int
	accounts map[asker]int
}

// asker is for whom a permit is taken.
type asker struct{ kind, account string }

// enter takes a permit, or refuses it where all or the account's are taken. Without an
// error leave must be called.
func (b *bulkhead) enter(who asker, most, mostPerAccount int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.accounts[who] >= mostPerAccount:
		return notAsked(reasonAccountFull, time.Second, "the %d requests that the account may have under way are", mostPerAccount)
	case b.taken >= most:
		return notAsked(reasonFull, time.Second, "all %d requests that may be under way are", most)
	}
	b.take(who)
	return nil
}

func (b *bulkhead) take(who asker) {
	if b.accounts == nil {
		b.accounts = map[asker]int{}
	}
	b.taken++
	b.accounts[who]++
}

// leave gives back a permit.
func (b *bulkhead) leave(who asker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken--
	if b.accounts[who]--; b.accounts[who] == 0 {
		delete(b.accounts, who)
	}
}

// exceed takes a permit for nobody, whatever the bounds are.
func (b *bulkhead) exceed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(asker{})
}

// count is how many permits are taken.
func (b *bulkhead) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// permits are those of one list. It has one from its admission to its end, which one request after
// the other uses. Requests at the same time take more.
type permits struct {
	of   *bulkhead
	who  asker
	cfg  *Config
	idle chan struct{} // has one where a permit of the list is in no request's use
}

// newPermits has the one that a list was admitted with.
func newPermits(of *bulkhead, who asker, cfg *Config) permits {
	p := permits{of, who, cfg, make(chan struct{}, 1)}
	p.idle <- struct{}{}
	return p
}

// take gets a permit for one request. Where the list's own are in use it takes one more, or waits
// for one of them. Half of all permits, and of the account's, are left to lists that begin.
func (p *permits) take(ctx context.Context) error {
	select {
	case <-p.idle:
		return nil
	default:
	}
	if p.of.enter(p.who, (p.cfg.MaxConcurrent+1)/2, (p.cfg.perAccount()+1)/2) == nil {
		return nil
	}
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
		return classify(ctx, ctx.Err())
	}
}

// put ends what take began.
func (p *permits) put() {
	select {
	case p.idle <- struct{}{}:
	default:
		p.of.leave(p.who)
	}
}

// budget is a token bucket: every request puts a part of a token in, every
// repeat takes a whole one out. So a legacy system that is down gets a tenth
// more requests, not twice as many: over any time the repeats of a list
// are at most budgetShare times its requests, and budgetMost more.
type budget struct {
	mu     sync.Mutex
	tokens float64
	last   string // the account that the last repeat was for
}

// The bucket is full at the start, or the first blip after a start could not be bridged. The
// account that the last repeat was for leaves one token to the others: its requests alone may
// be what fails.
const (
	budgetShare = 0.1
	budgetBurst = 3 // for one account
	budgetMost  = budgetBurst + 1
)

// deposit is called once for every request that was sent, whether it is repeated or
// not.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+budgetShare, budgetMost)
}

// withdraw takes a token for a repeated request, or for a second reading of a list whatever its length,
// if there is one for the account.
func (b *budget) withdraw(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	least := 1.0
	if account == b.last {
		least = 2
	}
	if b.tokens < least {
		return false
	}
	b.tokens, b.last = b.tokens-1, account
	return true
}

// Bounds of what the legacy may tell us to wait.
const (
	leastHold = time.Second // after a 429 that does not tell
	mostHold  = time.Minute // where it says more, the legacy is asked again after this
	// holdAccounts that wait at a time show that all are meant.
	holdAccounts = 3
)

// hold keeps the gateway from asking after a reply that tells it to wait. It is for the account
// that the reply was for, as a quota may be that account's own; and for everybody once holdAccounts
// wait at a time.
type hold struct {
	mu       sync.Mutex
	all      time.Time
	accounts map[string]time.Time // no more than were under way when everybody began to wait
}

// obey begins a hold if the reply tells us to wait. It never ends one sooner.
func (h *hold) obey(account string, e *Error, now time.Time) {
	if e.Reason != reasonThrottled && e.Reason != reasonOverloaded {
		return
	}
	until := now.Add(max(e.Wait, leastHold))
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.accounts, func(_ string, end time.Time) bool { return !end.After(now) })
	if h.accounts == nil {
		h.accounts = map[string]time.Time{}
	}
	if until.After(h.accounts[account]) {
		h.accounts[account] = until
	}
	if len(h.accounts) >= holdAccounts && until.After(h.all) {
		h.all = until
	}
}

// refuse is the error of an account's fetch that is not made; nil: it may be.
func (h *hold) refuse(account string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := max(h.all.Sub(now), h.accounts[account].Sub(now)); left > 0 {
		return notAsked(reasonHeld, left, "the legacy has told us to wait")
	}
	return nil
}

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

// minuteLog counts what the log has a line about once a minute at most.
type minuteLog struct {
	mu       sync.Mutex
	line     time.Time       // the last
	count    int             // since then
	accounts map[string]bool // that these are of, maxAccounts at most
}

// add counts n more of an account. When a line is due it gives the line's words on all since the
// last one; nil: none is due.
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
	line = []any{"accounts", len(s.accounts), "not_told_before", s.count}
	s.line, s.count, s.accounts = now, 0, nil
	return line
}
