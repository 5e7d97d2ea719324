package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	breakers "inquiry-gateway/internal/breaker"
)

// endpoint is what the gateway knows of one list of the legacy system, whatever
// configuration reads it: it outlives a reload that leaves base_url as it is. Its parts
// are safe for concurrent use.
type endpoint struct {
	bulkhead *bulkhead // one for both lists
	breaker  *breaker
	budget   *budget
	hold     *hold
	outage   *outage
	foreign  *seldom // records of other accounts, in the log
}

// newEndpoint makes what is known at the start: nothing. The breaker is put in by itself.
func newEndpoint(places *bulkhead) endpoint {
	return endpoint{places, nil, &budget{tokens: budgetBurst}, &hold{}, &outage{}, &seldom{}}
}

// bulkhead counts the fetches that are under way, of all accounts and of each: no
// account takes all places. An account with nothing under way takes no memory.
type bulkhead struct {
	mu       sync.Mutex
	underWay int
	accounts map[string]int
}

// enter counts a fetch, or refuses it where all or the account's places are taken.
// Without an error leave must be called.
func (b *bulkhead) enter(account string, most, mostPerAccount int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.accounts[account] >= mostPerAccount:
		return notAsked(reasonAccountFull, time.Second, "%d fetches of the account are under way", mostPerAccount)
	case b.underWay >= most:
		return notAsked(reasonFull, time.Second, "%d fetches are under way", most)
	}
	if b.accounts == nil {
		b.accounts = map[string]int{}
	}
	b.underWay++
	b.accounts[account]++
	return nil
}

// leave ends a fetch that enter has counted.
func (b *bulkhead) leave(account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay--
	if b.accounts[account]--; b.accounts[account] == 0 {
		delete(b.accounts, account)
	}
}

// count is how many fetches are under way.
func (b *bulkhead) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.underWay
}

// breaker stops asking for a list that the legacy fails to give. One fetch counts once,
// by its kind of failure, however many requests it makes.
type breaker struct {
	cb        *gobreaker.CircuitBreaker[List]
	openUntil atomic.Int64 // Unix nanoseconds

	redis redis.Cmdable // where the fleet agrees on one probe; nil: this node probes by itself
	key   string
	lease time.Duration // of a probe
}

// newBreaker gives a closed breaker whose changes show in the metrics and the log.
func newBreaker(kind string, cfg Config, m *metrics, opts Options) *breaker {
	b := &breaker{redis: opts.Redis, key: cmp.Or(opts.Prefix, "iq") + ":probe:{" + kind + "}", lease: cfg.Timeout}
	m.state.Set(0)
	opens := breakers.Config{Window: BreakerWindow, Least: cfg.Breaker.MinRequests, Ratio: cfg.Breaker.FailureRatio, OpenFor: cfg.Breaker.OpenFor}
	judge := func(err error) (isWell, counts bool) {
		v := verdictOf(err)
		return v == well, v != unknown
	}
	b.cb = breakers.New[List](opens, judge, func(from, to gobreaker.State) {
		if to == gobreaker.StateOpen {
			b.openUntil.Store(time.Now().Add(cfg.Breaker.OpenFor).UnixNano())
		}
		m.state.Set(float64(to))
		m.transitions[to.String()].Inc()
		opts.Logger.Warn("circuit breaker changed", "kind", kind, "from", from.String(), "to", to.String())
	})
	return b
}

