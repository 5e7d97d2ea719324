// Package httpwire decides how connections come in and how an answer's bytes leave
// on them.
package httpwire

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/internal/series"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// evictShare of the limit is closed at once where there are too many, so that
	// the connections need not be looked through again for each new one.
	evictShare = 64
	// evictAfter is how long a connection on which a caller has authenticated must
	// have been idle before it may be closed to make room.
	evictAfter = time.Second
	// searchAgain is the shortest time between a search that found no idle
	// connection and the next one.
	searchAgain = 10 * time.Millisecond
	// settleTime bounds the wait for the first request of connections that were
	// accepted last.
	settleTime = 250 * time.Millisecond
	settlePoll = 2 * time.Millisecond
)

// Metrics count the connections of listeners by their name.
type Metrics struct {
	open, limit      *prometheus.GaugeVec   // listener
	streams          *prometheus.GaugeVec   // listener
	refused, evicted *prometheus.CounterVec // listener
}

// NewMetrics registers the series of all listeners of a process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	http := series.In(reg, "http")
	return &Metrics{
		open:    http.Gauges("connections", "Connections that are open now, by listener.", "listener"),
		limit:   http.Gauges("connections_limit", "How many connections may be open, by listener.", "listener"),
		streams: http.Gauges("connections_streams_limit", "How many requests may be under way on one connection of HTTP/2, by listener.", "listener"),
		refused: http.Counters("connections_refused_total",
			"Connections that were closed at once, because as many as may be were open and none of them was idle.", "listener"),
		evicted: http.Counters("connections_evicted_total", "Idle connections that were closed to make room for new ones.", "listener"),
	}
}

// SetStreams tells how many requests may be under way on one connection of HTTP/2.
func (m *Metrics) SetStreams(listener string, n int) {
	m.streams.WithLabelValues(listener).Set(float64(n))
}

// Options bound what a Listener holds open. Every zero value is usable.
type Options struct {
	// MaxConnections may be open at a time; zero means any number. See SetMax.
	MaxConnections int
	// UnknownIdle is how long a connection may be idle on which nobody has
	// authenticated yet; zero means as long as any other.
	UnknownIdle time.Duration
	// Lane answers hits; nil: net/http answers all. IdleTimeout is that of the server,
	// and is needed with Lane.
	Lane        Lane
	IdleTimeout time.Duration
	// Name is the listener's in Metrics.
	Name    string
	Metrics *Metrics // nil: not counted
}

// Listener accepts connections that can send an answer in one write, and bounds
// how many are open. It is safe for concurrent use.
type Listener struct {
	net.Listener
	lane        Lane
	idle        time.Duration
	unknownIdle time.Duration
	// Pools of *[]byte, for heads and records only: no body gets into them. Each is of
	// one use, so that what one use leaves there is never sent by another.
	buffers, heads, laneHeads sync.Pool

	max     atomic.Int64
	closing func() error

	open, limit      prometheus.Gauge
	refused, evicted prometheus.Counter

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	allBusy time.Time // when a search last found no idle connection
}

// NewListener wraps a listener. It needs ConnContext and ConnState in the server's
// settings. TLS, if any, is that of Secure.
func NewListener(l net.Listener, opts Options) *Listener {
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(nil)
	}
	out := &Listener{
		Listener:    l,
		lane:        opts.Lane,
		idle:        opts.IdleTimeout,
		unknownIdle: opts.UnknownIdle,
		open:        opts.Metrics.open.WithLabelValues(opts.Name),
		limit:       opts.Metrics.limit.WithLabelValues(opts.Name),
		refused:     opts.Metrics.refused.WithLabelValues(opts.Name),
		evicted:     opts.Metrics.evicted.WithLabelValues(opts.Name),
		conns:       map[*Conn]struct{}{},
	}
	for _, pool := range []*sync.Pool{&out.buffers, &out.heads, &out.laneHeads} {
		pool.New = func() any { return new(make([]byte, 0, heldBytes)) }
	}
	out.closing = sync.OnceValue(l.Close)
	out.SetMax(opts.MaxConnections)
	return out
}

// Close takes no more connections. Another call, such as that of net/http's
// Shutdown, changes nothing and is no error.
func (l *Listener) Close() error { return l.closing() }

