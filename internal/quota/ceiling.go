package quota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/telemetry"
)

const (
	// leastLife is how long tokens may be used at least, and callTimeout how long a call of Redis
	// may take unless the options say it.
	leastLife   = 50 * time.Millisecond
	callTimeout = 100 * time.Millisecond
	// ownPart is the part of the ceiling that nodes share while Redis is away.
	ownPart = 0.9
	// pacedFor is how long, besides one call, a node keeps to its own part after Redis is back:
	// others may not have noticed yet, and the second before counts.
	pacedFor = 2 * time.Second
	// overFor is how long at most an account is over its share after it has stopped.
	overFor = 10 * time.Second
	// defaultNodes are assumed to share the ceiling while Redis is away.
	defaultNodes = 3
)

// Class says which requests go before which near the ceiling, and how long one waits.
type Class int

// The classes. Started is a further request of a list, which would be lost without it: it
// waits as long as its context. Asked is the first request for somebody who waits: a quarter
// of a second, or longer where n is small or Redis may be slow. Background is for nobody: it waits
// longer, and gets what the others leave.
const (
	Started Class = iota
	Asked
	Background
)

// ErrCeiling is returned by Wait for a request that may not be made now.
var ErrCeiling = errors.New("the requests that the fleet may make are used up")

// Ceiling bounds how many requests all nodes of a fleet send to the legacy system in any
// second. It is safe for concurrent use; nil is no bound.
//
// One bucket in Redis has the tokens, which come back at [Usable] n per second. A node asks for
// them when requests wait, for all of them at once. Background requests, and accounts that
// have more than a twentieth of the ceiling, get what the others leave. While Redis does not
// answer, twice in a row, each node sends 0.9 n / max_nodes. What the bound presumes: all nodes
// reach Redis or none does, by the same timeout. One that alone is cut off adds its 0.9 n / max_nodes.
//
// No request is sent before it is charged, however little is sent: n holds in any second, so what each
// node might send unasked would have to be taken off n for all nodes that there may be, at all times.
type Ceiling struct {
	opts    CeilingOptions
	life    time.Duration // of tokens, from the begin of the call that brings them
	metrics ceilingMetrics
	wg      sync.WaitGroup

	mu     sync.Mutex
	n      int           // requests per second of the fleet; 0: no bound
	every  time.Duration // between two requests of this node while it is alone
	lines  [2]line       // callers, and those after all others
	sent   []time.Time   // of callers' requests within the last life of a token
	spent  map[string]int
	over   map[string]time.Time // until when an account is over its share
	failed time.Time            // when the first of the last calls failed, if none has worked since
	alone  bool                 // Redis is away
	probe  time.Time            // when it is tried again
	paced  time.Time            // until then a token is not enough
	next   time.Time            // when this node may send alone
	timer  *time.Timer          // calls wake
	closed bool
}

// The lines of a Ceiling.
const (
	callers  = 0
	yielding = 1 // gets what callers leave
)

// line is the requests of one urgency that wait.
type line struct {
	accounts []string             // in turn
	waiting  map[string][]*waiter // by account
	n        int
	tokens   int
	until    time.Time // the end of the tokens
	asking   bool      // a call of Redis is under way
	after    time.Time // no call before
}

// waiter is a request that waits. It has its token when ready is closed.
type waiter struct {
	account string
	ready   chan struct{}
}

