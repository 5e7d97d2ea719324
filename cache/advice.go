package cache

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	defaultAdviceCap = 30 * time.Second
	// probeLife bounds how long one node may keep the fleet's probe to itself.
	// Advice is forgotten that long after its end if nobody reports.
	probeLife = 2 * time.Second
)

// AdviceOptions are what an [Advice] is built from. All zero values are usable.
type AdviceOptions struct {
	Redis      redis.UniversalClient // nil: each node is on its own
	Prefix     string                // of every Redis key; empty: "iq"
	Cap        time.Duration         // no advice is honoured longer than this; 0: 30 s
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Advice lets the nodes of a fleet heed each other's breakers: a node whose
// breaker opened says until when, the others stop calling until then, and after
// that one of them probes while the rest wait for its report. It only advises:
// each node keeps its own breaker, and without Redis that is all there is. It
// is safe for concurrent use.
type Advice struct {
	store *store // nil: no Redis
	opts  AdviceOptions
	given *prometheus.CounterVec

	mu    sync.Mutex
	kinds [kindCount]advised

	end context.CancelFunc
	wg  sync.WaitGroup
}

// advised is what this node knows about one kind.
type advised struct {
	until   time.Time // zero: no advice
	probing bool      // this node holds the lease or asks for it
	retry   time.Time // another node probes; no use in asking before
}

// NewAdvice starts listening. Close ends it.
func NewAdvice(o AdviceOptions) (*Advice, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Cap <= 0 {
		o.Cap = defaultAdviceCap
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Advice{opts: o, given: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "advice", Name: "events_total",
		Help: "Fleet breaker advice: published, heard, refused (calls not made), probes.",
	}, []string{"kind", "event"})}
	if err := o.Registerer.Register(a.given); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.end = cancel
	if o.Redis != nil {
		a.store = newStore(o.Redis, o.Prefix)
		a.wg.Go(func() { a.listen(ctx) })
	}
	return a, nil
}

// Close ends the listener. The Redis client stays open.
func (a *Advice) Close() {
	a.end()
	a.wg.Wait()
}

// Opened tells the fleet that this node's breaker for the kind is open until
// the given moment. It returns Redis's error; this node heeds it in any case.
func (a *Advice) Opened(ctx context.Context, kind string, until time.Time) error {
	i, ok := indexOf(kind)
	if !ok {
		return ErrUnknownKind
	}
	until = a.heed(i, until)
	if a.store == nil {
		return nil
	}
	a.given.WithLabelValues(kind, "published").Inc()
	return a.store.advise(ctx, kind, until, until.Sub(a.opts.Now())+probeLife)
}

// Closed tells the fleet that the legacy answers this kind again.
func (a *Advice) Closed(ctx context.Context, kind string) error {
	i, ok := indexOf(kind)
	if !ok {
		return ErrUnknownKind
	}
	a.heed(i, time.Time{})
	if a.store == nil {
		return nil
	}
	return a.store.advise(ctx, kind, time.Time{}, probeLife)
}

// Ticket is the permission to call the legacy.
type Ticket struct {
	Probe bool // this call decides for the fleet: report it with Done
	a     *Advice
	kind  kindIndex
}

// Enter asks whether the legacy may be called for the kind now. When not, wait
// is how long the advice holds at the least. It costs no call of Redis unless
// advice has just ended, and then one per node.
func (a *Advice) Enter(ctx context.Context, kind string) (t Ticket, wait time.Duration, ok bool) {
	i, known := indexOf(kind)
	if !known {
		return Ticket{}, 0, true // nobody can have advised on it
	}
	now := a.opts.Now()
	a.mu.Lock()
	s := &a.kinds[i]
	switch {
	case s.until.IsZero():
		a.mu.Unlock()
		return Ticket{a: a, kind: i}, 0, true
	case now.Before(s.until):
		wait = s.until.Sub(now)
	case !now.Before(s.until.Add(probeLife)): // nobody has reported: each on its own again
		*s = advised{}
		a.mu.Unlock()
		return Ticket{a: a, kind: i}, 0, true
	case s.probing || now.Before(s.retry):
		wait = s.until.Add(probeLife).Sub(now)
	default:
		s.probing = true
		a.mu.Unlock()
		return a.contend(ctx, i, now)
	}
	a.mu.Unlock()
	a.given.WithLabelValues(kind, "refused").Inc()
	return Ticket{}, wait, false
}

// contend asks for the fleet's one probe. Without Redis this node probes alone.
func (a *Advice) contend(ctx context.Context, i kindIndex, now time.Time) (Ticket, time.Duration, bool) {
	won := true
	if a.store != nil {
		var err error
		if won, err = a.store.acquireProbe(ctx, kindNames[i]); err != nil {
			won = true
		}
	}
	if won {
		a.given.WithLabelValues(kindNames[i], "probe").Inc()
		return Ticket{Probe: true, a: a, kind: i}, 0, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds[i].probing, a.kinds[i].retry = false, now.Add(probeLife/4)
	a.given.WithLabelValues(kindNames[i], "refused").Inc()
	return Ticket{}, probeLife / 4, false
}

// Done reports how a probe went; for other calls it does nothing. A probe that
// failed extends the advice by again.
func (t Ticket) Done(ctx context.Context, healthy bool, again time.Duration) error {
	if !t.Probe {
		return nil
	}
	if healthy {
		return t.a.Closed(ctx, kindNames[t.kind])
	}
	return t.a.Opened(ctx, kindNames[t.kind], t.a.opts.Now().Add(again))
}

// heed takes advice, capped, and returns what was taken. Zero ends it.
func (a *Advice) heed(i kindIndex, until time.Time) time.Time {
	if most := a.opts.Now().Add(a.opts.Cap); until.After(most) {
		until = most
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds[i] = advised{until: until}
	return until
}

// listen hears advice, and reads what was given before each subscription.
func (a *Advice) listen(ctx context.Context) {
	sub := a.store.rdb.Subscribe(ctx, a.store.adviceChannel())
	defer func() { _ = sub.Close() }()
	messages := sub.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m := m.(type) {
			case *redis.Subscription:
				a.catchUp(ctx)
			case *redis.Message:
				a.hear(m.Payload)
			}
		}
	}
}

func (a *Advice) catchUp(ctx context.Context) {
	for i, kind := range kindNames {
		if until, err := a.store.advice(ctx, kind); err == nil && until.After(a.opts.Now()) {
			a.heed(kindIndex(i), until)
		}
	}
}

// hear takes "<kind> <Unix ms>"; 0 ends the advice.
func (a *Advice) hear(message string) {
	kind, ms, _ := strings.Cut(message, " ")
	i, ok := indexOf(kind)
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || n < 0 {
		a.opts.Logger.Warn("breaker advice was not understood")
		return
	}
	a.given.WithLabelValues(kind, "heard").Inc()
	a.heed(i, millis(n))
}