// SetMax changes how many connections may be open; zero means any number. What
// is open already is closed only when another one comes and it is idle.
func (l *Listener) SetMax(n int) {
	l.max.Store(int64(n))
	l.limit.Set(float64(n))
}

// Accept waits for the next connection. Where there are too many, idle ones give
// way; where none is idle, the new one is closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := l.admit(c, time.Now()); conn != nil {
			return conn, nil
		}
		l.refused.Inc()
		_ = c.Close() // nothing has been written to it
	}
}

// admit is nil where there is no room for the connection.
func (l *Listener) admit(c net.Conn, now time.Time) *Conn {
	conn := &Conn{listener: l, peer: parsePeer(c.RemoteAddr().String()), accepted: now.UnixNano()}
	conn.wire = wire{Conn: c, conn: conn}
	conn.Conn = &conn.wire
	conn.idleSince.Store(conn.accepted)
	surplus, full := l.room(now)
	for _, idle := range surplus {
		if idle.drop() == nil {
			l.evicted.Inc()
		}
	}
	if full && len(surplus) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	l.open.Inc()
	if l.unknownIdle > 0 {
		conn.timer = time.AfterFunc(l.unknownIdle, conn.endUnknown)
	}
	return conn
}

// room says whether the limit is reached and, if so, which connections to close:
// those on which nobody has authenticated before the others, and of each those
// that have been idle for longest. A caller who sends its request at once stays,
// however many connections are opened by those who do not.
func (l *Listener) room(now time.Time) (surplus []*Conn, full bool) {
	limit := int(l.max.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit <= 0 || len(l.conns) < limit {
		return nil, false
	}
	if now.Sub(l.allBusy) < searchAgain {
		return nil, true
	}
	type candidate struct {
		conn  *Conn
		known int // 1: somebody has authenticated on it
		since int64
	}
	var idle []candidate
	for c := range l.conns {
		one := candidate{conn: c, since: c.idleSince.Load()}
		if c.authenticated.Load() != 0 {
			one.known = 1
		}
		if one.since == 0 || one.known == 1 && now.UnixNano()-one.since < int64(evictAfter) {
			continue
		}
		idle = append(idle, one)
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.known, b.known), cmp.Compare(a.since, b.since))
	})
	n := min(len(idle), len(l.conns)-limit+1+limit/evictShare)
	for _, one := range idle[:n] {
		surplus = append(surplus, one.conn)
	}
	if n == 0 {
		l.allBusy = now
	}
	return surplus, true
}

// remove is called once for each connection that was admitted.
func (l *Listener) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.open.Dec()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Drain waits until the lane has sent the answers that it is sending. It is called
// after net/http's Shutdown, which knows nothing of them. When ctx ends it cuts them
// off and gives ctx's error.
func (l *Listener) Drain(ctx context.Context) error {
	err := poll(ctx, func() bool { return len(l.answering()) == 0 })
	if err != nil {
		for _, c := range l.answering() {
			_ = c.wire.Close()
		}
	}
	return err
}

// poll waits until done is true, or gives the error of ctx.
func poll(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// answering are the connections on which the lane answers now.
func (l *Listener) answering() (busy []*Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if s := c.lane.state.Load(); s == laneBusy || s == laneClosing {
			busy = append(busy, c)
		}
	}
	return busy
}

// Settle is called after Close. It waits until the connections that were
// accepted last have sent their first request: net/http, once it shuts down,
// would close them without an answer. It gives up soon, as some are opened in
// advance.
func (l *Listener) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	since := time.Now().Add(-settleTime).UnixNano()
	_ = poll(ctx, func() bool { return !l.anyWithoutRequest(since) }) // what is not settled by then is left
}

// anyWithoutRequest says whether a connection accepted after since has had no request yet.
func (l *Listener) anyWithoutRequest(since int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.accepted > since && c.idleSince.Load() == c.accepted {
			return true
		}
	}
	return false
}

// endUnknown closes the connection if nobody has authenticated on it and it has
// been idle for too long.
func (c *Conn) endUnknown() {
	if c.authenticated.Load() != 0 || c.closed.Load() {
		return
	}
	left := c.listener.unknownIdle
	if since := c.idleSince.Load(); since != 0 {
		left -= time.Since(time.Unix(0, since))
	}
	if left <= 0 {
		_ = c.drop() // nobody waits for an answer on it
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.timer.Reset(left)
}