// do runs fetch unless the breaker is open. A half-open one lets one fetch of the whole
// fleet through at a time.
func (b *breaker) do(ctx context.Context, fetch func() (List, error)) (List, error) {
	list, err := b.cb.Execute(func() (List, error) {
		if b.cb.State() != gobreaker.StateHalfOpen || b.redis == nil {
			return fetch()
		}
		// Without an answer of Redis this node probes by itself.
		if won, err := b.redis.SetNX(ctx, b.key, 1, b.lease).Result(); err == nil && !won {
			return List{}, notAsked(reasonBreaker, time.Second, "another node asks whether the legacy is well")
		}
		list, err := fetch()
		if verdictOf(err) != atFault { // else the others wait until the lease ends
			_ = b.redis.Del(context.WithoutCancel(ctx), b.key).Err()
		}
		return list, err
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		return List{}, notAsked(reasonBreaker, time.Until(time.Unix(0, b.openUntil.Load())), "%w", err)
	case errors.Is(err, gobreaker.ErrTooManyRequests): // another caller's probe is under way
		return List{}, notAsked(reasonBreaker, time.Second, "%w", err)
	}
	return list, err
}

func (b *breaker) state() gobreaker.State { return b.cb.State() }

// budget is a token bucket: every request puts a part of a token in, every
// repeat takes a whole one out. So a legacy system that is down gets a tenth
// more requests, not twice as many: over any time the repeats of an endpoint
// are at most budgetShare times its requests, and budgetBurst more.
type budget struct {
	mu     sync.Mutex
	tokens float64
}

// budgetBurst is how many tokens the bucket holds. They are there from the start,
// or the first blip after a start could not be bridged.
const (
	budgetShare = 0.1
	budgetBurst = 3
)

// deposit is called once for every request that was sent, whether it is repeated or
// not.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+budgetShare, budgetBurst)
}

// withdraw takes the token for one repeat, if there is one.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Bounds of what the legacy may tell us to wait.
const (
	leastHold = time.Second // after a 429 that does not tell
	mostHold  = time.Minute // told more, the legacy is asked again after this
	// holdAccounts that are told to wait at a time show that all are meant.
	holdAccounts = 3
)

// hold keeps the gateway from asking until a moment that the legacy has told: for the
// account whose request it answered, as a quota may be that account's own, and for
// everybody once holdAccounts are told at a time.
type hold struct {
	mu       sync.Mutex
	all      time.Time
	accounts map[string]time.Time // no more than were under way when everybody was held
}

// obey holds the account if the reply told us to wait. It never ends a hold sooner.
func (h *hold) obey(account string, e *Error, now time.Time) {
	if e.Reason != reasonThrottled {
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

// toldToWait reads Retry-After: seconds, or a date (RFC 9110, 10.2.3). Zero: it tells
// nothing.
func toldToWait(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// outage tells the log when a kind's fetches begin to fail and when that is over, as
// lists that are served stale hide it from callers.
type outage struct {
	mu    sync.Mutex
	since time.Time // of the first failure
	count int       // of fetches that failed since; 0: the legacy is well
	own   seldom    // failures of one account's list
}

// failed notes a fetch that failed. One that was not made says nothing.
func (o *outage) failed(log *slog.Logger, kind, account string, e *Error, now time.Time) {
	if e.Refused() || e.Kind == KindBug {
		return
	}
	if verdictOf(e) != atFault {
		if untold, tell := o.own.add(1, now); tell {
			log.Warn("a list cannot be fetched from the legacy system", "kind", kind, "account", account, "reason", e.Reason, "error", e.Error(), "not_told_before", untold)
		}
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count++; o.count == 1 {
		o.since = now
		log.Warn("fetches from the legacy system begin to fail", "kind", kind, "account", account, "reason", e.Reason, "error", e.Error())
	}
}

// worked notes a fetch that gave a list.
func (o *outage) worked(log *slog.Logger, kind string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count > 0 {
		log.Info("fetches from the legacy system work again", "kind", kind, "failed", o.count, "seconds", now.Sub(o.since).Seconds())
		o.count = 0
	}
}

// seldom counts what the log is told of at most once a minute.
type seldom struct {
	mu     sync.Mutex
	told   time.Time
	untold int // since then
}

// add counts n more. Where they are to be told of it gives how many were not before.
func (s *seldom) add(n int, now time.Time) (untold int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told.IsZero() && now.Sub(s.told) < time.Minute {
		s.untold += n
		return 0, false
	}
	untold, s.untold, s.told = s.untold, 0, now
	return untold, true
}
