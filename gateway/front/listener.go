// Package front accepts the connections of a server, bounds how many there are, and stands
// in front of net/http: on each connection it answers requests of one canonical form with
// one write, and at the first other one it hands the connection with the bytes that it has
// read over to net/http, for ever. Nothing is ever handed back.
package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/telemetry"
)

const (
	// evictShare of the limit is closed at once where there are too many, so that
	// the connections need not be looked through again for each new one.
	evictShare = 64
	// evictAfter is how long a connection on which a caller has authenticated must
	// have been idle before it may be closed to make room.
	evictAfter = time.Second
	// searchAgain is the shortest time between a search that found no connection to
	// close and the next one.
	searchAgain = 10 * time.Millisecond
	// settleTime is how long a listener that stops waits for a request that may be on its
	// way.
	settleTime = 250 * time.Millisecond
	// heldBytes is room for the records of one answer.
	heldBytes = 32 << 10
)

// Metrics count the connections of listeners by their name.
type Metrics struct {
	open, limit      *prometheus.GaugeVec   // listener
	streams          *prometheus.GaugeVec   // listener
	refused, evicted *prometheus.CounterVec // listener
}

// NewMetrics registers the series of all listeners of a process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	http := telemetry.Series(reg, "http")
	return &Metrics{
		open:    http.Gauges("connections", "Connections that are open now, by listener.", "listener"),
		limit:   http.Gauges("connections_limit", "How many connections may be open, by listener.", "listener"),
		streams: http.Gauges("connections_streams_limit", "How many requests may be under way on one connection of HTTP/2, by listener.", "listener"),
		refused: http.Counters("connections_refused_total",
			"Connections that were closed at once, because as many as may be were open and none of them could give way.", "listener"),
		evicted: http.Counters("connections_evicted_total",
			"Connections that were closed to make room for new ones: of strangers, and idle ones of known callers.", "listener"),
	}
}

// SetStreams tells how many requests may be under way on one connection of HTTP/2.
func (m *Metrics) SetStreams(listener string, n int) {
	m.streams.WithLabelValues(listener).Set(float64(n))
}

// Handler answers what the front has read. It is safe for concurrent use.
type Handler interface {
	// Enabled says whether the front answers requests at all. Where it does not, net/http
	// gets a connection at its next request, or as it is accepted.
	Enabled() bool
	// Answer answers h, which came at begin, with one Send, or leaves it to net/http by
	// false. After an error the connection is closed.
	Answer(c *Conn, h *Head, begin time.Time) (bool, error)
}

// Options are a Listener's. Every zero value is usable.
type Options struct {
	// MaxConnections may be open at a time; zero means any number. See SetMax.
	MaxConnections int
	// StrangerIdle is how long the connection of a stranger may be idle; zero means as long as
	// any other.
	StrangerIdle time.Duration
	Handler      Handler // nil: net/http answers all
	// ReadHeaderTimeout and IdleTimeout are the server's.
	ReadHeaderTimeout, IdleTimeout time.Duration
	// Name is the listener's in Metrics.
	Name    string
	Metrics *Metrics    // nil: not counted
	Log     *log.Logger // as the server's ErrorLog; nil: nothing is logged
}

// Listener gives net/http its connections. Its table has all of them, those of the front and
// those of net/http. It is safe for concurrent use.
type Listener struct {
	net.Listener
	opts   Options
	tls    *tls.Config // nil: clear text
	sealed sync.Pool   // of *[]byte, for records of TLS only

	start    sync.Once
	ready    chan accepted
	stopping atomic.Bool
	close    func() error
	done     chan struct{}  // Accept has ended
	fronts   sync.WaitGroup // connections that the front has

	max              atomic.Int64
	open, limit      prometheus.Gauge
	refused, evicted prometheus.Counter

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	allBusy time.Time // when a search last found no connection to close
}

// accepted is what Accept gives.
type accepted struct {
	conn net.Conn
	err  error
}

// NewListener wraps a listener. It needs ConnContext and ConnState in the server's settings.
// TLS, if any, is that of Secure.
func NewListener(l net.Listener, opts Options) *Listener {
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(nil)
	}
	if opts.Log == nil {
		opts.Log = log.New(io.Discard, "", 0)
	}
	out := &Listener{
		Listener: l,
		opts:     opts,
		sealed:   sync.Pool{New: func() any { return new(make([]byte, 0, heldBytes)) }},
		ready:    make(chan accepted),
		done:     make(chan struct{}),
		open:     opts.Metrics.open.WithLabelValues(opts.Name),
		limit:    opts.Metrics.limit.WithLabelValues(opts.Name),
		refused:  opts.Metrics.refused.WithLabelValues(opts.Name),
		evicted:  opts.Metrics.evicted.WithLabelValues(opts.Name),
		conns:    map[*Conn]struct{}{},
	}
	out.close = sync.OnceValue(l.Close)
	out.SetMax(opts.MaxConnections)
	return out
}

// Secure adds TLS, before the first Accept.
func (l *Listener) Secure(config *tls.Config) { l.tls = config }

// SetMax changes how many connections may be open; zero means any number. What
// is open already is closed only when another one comes and it can give way.
func (l *Listener) SetMax(n int) {
	l.max.Store(int64(n))
	l.limit.Set(float64(n))
}