// CeilingOptions are what a [Ceiling] is built from. All zero values are usable.
type CeilingOptions struct {
	Redis      redis.Scripter // nil: this node has the whole ceiling
	Timeout    time.Duration  // of one call of Redis, the same on all nodes; 0: 100 ms
	Prefix     string         // of the Redis keys
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// NewCeiling makes a ceiling that bounds nothing until Set. Close ends it.
func NewCeiling(o CeilingOptions) *Ceiling {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Timeout = cmp.Or(o.Timeout, callTimeout)
	c := &Ceiling{opts: o, life: lifeOf(o.Timeout), metrics: newCeilingMetrics(o.Registerer), spent: map[string]int{}, over: map[string]time.Time{}, alone: o.Redis == nil}
	for i := range c.lines {
		c.lines[i].waiting = map[string][]*waiter{}
	}
	c.timer = time.AfterFunc(time.Hour, c.wake)
	c.timer.Stop()
	return c
}

// lifeOf is how long tokens may be used, from the begin of the call that brings them: those of the
// slowest call that counts must be of use. Kept longer they would come on top of those of the
// next second.
func lifeOf(timeout time.Duration) time.Duration { return max(timeout, leastLife) }

// Usable is the part of a ceiling that tokens come back at where a call of Redis may take so
// long. The rest is for what is in the bucket and on its way: burst, and what is given in a second
// and the life of a token before it, stay below n + 1.
func Usable(timeout time.Duration) float64 { return 0.945 / (1 + lifeOf(timeout).Seconds()) }

// Set changes the ceiling: requests per second of the whole fleet, 0 for none, and how many
// nodes share it while Redis is away, 0 for 3, or for 1 where there is no Redis at all.
func (c *Ceiling) Set(perSecond, maxNodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = perSecond
	c.metrics.most.Set(float64(perSecond))
	if perSecond > 0 {
		nodes := cmp.Or(maxNodes, defaultNodes)
		if c.opts.Redis == nil {
			nodes = max(maxNodes, 1)
		}
		c.every = time.Duration(float64(nodes) / (ownPart * float64(perSecond)) * float64(time.Second))
	}
	for i := range c.lines {
		c.lines[i].tokens = 0
	}
	c.serve()
}

// Close ends the calls of Redis. No request may be made after it.
func (c *Ceiling) Close() {
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.mu.Unlock()
	c.wg.Wait()
}

// CeilingState is what a node knows of the ceiling.
type CeilingState struct {
	PerSecond int  // of the fleet; 0: there is no ceiling
	Alone     bool // Redis is away: the node keeps to its own part
}

// State is what this node knows.
func (c *Ceiling) State() CeilingState {
	if c == nil {
		return CeilingState{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return CeilingState{c.n, c.alone && c.opts.Redis != nil}
}

// Wait waits until one request for the account may be sent, and no longer than its class
// does. An empty account is everybody's, as of a sign-in. The error is [ErrCeiling], or
// [context.Canceled] where ctx was canceled, which is no refusal.
func (c *Ceiling) Wait(ctx context.Context, account string, class Class) error {
	if c == nil {
		return nil
	}
	err := c.wait(ctx, account, class)
	if !errors.Is(err, context.Canceled) {
		c.metrics.requests[class][err != nil].Inc()
	}
	return err
}

func (c *Ceiling) wait(ctx context.Context, account string, class Class) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
	}
	l := &c.lines[callers]
	if class == Background || time.Now().Before(c.over[account]) {
		l = &c.lines[yielding]
	}
	var most time.Duration // 0: as long as ctx
	switch class {
	case Asked:
		most = max(250*time.Millisecond, 5*c.life/2, 3*time.Second/2/time.Duration(c.n))
	case Background:
		most = max(time.Second, 10*c.life, 2*time.Second/time.Duration(c.n))
	case Started:
	}
	w := &waiter{account, make(chan struct{})}
	l.push(w)
	c.serve()
	c.mu.Unlock()

	var end <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	case <-end:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-w.ready: // in the meantime
		return nil
	default:
		l.remove(w)
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Canceled
		}
		return ErrCeiling
	}
}

// wake is called by the timer.
func (c *Ceiling) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serve()
}

