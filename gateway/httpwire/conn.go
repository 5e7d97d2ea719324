package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// errNoHead ends a connection on which net/http did not write a head where one was
// due. What follows could not be trusted to be an answer.
var errNoHead = errors.New("the answer's header did not come in one piece")

// Conn is a connection of a Listener, as net/http sees it while HTTP/1 is spoken.
// Its net.Conn is the wire below or, with TLS, a tls.Conn over the wire. Read, Write
// and their deadlines are for the goroutine that serves the connection.
type Conn struct {
	net.Conn
	wire     wire
	listener *Listener
	direct   bool // net/http writes to this Conn, and to nothing around it
	peer     netip.Addr

	accepted      int64        // Unix nanoseconds
	idleSince     atomic.Int64 // Unix nanoseconds; 0 while a request is under way
	authenticated atomic.Int64 // when somebody did so last, Unix nanoseconds; 0: nobody has
	closed        atomic.Bool
	timer         *time.Timer // ends a connection without a known caller; guarded by the listener's mutex, nil without a bound

	head *Header // whose lines go into the head that is due; nil: none
	lane laneState

	watch watch
}

// secureConn is a Conn with TLS, which net/http tells by this method.
type secureConn struct{ *Conn }

// ConnectionState implements what net/http fills Request.TLS from.
func (c secureConn) ConnectionState() tls.ConnectionState {
	return c.Conn.Conn.(*tls.Conn).ConnectionState()
}

// contextKey is of FromContext.
type contextKey struct{}

// ConnContext goes into http.Server.ConnContext, so that FromContext finds the
// connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	conn := unwrap(c)
	if conn == nil {
		return ctx
	}
	switch c.(type) {
	case *Conn, secureConn:
		conn.direct = true
	}
	return context.WithValue(ctx, contextKey{}, conn)
}

// FromContext is the connection of a request's context; nil if no Listener has
// accepted it.
func FromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(contextKey{}).(*Conn)
	return c
}

// ConnState goes into http.Server.ConnState, so that a Listener knows which
// connections are idle. It takes no lock. Where somebody has authenticated, it
// does not read the clock.
func ConnState(c net.Conn, state http.ConnState) {
	conn := unwrap(c)
	if conn == nil {
		return
	}
	switch state {
	case http.StateActive:
		conn.idleSince.Store(0)
	case http.StateIdle:
		conn.setIdle()
		conn.lane.idle()
	}
}

// setIdle takes the time of the last authentication for now where there is one, as that
// was a moment ago and spares a look at the clock.
func (c *Conn) setIdle() {
	since := c.authenticated.Load()
	if since == 0 {
		since = time.Now().UnixNano()
	}
	c.idleSince.Store(since)
}

// unwrap finds the Conn of what net/http has; nil if it is none of a Listener's.
func unwrap(c net.Conn) *Conn {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	switch c := c.(type) {
	case *Conn:
		return c
	case secureConn:
		return c.Conn
	case *wire:
		return c.conn
	}
	return nil
}

// Peer is the address that the connection of r came from. One of them may be nil.
func (c *Conn) Peer(r *http.Request) netip.Addr {
	if c != nil {
		return c.peer
	}
	return parsePeer(r.RemoteAddr)
}

// parsePeer reads an address with its port. The zero Addr stands for one that
// cannot be read.
func parsePeer(s string) netip.Addr {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("") // no network contains an address with a zone
}

// Authenticated notes that somebody has authenticated on the connection. From then
// on it may be idle for longer. c may be nil.
func (c *Conn) Authenticated(at time.Time) {
	if c != nil {
		c.authenticated.Store(at.UnixNano())
	}
}

// Write completes the head that Send announced and has it wait for the next part of
// the answer, with which it goes out.
func (c *Conn) Write(p []byte) (int, error) {
	if c.head == nil {
		return c.Conn.Write(p)
	}
	const end = "\r\n"
	if !bytes.HasSuffix(p, []byte(end+end)) {
		return 0, errNoHead
	}
	head := c.listener.heads.Get().(*[]byte)
	b := append((*head)[:0], p[:len(p)-len(end)]...)
	b = append(c.head.appendTo(b), end...)
	c.head = nil
	err := c.writeHead(b)
	*head = b[:0]
	c.listener.heads.Put(head)
	return len(p), err
}

// writeHead has a whole head wait for the body.
func (c *Conn) writeHead(head []byte) error {
	c.wire.hold()
	_, err := c.Conn.Write(head)
	return err
}

// CloseWrite says that nothing more is sent. net/http calls it before it closes a
// connection from which it has not read everything. Without it, the peer would see
// a reset instead of the answer.
func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
