package gateway

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

// ConnectionMetrics count the connections of listeners by their name.
type ConnectionMetrics struct {
	open, limit      *prometheus.GaugeVec   // listener
	refused, evicted *prometheus.CounterVec // listener
}

// NewConnectionMetrics registers the series of all listeners of a process.
func NewConnectionMetrics(reg prometheus.Registerer) *ConnectionMetrics {
	labels := []string{"listener"}
	m := &ConnectionMetrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "inquiry_gateway_http_connections",
			Help: "Connections that are open now, by listener.",
		}, labels),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "inquiry_gateway_http_connections_limit",
			Help: "How many connections may be open, by listener.",
		}, labels),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inquiry_gateway_http_connections_refused_total",
			Help: "Connections that were closed at once, because as many as may be were open and none of them was idle.",
		}, labels),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inquiry_gateway_http_connections_evicted_total",
			Help: "Idle connections that were closed to make room for new ones.",
		}, labels),
	}
	reg.MustRegister(m.open, m.limit, m.refused, m.evicted)
	return m
}

// ListenerOptions bound what a Listener holds open. Every zero value is usable.
type ListenerOptions struct {
	// MaxConnections may be open at a time; zero means any number. See SetMax.
	MaxConnections int
	// StrangerIdle is how long a connection may be idle on which nobody has
	// authenticated yet; zero means as long as any other.
	StrangerIdle time.Duration
	// Name is the listener's in Metrics.
	Name    string
	Metrics *ConnectionMetrics // nil: not counted
}

// Listener accepts connections that can send an answer in one write, and bounds
// how many are open. It is safe for concurrent use.
type Listener struct {
	net.Listener
	buffers      *sync.Pool // of *[]byte
	strangerIdle time.Duration
	max          atomic.Int64
	closing      func() error

	open, limit      prometheus.Gauge
	refused, evicted prometheus.Counter

	mu      sync.Mutex
	conns   map[*joinedConn]struct{}
	allBusy time.Time // when a search last found no idle connection
}

// JoinWrites returns a listener whose connections can send an answer of the
// Gateway in one write. It needs ConnContext and ConnState in the server's
// settings; TLS, if any, goes around it.
func JoinWrites(l net.Listener, opts ListenerOptions) *Listener {
	if opts.Metrics == nil {
		opts.Metrics = NewConnectionMetrics(prometheus.NewRegistry())
	}
	out := &Listener{
		Listener:     l,
		buffers:      &sync.Pool{New: func() any { return new(make([]byte, 0, heldBytes)) }},
		strangerIdle: opts.StrangerIdle,
		open:         opts.Metrics.open.WithLabelValues(opts.Name),
		limit:        opts.Metrics.limit.WithLabelValues(opts.Name),
		refused:      opts.Metrics.refused.WithLabelValues(opts.Name),
		evicted:      opts.Metrics.evicted.WithLabelValues(opts.Name),
		conns:        map[*joinedConn]struct{}{},
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
func (l *Listener) admit(c net.Conn, now time.Time) *joinedConn {
	conn := &joinedConn{Conn: c, listener: l, peer: parsePeer(c.RemoteAddr().String()), accepted: now.UnixNano()}
	conn.idleSince.Store(conn.accepted)
	surplus, full := l.room(now)
	for _, idle := range surplus {
		if idle.Close() == nil {
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
	if l.strangerIdle > 0 {
		conn.timer = time.AfterFunc(l.strangerIdle, conn.endStranger)
	}
	return conn
}

// room says whether the limit is reached and, if so, which connections to close:
// those on which nobody has authenticated before the others, and of each those
// that have been idle for longest. A caller who sends its request at once stays,
// however many connections are opened by those who do not.
func (l *Listener) room(now time.Time) (surplus []*joinedConn, full bool) {
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
		conn  *joinedConn
		known bool
		since int64
	}
	var idle []candidate
	for c := range l.conns {
		one := candidate{c, c.asked.Load() != 0, c.idleSince.Load()}
		if one.since == 0 || one.known && now.UnixNano()-one.since < int64(evictAfter) {
			continue
		}
		idle = append(idle, one)
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		if a.known != b.known {
			if b.known {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.since, b.since)
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

// forget is called once for each connection that was admitted.
func (l *Listener) forget(c *joinedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.open.Dec()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Settle is called after Close. It waits until the connections that were
// accepted last have sent their first request: net/http, once it shuts down,
// would close them without an answer. It gives up soon, as some are opened in
// advance.
func (l *Listener) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for since := time.Now().Add(-settleTime).UnixNano(); l.unasked(since); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// unasked says whether a connection accepted after since has had no request yet.
func (l *Listener) unasked(since int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.accepted > since && c.idleSince.Load() == c.accepted {
			return true
		}
	}
	return false
}

// ConnContext goes into http.Server.ConnContext, so that a request knows its
// connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if joined := unwrap(c); joined != nil {
		return context.WithValue(ctx, joinedKey{}, joined)
	}
	return ctx
}

// ConnState goes into http.Server.ConnState, so that a Listener knows which
// connections are idle. It takes no lock and, where somebody has authenticated,
// does not read the clock.
func ConnState(c net.Conn, state http.ConnState) {
	joined := unwrap(c)
	if joined == nil {
		return
	}
	switch state {
	case http.StateActive:
		joined.idleSince.Store(0)
	case http.StateIdle:
		since := joined.asked.Load()
		if since == 0 {
			since = time.Now().UnixNano()
		}
		joined.idleSince.Store(since)
	}
}

// unwrap finds the connection beneath TLS; nil where it is none of a Listener's.
func unwrap(c net.Conn) *joinedConn {
	if joined, ok := c.(*joinedConn); ok {
		return joined
	}
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		joined, _ := wrapped.NetConn().(*joinedConn)
		return joined
	}
	return nil
}

type joinedKey struct{}

func joinedFrom(ctx context.Context) *joinedConn {
	c, _ := ctx.Value(joinedKey{}).(*joinedConn)
	return c
}

// endStranger closes the connection if nobody has authenticated on it and it has
// been idle for as long as such a one may be.
func (c *joinedConn) endStranger() {
	if c.asked.Load() != 0 || c.closed.Load() {
		return
	}
	left := c.listener.strangerIdle
	if since := c.idleSince.Load(); since != 0 {
		left -= time.Since(time.Unix(0, since))
	}
	if left <= 0 {
		_ = c.Close() // nobody waits for an answer on it
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.timer.Reset(left)
}

// Close ends the connection and its place among the open ones.
func (c *joinedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.forget(c)
	}
	return c.Conn.Close()
}
