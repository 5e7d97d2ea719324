// Package ceiling bounds the requests that the nodes of a fleet send to the legacy system per
// second. Each request reserves a slot in one schedule in Redis (GCRA) and is sent when that comes.
package ceiling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/telemetry"
)

// Any second has at most usable * (1 s + burst + 22 ms) <= 1 of the ceiling, where calls of Redis
// differ by up to 22 ms in how long their replies take.
const (
	usable = 0.95                  // slots per second, as a part of the ceiling
	burst  = 30 * time.Millisecond // how old unused slots may be

	minWait     = 250 * time.Millisecond // what an interactive request waits for its slot at most
	emptyWait   = minWait / 2            // until the first slot after Redis has lost the schedule
	accountPart = 4                      // an account gets one slot in four, and may save them up for minWait

	callTimeout  = 200 * time.Millisecond // of a call of Redis at most
	ownPart      = 0.9                    // of the ceiling, which nodes share without Redis
	retryAfter   = time.Second            // between calls of Redis while it is unavailable
	defaultNodes = 3                      // that share the ceiling without Redis
)

// reserve takes the next slot of the fleet's schedule, and one of the account's that is not later. It returns
// how long it is until then in microseconds, or -1 if there is none within ARGV[1]. KEYS hold the slots after
// it by the clock of Redis. If the fleet's is missing, or further ahead than any request may wait (ARGV[2]), as
// after that clock was set back, the first slot is in ARGV[3].
// '%.0f': Lua itself writes 14 digits, and a time in microseconds has 16.
const reserveSource = `
local t = redis.call('TIME')
local now, most, ahead = t[1] * 1000000 + t[2], tonumber(ARGV[1]), tonumber(ARGV[2])
local slots, wait = {}, 0
for i, key in ipairs(KEYS) do
  local every, burst = tonumber(ARGV[2 * i + 2]), tonumber(ARGV[2 * i + 3])
  local next = tonumber(redis.call('GET', key) or '')
  if not next or next > now + ahead + every then
    next = 0
    if i == 1 then
      next = now + ARGV[3]
      redis.call('SET', key, string.format('%.0f', next), 'PX', 60000)
    end
  end
  local slot = math.max(next, now - burst)
  if slot - now > most then return -1 end
  slots[i], wait = slot + every, math.max(wait, slot - now)
  most = wait -- the account's slot must not be later than the fleet's
end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.0f', slots[i]), 'PX', i == 1 and 3600000 or 60000)
end
return math.ceil(wait)`

var reserveScript = redis.NewScript(reserveSource)

// Priority says which requests go first: those that may wait longer.
type Priority int

// The priorities, lowest first.
const (
	Background   Priority = iota // for nobody who waits: takes only a slot that is left unused
	Interactive                  // for a caller: waits for a quarter of a second, or longer if the ceiling is below 6
	Continuation                 // of a list in progress, which is lost without it: waits as long as its context
)

var priorityNames = [...]string{Background: "background", Interactive: "interactive", Continuation: "continuation"}

// ErrReached is returned for a request that may not be sent now.
var ErrReached = errors.New("the fleet's request ceiling is reached")

