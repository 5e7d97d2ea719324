// Package connlimit bounds the open connections of a listener. At the limit the oldest connection on
// which nobody has authenticated is closed for a new one, so that slow or idle unauthenticated
// clients, however many, cannot keep callers with a valid key out. If everybody has authenticated the
// new connection is closed.
package connlimit

import (
	"container/list"
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/telemetry"
)

// Listener is a net.Listener with a limit. It is safe for concurrent use.
type Listener struct {
	net.Listener
	open, limit      prometheus.Gauge
	evicted, refused prometheus.Counter

	mu              sync.Mutex
	max             int
	count           int
	unauthenticated list.List // of *Conn, the oldest first
}

// New bounds l to limit connections; zero means any number. name is its label in the metrics.
func New(l net.Listener, name string, limit int, reg prometheus.Registerer) *Listener {
	http := telemetry.Series(reg, "http")
	out := &Listener{
		Listener: l,
		open:     http.Gauges("connections", "Open connections.", "listener").WithLabelValues(name),
		limit:    http.Gauges("connections_limit", "Maximum open connections.", "listener").WithLabelValues(name),
		evicted: http.Counters("connections_evicted_total",
			"Unauthenticated connections closed at the limit for new ones.", "listener").WithLabelValues(name),
		refused: http.Counters("connections_refused_total",
			"New connections closed at the limit, because all others were authenticated.", "listener").WithLabelValues(name),
	}
	out.SetMax(limit)
	return out
}

// SetMax changes the limit; zero means any number of connections. Open connections stay open until
// another one needs their place.
func (l *Listener) SetMax(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = limit
	l.limit.Set(float64(limit))
}

// Accept waits for the next connection that there is room for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := l.admit(c); conn != nil {
			return conn, nil
		}
		l.refused.Inc()
		_ = c.Close()
	}
}

// admit returns nil where there is no room.
func (l *Listener) admit(c net.Conn) *Conn {
	conn := &Conn{Conn: c, listener: l}
	l.mu.Lock()
	var evicted []*Conn
	for l.max > 0 && l.count-len(evicted) >= l.max {
		oldest := l.unauthenticated.Front()
		if oldest == nil {
			break
		}
		evicted = append(evicted, oldest.Value.(*Conn).unlist())
	}
	admitted := l.max <= 0 || l.count-len(evicted) < l.max
	if admitted {
		conn.element = l.unauthenticated.PushBack(conn)
		l.count++
		l.open.Set(float64(l.count))
	}
	l.mu.Unlock()
	for _, old := range evicted {
		l.evicted.Inc()
		_ = old.Close()
	}
	if !admitted {
		return nil
	}
	return conn
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	listener      *Listener
	authenticated atomic.Bool
	closed        atomic.Bool
	element       *list.Element // in the listener's list; guarded by its mutex
}

// Authenticated keeps the connection from being evicted. c may be nil.
func (c *Conn) Authenticated() {
	if c != nil && !c.authenticated.Load() && c.authenticated.CompareAndSwap(false, true) {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.unlist()
	}
}

// unlist removes the connection from those that can be evicted.
func (c *Conn) unlist() *Conn {
	if c.element != nil {
		c.listener.unauthenticated.Remove(c.element)
		c.element = nil
	}
	return c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		l := c.listener
		l.mu.Lock()
		c.unlist()
		l.count--
		l.open.Set(float64(l.count))
		l.mu.Unlock()
	}
	return c.Conn.Close()
}

// CloseWrite is for http.Server, which calls it before it closes a connection that it has not read
// to the end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// NetConn is the connection as it was accepted.
func (c *Conn) NetConn() net.Conn { return c.Conn }

type contextKey struct{}

// ConnContext is for http.Server.ConnContext, so that FromContext finds the connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	for {
		switch over := c.(type) {
		case *Conn:
			return context.WithValue(ctx, contextKey{}, over)
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return ctx
		}
	}
}

// FromContext is the connection of a request's context; nil if no Listener accepted it.
func FromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(contextKey{}).(*Conn)
	return c
}