// serve gives tokens to those who wait, asks Redis for more, and sets the timer for what is
// to be done later. c.mu is held.
func (c *Ceiling) serve() {
	if c.closed {
		return
	}
	now := time.Now()
	later := now.Add(time.Hour)
	for i := range c.lines {
		l := &c.lines[i]
		if !now.Before(l.until) {
			l.tokens = 0
		}
		for l.n > 0 && c.mayGo(l, now) {
			c.send(i, now)
		}
		switch {
		case l.n == 0:
		case c.alone, l.tokens > 0: // this node's own pace
			later = earliest(later, c.next)
		case l.asking:
		case now.Before(l.after):
			later = earliest(later, l.after)
		default:
			c.ask(i, now)
		}
	}
	if c.alone && c.opts.Redis != nil && c.n > 0 && !c.lines[callers].asking {
		if now.Before(c.probe) {
			later = earliest(later, c.probe)
		} else {
			c.ask(callers, now)
		}
	}
	c.timer.Reset(later.Sub(now))
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// mayGo takes a token for the first of a line, if there is one. c.mu is held.
func (c *Ceiling) mayGo(l *line, now time.Time) bool {
	switch {
	case c.n == 0:
		return true
	case c.alone:
		return c.mayAlone(now)
	case l.tokens == 0, now.Before(c.paced) && !c.mayAlone(now):
		return false
	}
	l.tokens--
	return true
}

// mayAlone takes a token of this node's own, which come one by one. c.mu is held.
func (c *Ceiling) mayAlone(now time.Time) bool {
	if now.Before(c.next) {
		return false
	}
	c.next = now.Add(c.every)
	return true
}

// send lets the request go whose account's turn it is. c.mu is held.
func (c *Ceiling) send(i int, now time.Time) {
	w := c.lines[i].pop()
	if w.account != "" && !c.alone {
		c.spent[w.account]++
	}
	if i == callers && c.opts.Redis != nil { // for ask, which forgets them
		c.sent = append(c.sent, now)
	}
	close(w.ready)
}

// ask begins a call of Redis for a line. Callers need what they wait for and may get as much
// as was sent in the last life, for those who come next; nobody needs anything for the
// others. c.mu is held.
func (c *Ceiling) ask(i int, now time.Time) {
	l := &c.lines[i]
	c.sent = slices.DeleteFunc(c.sent, func(at time.Time) bool { return now.Sub(at) >= c.life })
	want, need := l.n, 0
	if i == callers {
		want, need = max(l.n, len(c.sent)), l.n
	}
	n := float64(c.n)
	want = min(want, max(1, int(0.05*n)))
	if c.alone { // a probe
		want = 0
	}
	every := float64(time.Second) / (Usable(c.opts.Timeout) * n)
	low := max(1, 0.025*n)
	b := Bucket{
		Key: c.key("level"), Every: time.Duration(every), Burst: time.Duration((low + 0.025*n) * every), Low: time.Duration(low * every),
	}
	share := float64(time.Second) / (n / 20)
	s := Spenders{Every: time.Duration(share), Allow: time.Duration(max(2, n/20) * share), Memory: overFor}
	accounts := make([]string, 0, len(c.spent))
	for account, spent := range c.spent {
		accounts, s.Keys, s.Spent = append(accounts, account), append(s.Keys, c.key("account:"+account)), append(s.Spent, spent)
	}
	clear(c.spent)
	l.asking = true
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.Timeout)
		defer cancel()
		got, err := Take(ctx, c.opts.Redis, b, min(need, want), want, s)
		c.mu.Lock()
		defer c.mu.Unlock()
		l.asking = false
		c.reached(now, err)
		if err == nil {
			end := time.Now()
			for j, account := range accounts {
				c.setOver(account, end, got.Over[j])
			}
			if end.Before(now.Add(c.life)) {
				l.tokens, l.until = got.Tokens, now.Add(c.life)
			}
			if got.Tokens == 0 || got.Tokens < l.n {
				most := b.Low
				if need > 0 {
					most = b.Burst
				}
				pause := 10*time.Millisecond + rand.N(20*time.Millisecond)
				l.after = end.Add(max(got.Level+b.Every-most, pause))
			}
		}
		c.serve()
	})
}