// Options configure a [Limiter]. The zero value is usable.
type Options struct {
	Redis      redis.Scripter // nil: this node does not share the ceiling unless Set says so
	Timeout    time.Duration  // of a call of Redis; 0, or more than 200 ms: 200 ms
	Prefix     string         // of the Redis keys
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Limiter is the ceiling as one node keeps it. It is safe for concurrent use; nil is no bound.
type Limiter struct {
	opts      Options
	perSecond prometheus.Gauge
	fallbacks prometheus.Gauge
	requests  [len(priorityNames)]struct{ sent, refused prometheus.Counter }

	mu       sync.Mutex
	n        int           // requests per second of the fleet; 0: no bound
	every    time.Duration // between two of this node's own slots
	next     time.Time     // this node's own next slot
	fallback bool          // Redis is unavailable
	retry    time.Time     // when it is called again, if it is
	paced    time.Time     // until then the node's own slots count, too: others may not know that Redis is back
}

// New returns a ceiling that bounds nothing until Set.
func New(o Options) *Limiter {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Timeout = min(cmp.Or(o.Timeout, callTimeout), callTimeout)
	series := telemetry.Series(o.Registerer, "ceiling")
	l := &Limiter{
		opts:      o,
		perSecond: series.Gauge("requests_per_second", "Requests per second that the fleet may send to the legacy system; 0: no ceiling."),
		fallbacks: series.Gauge("fallback", "1 while Redis is unavailable and the node uses its own part of the ceiling."),
	}
	requests := series.Counters("requests_total",
		"Requests at the ceiling: the first of a fetch for a caller (interactive), a further one (continuation), a refresh or re-check (background).",
		"priority", "result")
	for p, name := range priorityNames {
		l.requests[p].sent, l.requests[p].refused = requests.WithLabelValues(name, "sent"), requests.WithLabelValues(name, "refused")
	}
	return l
}

// Set changes the ceiling: requests per second of the whole fleet, 0 for none, and how many
// nodes share it without Redis; 0 means 3, or 1 if there is no Redis at all.
func (l *Limiter) Set(perSecond, maxNodes int) {
	if maxNodes == 0 && l.opts.Redis != nil {
		maxNodes = defaultNodes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n = perSecond
	l.every = time.Duration(float64(max(maxNodes, 1)) / (ownPart * float64(max(perSecond, 1))) * float64(time.Second))
	l.perSecond.Set(float64(perSecond))
}

// State is what a node knows of the ceiling.
type State struct {
	PerSecond int  // of the fleet; 0: no ceiling
	Fallback  bool // Redis is unavailable: the node keeps to its own part
}

// State returns the current state.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{l.n, l.fallback}
}

// Wait waits until one request for the account may be sent. An empty account has no bound of its own, as
// for a sign-in. The error is [ErrReached], or [context.Canceled] if ctx was canceled.
func (l *Limiter) Wait(ctx context.Context, account string, p Priority) error {
	if l == nil {
		return nil
	}
	err := l.wait(ctx, account, p)
	switch {
	case err == nil:
		l.requests[p].sent.Inc()
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	default:
		l.requests[p].refused.Inc()
	}
	return err
}

func (l *Limiter) wait(ctx context.Context, account string, p Priority) error {
	wait, ok := l.reserve(ctx, account, p)
	for !ok && p == Continuation {
		if err := sleep(ctx, minWait/4+rand.N(minWait/4)); err != nil {
			return err
		}
		wait, ok = l.reserve(ctx, account, p)
	}
	if !ok {
		return ErrReached
	}
	return sleep(ctx, wait)
}

// reserve returns how long it is until the request's slot, or false if no slot is near enough.
func (l *Limiter) reserve(ctx context.Context, account string, p Priority) (time.Duration, bool) {
	l.mu.Lock()
	n, now := l.n, time.Now()
	if n == 0 {
		l.mu.Unlock()
		return 0, true
	}
	every := time.Duration(float64(time.Second) / (usable * float64(n)))
	interactive := max(minWait, 3*time.Second/2/time.Duration(n))
	most := [...]time.Duration{Background: -burst / 2, Interactive: interactive, Continuation: interactive*6/5 + 2*every}
	call := l.opts.Redis != nil && !(l.fallback && now.Before(l.retry))
	if call && l.fallback {
		l.retry = now.Add(retryAfter) // one request finds out whether Redis is back
	}
	var own time.Duration
	if paced := now.Before(l.paced); !call || paced {
		ownMost, ok := most[p], false
		if paced { // what is reserved when that ends comes on top of Redis' schedule
			ownMost = min(ownMost, minWait/4)
		}
		if own, ok = l.reserveOwn(now, ownMost); !ok || !call {
			l.mu.Unlock()
			return own, ok
		}
	}
	l.mu.Unlock()

	keys := []string{l.opts.Prefix + ":{ceiling}", l.opts.Prefix + ":{ceiling}:account:" + account}
	if account == "" {
		keys = keys[:1]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.Timeout)
	defer cancel()
	wait, err := reserveScript.Run(ctx, l.opts.Redis, keys,
		micros(most[p]), micros(most[Continuation]), micros(max(emptyWait, interactive/2)),
		micros(every), micros(burst), micros(accountPart*every), micros(max(minWait, accountPart*every))).Int64()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setFallback(err)
	if err != nil {
		return l.reserveOwn(time.Now(), most[p])
	}
	return max(time.Duration(wait)*time.Microsecond, own), wait >= 0
}

// reserveOwn takes this node's own next slot. l.mu is held.
func (l *Limiter) reserveOwn(now time.Time, most time.Duration) (time.Duration, bool) {
	wait := l.next.Sub(now)
	if wait > most {
		return 0, false
	}
	wait = max(wait, 0)
	l.next = now.Add(wait + l.every)
	return wait, true
}

// setFallback records whether a call of Redis has failed. l.mu is held.
func (l *Limiter) setFallback(err error) {
	now := time.Now()
	switch {
	case err != nil && !l.fallback:
		l.fallback, l.retry = true, now.Add(retryAfter)
		l.next = now.Add(minWait + rand.N(l.every)) // slots of Redis' schedule are still to come
		l.fallbacks.Set(1)
		l.opts.Logger.Warn("the ceiling of the legacy system is divided among the nodes until Redis answers again", slog.Any("error", err))
	case err == nil && l.fallback:
		l.fallback, l.paced = false, now.Add(retryAfter+callTimeout)
		l.fallbacks.Set(0)
		l.opts.Logger.Info("the ceiling of the legacy system is shared with the fleet again")
	}
}

// sleep returns ErrReached if ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ErrReached
	}
}

// micros has three digits, so that a slot of many per second is not rounded away.
func micros(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Microsecond)) }
