package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/internal/series"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Times of a [Ceiling].
const (
	beatEvery = 250 * time.Millisecond // between two calls of Redis
	beatLeast = 50 * time.Millisecond  // while somebody waits for a token, or another node needs those of this one
	// maxWait is how long the first request of a fetch waits for a token, and
	// maxWaitBehind how long one does for which nobody waits.
	maxWait       = 250 * time.Millisecond
	maxWaitBehind = time.Second
	// absentFor is how long the part of a node is kept that has not been heard of.
	absentFor = 10 * time.Minute
	// bootFor is how long nobody gets a part of a fleet that Redis knows nothing of:
	// the nodes that have one tell it meanwhile.
	bootFor = 400 * time.Millisecond
	// silentFor is after how long a process is dead whose name another one has.
	silentFor = 2 * time.Second
)

// Class says which requests give way to which near the ceiling.
type Class int

// The classes. Started is of a fetch that has made requests already, which would be
// lost without this one: it waits as long as its context allows. Asked is the first
// request for somebody who waits: it waits for a quarter of a second at most.
// Background is for nobody: it goes after all others, and leaves half of what there
// is to them.
const (
	Started Class = iota
	Asked
	Background
)

// ErrCeiling is returned by Take for a request that may not be made now.
var ErrCeiling = errors.New("the requests that the fleet may make are used up")

// Ceiling bounds how many requests all nodes of a fleet send to the legacy system in
// any second. It is safe for concurrent use; nil is no bound.
//
// Each node has a part of the ceiling, 1/n with n nodes, and makes tokens for it by
// its own clock. The parts never add up to more than 1. What a node does not need it
// gives to a pool in Redis, where the others find it. So a token is made once and spent
// once whatever Redis, the network or a clock does: a Redis that is away, forgets
// or is set back by a fail-over loses tokens and never adds any. Without Redis
// each node has its part.
//
// With m requests per second as a node's part, b tokens in its bucket, s to give
// away, as many on the way to Redis, and c as its part of the pool, twice in case a
// fail-over gives it back once more, it makes m - b - 2s - 2c tokens per second. So in
// no second more than the ceiling are spent.
type Ceiling struct {
	opts    CeilingOptions
	store   *store // nil: no Redis
	metrics ceilingMetrics
	turn    chan struct{} // capacity 1: held by the one that waits for a token, in the order of their coming
	behind  chan struct{} // the same for those that go after all others
	more    chan struct{} // capacity 1: there may be a token
	kick    chan struct{} // capacity 1: somebody needs a token, or the settings have changed
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	most     int // requests per second of the fleet; 0: no bound
	maxNodes int
	waiting  int
	bucket   bucket
	member   member
	away     bool // the last call of Redis failed
}