// key is a key of Redis; all share a slot of a Cluster.
func (c *Ceiling) key(name string) string { return c.opts.Prefix + ":{ceiling}:" + name }

// setOver notes how long an account is over its share. c.mu is held.
func (c *Ceiling) setOver(account string, now time.Time, over time.Duration) {
	if over > 0 {
		c.over[account] = now.Add(over)
	} else {
		delete(c.over, account)
	}
	if len(c.over) > 1000 { // those that make no requests any more
		for account, until := range c.over {
			if !now.Before(until) {
				delete(c.over, account)
			}
		}
	}
}

// reached notes whether Redis answered to a call of a moment. One stall may fail several calls
// at once. c.mu is held.
func (c *Ceiling) reached(begun time.Time, err error) {
	now := time.Now()
	if err == nil {
		c.failed = time.Time{}
	}
	switch {
	case err != nil && !c.alone && c.failed.IsZero():
		c.failed = now
	case err != nil && !c.alone && begun.Before(c.failed):
	case err != nil:
		c.probe = now.Add(500*time.Millisecond + rand.N(500*time.Millisecond))
		if !c.alone {
			// Empty, at a moment that is not every node's.
			c.next = now.Add(c.every + rand.N(c.every))
			c.opts.Logger.Warn("the ceiling of the legacy system is divided among the nodes until Redis answers again", slog.Any("error", err))
		}
		c.alone = true
		c.metrics.alone.Set(1)
	case c.alone:
		c.alone, c.paced = false, now.Add(pacedFor+c.life)
		c.opts.Logger.Info("the ceiling of the legacy system is shared with the fleet again")
		c.metrics.alone.Set(0)
	}
}

func (l *line) push(w *waiter) {
	if len(l.waiting[w.account]) == 0 {
		l.accounts = append(l.accounts, w.account)
	}
	l.waiting[w.account] = append(l.waiting[w.account], w)
	l.n++
}

// pop takes the first request of the account whose turn it is. There is one.
func (l *line) pop() *waiter {
	account := l.accounts[0]
	w := l.waiting[account][0]
	l.remove(w)
	if len(l.waiting[account]) > 0 {
		l.accounts = append(l.accounts[1:], account)
	}
	return w
}

// remove takes a request out that is in the line.
func (l *line) remove(w *waiter) {
	rest := slices.DeleteFunc(l.waiting[w.account], func(o *waiter) bool { return o == w })
	l.waiting[w.account] = rest
	l.n--
	if len(rest) == 0 {
		delete(l.waiting, w.account)
		l.accounts = slices.DeleteFunc(l.accounts, func(o string) bool { return o == w.account })
	}
}

// ceilingMetrics show the ceiling and what passes it.
type ceilingMetrics struct {
	most, alone prometheus.Gauge
	requests    map[Class]map[bool]prometheus.Counter // by whether they were refused
}

func newCeilingMetrics(reg prometheus.Registerer) ceilingMetrics {
	all := telemetry.Series(reg, "ceiling")
	m := ceilingMetrics{
		most:     all.Gauge("requests_per_second", "Requests that the fleet may send to the legacy system in any second; 0: no ceiling."),
		alone:    all.Gauge("alone", "1 while Redis is away and this node keeps to its own part of the ceiling."),
		requests: map[Class]map[bool]prometheus.Counter{},
	}
	requests := all.Counters("requests_total",
		"Requests to the legacy system that passed the ceiling or were refused by it; class: the first of a fetch for somebody who waits (asked), a further one (started), a refresh or re-check (background).",
		"class", "result")
	for class, name := range map[Class]string{Started: "started", Asked: "asked", Background: "background"} {
		m.requests[class] = map[bool]prometheus.Counter{false: requests.WithLabelValues(name, "sent"), true: requests.WithLabelValues(name, "refused")}
	}
	return m
}