// Accept waits for the next connection that net/http has to serve.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.acceptAll() })
	select {
	case next := <-l.ready:
		return next.conn, next.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// give has Accept return a connection, which is closed where nobody asks for it any more.
func (l *Listener) give(c net.Conn, err error) {
	select {
	case l.ready <- accepted{c, err}:
	case <-l.done:
		if c != nil {
			_ = c.Close()
		}
	}
}

// acceptAll accepts connections until the listener is closed.
func (l *Listener) acceptAll() {
	for {
		c, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.give(nil, err) // net/http waits before it asks again
			continue
		}
		conn := l.admit(c, time.Now())
		switch {
		case conn == nil:
			l.refused.Inc()
			_ = c.Close() // nothing has been written to it
		case conn.inFront.Load():
			go conn.serve()
		case l.tls != nil:
			l.give(tls.Server(conn, l.tls), nil)
		default:
			l.give(conn, nil)
		}
	}
}

// Close takes no more connections and closes those that the front has. Another call, such
// as that of net/http's Shutdown, changes nothing and is no error.
func (l *Listener) Close() error {
	err := l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping.Store(true)
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	for c := range l.conns {
		if c.inFront.Load() {
			_ = c.Conn.Close() // serve ends, and removes it
		}
	}
	return err
}

// Stop takes no more connections and waits until the front has none: each gets one more
// answer if its request is there or comes soon. When ctx ends Stop cuts them off and gives
// ctx's error. net/http's Shutdown comes after it.
func (l *Listener) Stop(ctx context.Context) error {
	_ = l.close()
	l.mu.Lock()
	l.stopping.Store(true) // from here on admit leaves connections to net/http
	waiting := false
	for c := range l.conns {
		if c.inFront.Load() {
			waiting = true
			_ = c.SetReadDeadline(time.Now().Add(settleTime))
		}
	}
	l.mu.Unlock()
	if !waiting { // nothing is cut off, even where ctx has ended
		return l.Close()
	}
	empty := make(chan struct{})
	go func() { l.fronts.Wait(); close(empty) }()
	select {
	case <-empty:
		return l.Close()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), l.Close())
	}
}

// admit is nil where there is no room for the connection.
func (l *Listener) admit(c net.Conn, now time.Time) *Conn {
	conn := &Conn{Conn: c, listener: l, peer: parsePeer(c.RemoteAddr().String())}
	conn.since.Store(now.UnixNano())
	if !l.makeRoom(now) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	l.open.Inc()
	if l.opts.StrangerIdle > 0 {
		conn.timer = time.AfterFunc(l.opts.StrangerIdle, conn.endStranger)
	}
	if l.opts.Handler != nil && l.opts.Handler.Enabled() && !l.stopping.Load() {
		conn.inFront.Store(true)
		l.fronts.Add(1)
	}
	return conn
}

// candidate is a connection that may be closed to make room.
type candidate struct {
	conn      *Conn
	since, at int64 // see Conn; at says nothing of idle and busy
}

// makeRoom says whether one more connection may be open. Where the limit is reached it
// closes others: those on which nobody has authenticated, whether a request is under way or
// not, and only where these are too few idle ones of known callers; of both those that have
// been so for longest. Whoever is slow at anything gives way, so that a caller who sends its
// request at once stays, however many connections strangers open.
func (l *Listener) makeRoom(now time.Time) bool {
	var strangers, known []candidate
	l.mu.Lock()
	limit, open := int(l.max.Load()), len(l.conns)
	atLimit := limit > 0 && open >= limit
	if atLimit && now.Sub(l.allBusy) >= searchAgain {
		for c := range l.conns {
			since := c.since.Load()
			one := candidate{c, since, max(since, -since)}
			if c.authenticated.Load() == 0 {
				strangers = append(strangers, one)
			} else if since > 0 && now.UnixNano()-since >= int64(evictAfter) {
				known = append(known, one)
			}
		}
		if len(strangers)+len(known) == 0 {
			l.allBusy = now
		}
	}
	l.mu.Unlock()
	if !atLimit {
		return true
	}
	byAge := func(a, b candidate) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(strangers, byAge)
	slices.SortFunc(known, byAge)
	needed := open - limit + 1
	strangers = strangers[:min(len(strangers), needed+limit/evictShare)]
	known = known[:min(len(known), max(0, needed-len(strangers)))]
	room := false
	for _, one := range slices.Concat(strangers, known) {
		if one.conn.evict(one.since) {
			l.evicted.Inc()
			room = true
		}
	}
	return room
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

// endStranger closes the connection if nobody has authenticated on it and it has
// been idle for too long; else it looks again later.
func (c *Conn) endStranger() {
	for c.authenticated.Load() == 0 && !c.closed.Load() {
		left, since := c.listener.opts.StrangerIdle, c.since.Load()
		if since > 0 {
			left -= time.Since(time.Unix(0, since))
		}
		if left <= 0 && c.evict(since) { // nobody waits for an answer on it
			return
		}
		if left > 0 {
			c.listener.mu.Lock()
			defer c.listener.mu.Unlock()
			c.timer.Reset(left)
			return
		}
	}
}