// CeilingOptions are what a [Ceiling] is built from. All zero values are usable.
type CeilingOptions struct {
	Redis      redis.Cmdable // nil: each node has the whole ceiling
	Prefix     string        // of the Redis key; empty: "iq"
	Node       string        // the name of this node, which the next process on it has again
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewCeiling makes a ceiling that bounds nothing until Set. Close ends it.
func NewCeiling(o CeilingOptions) *Ceiling {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Node = cmp.Or(strings.Join(strings.Fields(o.Node), "_"), "?")
	c := &Ceiling{
		opts: o, turn: make(chan struct{}, 1), behind: make(chan struct{}, 1), more: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		member: member{node: o.Node, process: rand.Text(), nodes: 1}, metrics: newCeilingMetrics(o.Registerer),
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	if o.Redis == nil {
		c.member.used = 1
		return c
	}
	c.store = newStore(o.Redis, o.Prefix)
	c.wg.Go(func() { c.run(ctx) })
	return c
}

// Set changes the ceiling: requests per second of the whole fleet, 0 for none. A node
// that has not reached Redis since its start takes one of maxNodes parts; 0: none.
func (c *Ceiling) Set(perSecond, maxNodes int) {
	c.mu.Lock()
	c.most, c.maxNodes = perSecond, maxNodes
	c.adopt(time.Now())
	c.mu.Unlock()
	signal(c.kick)
}

// Close gives this node's part back to the others. No request may be made after it.
func (c *Ceiling) Close() {
	c.end()
	c.wg.Wait()
	if c.store != nil && c.member.sent > 0 {
		c.member.sent++
		_, _ = c.store.share(context.Background(), c.member, sharing{leave: true}) // an error leaves it to its end
	}
}

// CeilingState is what a node knows of the ceiling.
type CeilingState struct {
	PerSecond int     // of the fleet; 0: there is no ceiling
	Part      float64 // of this node, 0 to 1
	Nodes     int     // of the fleet, as far as this node knows
	Alone     bool    // Redis is away: the node has its part and no more
}

// State is what this node knows.
func (c *Ceiling) State() CeilingState {
	if c == nil {
		return CeilingState{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return CeilingState{c.most, c.member.used, c.member.nodes, c.away}
}

// Take waits until one request may be sent, and no longer than its class does. The
// error is [ErrCeiling].
func (c *Ceiling) Take(ctx context.Context, class Class) error {
	if c == nil {
		return nil
	}
	err := c.take(ctx, class)
	c.metrics.taken[class][err != nil].Inc()
	return err
}

// take is Take without its metrics. Those that wait stand in a queue for each of two
// urgencies, so that only the first of a queue asks the bucket, and nobody is
// overtaken.
func (c *Ceiling) take(ctx context.Context, class Class) error {
	_, first, err := c.try(class, false)
	if err == nil {
		return nil
	}
	turn, most := c.turn, maxWait
	if class == Background {
		turn, most = c.behind, maxWaitBehind
	} else {
		c.wait(1)
		defer c.wait(-1)
		signal(c.kick)
	}
	if class != Started && !first {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ErrCeiling
	}
	for {
		wait, _, err := c.try(class, true)
		if err == nil || wait == 0 {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.more:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ErrCeiling
		}
	}
}

// wait counts those that wait in the foreground: the next call of Redis asks for tokens
// for them.
func (c *Ceiling) wait(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += n
}

// try spends a token if there is one and nobody waits for it already. Otherwise wait
// is when to try again, 0 if there will be none. first: this node has no part yet.
func (c *Ceiling) try(class Class, queued bool) (wait time.Duration, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	behind := class == Background
	if c.most == 0 || (queued && !behind || c.waiting == 0) && c.bucket.spend(time.Now(), behind) {
		return 0, false, nil
	}
	switch {
	case c.member.used > 0:
		return c.bucket.until(behind), false, ErrCeiling
	case c.away:
		return 0, false, ErrCeiling
	}
	return beatEvery, true, ErrCeiling
}

// adopt has the bucket follow the part. c.mu is held.
func (c *Ceiling) adopt(now time.Time) {
	c.bucket.set(now, c.member.used*float64(c.most))
	c.metrics.set(c.most, c.member.used, c.member.nodes, c.away)
}

// run calls Redis until ctx ends: it tells what part this node has and learns what it
// may have, gives tokens away and gets some.
func (c *Ceiling) run(ctx context.Context) {
	for {
		last, next := time.Now(), c.beat(ctx)
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.kick:
			timer.Stop()
			select {
			case <-time.After(time.Until(last.Add(c.pause()))):
			case <-ctx.Done():
				return
			}
		}
	}
}

// pause is how long Redis is left alone at the least.
func (c *Ceiling) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return beatEvery
	}
	return beatLeast
}

// beat makes one call, and says when the next one is due.
func (c *Ceiling) beat(ctx context.Context) time.Duration {
	c.mu.Lock()
	if c.most == 0 {
		c.mu.Unlock()
		return time.Hour // Set wakes it
	}
	now := time.Now()
	c.bucket.settle(now, c.waiting)
	c.member.sent++
	m, s := c.member, sharing{most: c.bucket.pool(float64(c.most))}
	if s.most > 0 {
		s.want = c.waiting
		if !c.away { // what is given to a Redis that is away is lost
			s.give = c.bucket.give()
		}
	}
	c.mu.Unlock()

	got, err := c.store.share(ctx, m, s)

	c.mu.Lock()
	defer c.mu.Unlock()
	now = time.Now()
	defer c.adopt(now)
	if err != nil {
		c.failed(err, ctx.Err() == nil)
		return beatEvery
	}
	if c.away {
		c.opts.Logger.Info("the ceiling of the legacy system is shared with the fleet again")
	}
	c.away = false
	before := c.member.held
	c.member.take(m, got, now)
	if c.bucket.receive(now, got.tokens, c.waiting) {
		signal(c.more)
	}
	if c.member.used == 0 || c.member.held < before || s.most > 0 && c.bucket.spare > 0 && got.pool < s.most/2 {
		return beatLeast
	}
	return beatEvery
}

// failed notes that Redis is away. c.mu is held.
func (c *Ceiling) failed(err error, told bool) {
	if !c.away && told {
		c.opts.Logger.Warn("the ceiling of the legacy system is divided among the nodes until Redis answers again", slog.Any("error", err))
	}
	c.away = true
	if c.member.acked == 0 && c.member.used == 0 && c.maxNodes > 0 {
		c.member.used = 1 / float64(c.maxNodes)
		c.member.held = c.member.used
	}
	signal(c.more) // who waits for the first part learns that there may be none
}

// signal wakes whoever listens, once for all signals that came since.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ceilingMetrics show the ceiling and what passes it.
type ceilingMetrics struct {
	most, part, nodes, away prometheus.Gauge
	taken                   map[Class]map[bool]prometheus.Counter // by whether they were refused
}

func newCeilingMetrics(reg prometheus.Registerer) ceilingMetrics {
	all := series.In(reg, "ceiling")
	m := ceilingMetrics{
		most:  all.Gauge("requests_per_second", "Requests that the fleet may send to the legacy system in any second; 0: no ceiling."),
		part:  all.Gauge("part", "Part of the ceiling that is this node's, 0 to 1."),
		nodes: all.Gauge("nodes", "Nodes that share the ceiling, as far as this node knows."),
		away:  all.Gauge("alone", "1 while Redis is away and this node has its part of the ceiling alone."),
		taken: map[Class]map[bool]prometheus.Counter{},
	}
	requests := all.Counters("requests_total",
		"Requests to the legacy system that passed the ceiling or were refused by it; class: the first of a fetch for somebody who waits (asked), a further one (started), a refresh or re-check (background).",
		"class", "result")
	for class, name := range map[Class]string{Started: "started", Asked: "asked", Background: "background"} {
		m.taken[class] = map[bool]prometheus.Counter{false: requests.WithLabelValues(name, "sent"), true: requests.WithLabelValues(name, "refused")}
	}
	return m
}

// set shows what the node knows.
func (m ceilingMetrics) set(most int, part float64, nodes int, away bool) {
	m.most.Set(float64(most))
	m.part.Set(part)
	m.nodes.Set(float64(nodes))
	m.away.Set(0)
	if away && most > 0 {
		m.away.Set(1)
	}
}
