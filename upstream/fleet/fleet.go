// Package fleet shares the state of circuit breakers between the gateways in front
// of one legacy system.
package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/redissub"
	"inquiry-gateway/internal/series"
)

const (
	// longestAdvice bounds how long advice is honoured.
	longestAdvice = 30 * time.Second
	// leaseSlack is how much longer than its call the lease of a probe lives. It
	// counts only for a node that dies during its probe.
	leaseSlack = time.Second
	// askAgain is when a node asks again whether the probe is free, and what a
	// caller is asked to wait meanwhile at the least.
	askAgain = 500 * time.Millisecond
)

// Verdict is what a call says about an endpoint of the legacy system.
type Verdict int

// The verdicts. Unknown is for a call that was not made, or that nobody waited
// for: it says nothing.
const (
	Unknown Verdict = iota
	Answers
	Fails
)

// Options are what an [Advice] is built from. All zero values are usable.
type Options struct {
	Redis      redis.Cmdable // nil: each node is on its own
	Prefix     string        // of every Redis key; empty: "iq"
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Advice lets the nodes of a fleet follow each other's breakers. A node whose
// breaker opened says until when. The others make no calls until then. After
// that one call of one node is the probe, and all others are refused until the
// probe has a verdict. It only advises: each node keeps its own breaker, and
// without Redis each node probes for itself. It is safe for concurrent use; nil
// lets every call pass.
type Advice struct {
	store *store // nil: no Redis
	opts  Options
	given *prometheus.CounterVec

	mu    sync.Mutex
	kinds map[string]*advised // filled by New

	end context.CancelFunc
	wg  sync.WaitGroup
}

// advised is what this node knows about one kind.
type advised struct {
	until time.Time // zero: no advice
	next  time.Time // after until: no probe of this node before
	token string    // of this node's probe
}

// New starts listening. Close ends it.
func New(o Options) *Advice {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Advice{opts: o, kinds: map[string]*advised{"buyer": {}, "seller": {}}, given: series.In(o.Registerer, "advice").Counters("events_total",
		"Fleet breaker advice: published, heard, refused (calls not made), probes.", "kind", "event")}
	ctx, cancel := context.WithCancel(context.Background())
	a.end = cancel
	if o.Redis != nil {
		a.store = newStore(o.Redis, o.Prefix)
		a.wg.Go(func() { a.listen(ctx) })
	}
	return a
}

// Close ends the listener. The Redis client stays open.
func (a *Advice) Close() {
	a.end()
	a.wg.Wait()
}

// Opened tells the fleet that this node's breaker for the kind is open until the
// given moment. An error of Redis is in its own metrics only; this node follows
// its advice in any case.
func (a *Advice) Opened(ctx context.Context, kind string, until time.Time) {
	if a != nil && a.kinds[kind] != nil {
		a.publish(ctx, kind, until)
	}
}

// publish follows advice and tells the fleet of it; zero ends it.
func (a *Advice) publish(ctx context.Context, kind string, until time.Time) {
	until = a.follow(kind, until)
	if a.store == nil {
		return
	}
	// Kept for nodes that start later: they, too, wait for the verdict of a probe.
	ttl := longestAdvice
	if !until.IsZero() {
		a.given.WithLabelValues(kind, "published").Inc()
		ttl += until.Sub(a.opts.Now())
	}
	// The call that is reported may have ended because its context did.
	_ = a.store.advise(context.WithoutCancel(ctx), kind, until, ttl)
}

// Ticket is the permission to call the legacy. Done must be called.
type Ticket struct {
	a     *Advice // nil: no probe
	kind  string
	token string
}

// Enter asks whether the legacy may be called for the kind now. When not, wait
// is how long that holds at the least. longest bounds the call; the lease of a
// probe lives a second longer. Enter calls Redis only for a probe: once per node
// when advice has ended, and then every 500 ms until there is a verdict.
func (a *Advice) Enter(ctx context.Context, kind string, longest time.Duration) (t Ticket, wait time.Duration, ok bool) {
	if a == nil || a.kinds[kind] == nil {
		return Ticket{}, 0, true
	}
	now := a.opts.Now()
	a.mu.Lock()
	s := a.kinds[kind]
	switch {
	case s.until.IsZero():
		a.mu.Unlock()
		return Ticket{}, 0, true
	case now.Before(s.until):
		wait = s.until.Sub(now)
	case now.Before(s.next):
		wait = askAgain
	default:
		t, life := Ticket{a, kind, rand.Text()}, longest+leaseSlack
		s.next, s.token = now.Add(life), t.token
		a.mu.Unlock()
		if a.won(ctx, t, life) {
			a.given.WithLabelValues(kind, "probe").Inc()
			return t, 0, true
		}
		a.given.WithLabelValues(kind, "refused").Inc()
		return Ticket{}, askAgain, false
	}
	a.mu.Unlock()
	a.given.WithLabelValues(kind, "refused").Inc()
	return Ticket{}, wait, false
}

// won asks for the fleet's one probe. Without Redis this node probes alone.
func (a *Advice) won(ctx context.Context, t Ticket, life time.Duration) bool {
	if a.store == nil {
		return true
	}
	won, err := a.store.acquire(ctx, t.kind, t.token, life)
	if won || err != nil {
		return true
	}
	a.postpone(t, a.opts.Now().Add(askAgain))
	return false
}

// postpone says when this node may probe next, unless it has begun another probe.
func (a *Advice) postpone(t Ticket, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.kinds[t.kind]; s.token == t.token {
		s.next = next
	}
}

// Done reports how a probe went; for other calls it does nothing. A probe that
// failed extends the advice by again. One without a verdict gives its lease
// back, so that the next call of any node can be the probe.
func (t Ticket) Done(ctx context.Context, v Verdict, again time.Duration) {
	switch {
	case t.a == nil:
	case v == Answers:
		t.a.publish(ctx, t.kind, time.Time{})
	case v == Fails:
		t.a.publish(ctx, t.kind, t.a.opts.Now().Add(again))
	default:
		t.a.postpone(t, time.Time{})
		if t.a.store != nil {
			_ = t.a.store.release(context.WithoutCancel(ctx), t.kind, t.token) // an error leaves it to its end
		}
	}
}

// follow sets the moment until which no calls are made, which is capped, and returns
// it. Zero ends the advice.
func (a *Advice) follow(kind string, until time.Time) time.Time {
	if most := a.opts.Now().Add(longestAdvice); until.After(most) {
		until = most
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.kinds[kind] = advised{until: until}
	return until
}

// listen receives advice, and reads what was published before each subscription.
func (a *Advice) listen(ctx context.Context) {
	redissub.Each(ctx, a.store.rdb, func(m any) {
		switch m := m.(type) {
		case *redis.Subscription:
			a.catchUp(ctx)
		case *redis.Message:
			a.receive(m.Payload)
		}
	}, a.store.channel())
}

// catchUp follows advice that was published before. It counts after its end, too:
// no probe has found since that the legacy answers.
func (a *Advice) catchUp(ctx context.Context) {
	for kind := range a.kinds {
		if until, err := a.store.advice(ctx, kind); err == nil && !until.IsZero() {
			a.follow(kind, until)
		}
	}
}

// receive reads one message, "<kind> <Unix ms>"; 0 ends the advice.
func (a *Advice) receive(message string) {
	kind, ms, _ := strings.Cut(message, " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	if a.kinds[kind] == nil || err != nil || n < 0 {
		a.opts.Logger.Warn("breaker advice was not understood")
		return
	}
	a.given.WithLabelValues(kind, "heard").Inc()
	a.follow(kind, millis(n))
}
