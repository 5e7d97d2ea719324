package httpwire

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// net/http sends an answer whose body is larger than its buffer in two writes: a
// full buffer, which begins with the header, and the rest of the body. Each write
// is a system call and, to the peer, a segment of its own. A Conn holds the head
// back until the body comes, and sends both with one call, without copying the
// body.

// heldBytes is room for what is held back: a head, or with TLS its record.
const heldBytes = 2 << 10

// errNoHead ends a connection on which net/http did not write a head where one was
// due. What follows could not be trusted to be an answer.
var errNoHead = errors.New("the answer's header did not come in one piece")

// Conn is a connection of a Listener. The goroutine that serves its request writes
// to it. With TLS the goroutine that reads ahead writes too: an alert, or the
// answer to a key update, may come while something is held back. TLS sends its
// records in their order, so the first one is held and goes out with the next.
type Conn struct {
	net.Conn
	listener      *Listener
	peer          netip.Addr
	accepted      int64        // Unix nanoseconds
	idleSince     atomic.Int64 // Unix nanoseconds; 0 while a request is under way
	authenticated atomic.Int64 // when somebody did so last, Unix nanoseconds; 0: nobody has
	closed        atomic.Bool
	timer         *time.Timer // ends a connection without a known caller; guarded by the listener's mutex, nil without a bound

	mu     sync.Mutex // guards the fields below
	held   *[]byte    // nil: nothing is held back
	head   *Header    // whose lines go into the head that is due; nil: none
	parts  [2][]byte  // of one write, kept here to be allocated once
	vector net.Buffers
}

type contextKey struct{}

// ConnContext goes into http.Server.ConnContext, so that FromContext finds the
// connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if conn := unwrap(c); conn != nil {
		return context.WithValue(ctx, contextKey{}, conn)
	}
	return ctx
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
		since := conn.authenticated.Load()
		if since == 0 {
			since = time.Now().UnixNano()
		}
		conn.idleSince.Store(since)
	}
}

// unwrap finds the Conn beneath TLS; nil if it is none of a Listener's.
func unwrap(c net.Conn) *Conn {
	if conn, ok := c.(*Conn); ok {
		return conn
	}
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		conn, _ := wrapped.NetConn().(*Conn)
		return conn
	}
	return nil
}

// Peer is the address that the connection of r came from. c may be nil.
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
	return ap.Addr().Unmap()
}

// Authenticated notes that somebody has authenticated on the connection. From then
// on it may be idle for longer. c may be nil.
func (c *Conn) Authenticated(at time.Time) {
	if c != nil {
		c.authenticated.Store(at.UnixNano())
	}
}

// hold begins to hold back: what is written next is the answer's head, alone. The
// lines of head, if any, become part of it.
func (c *Conn) hold(head *Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.head = c.listener.buffers.Get().(*[]byte), head
}

// Write keeps the head until the next part of the answer, which goes out together
// with it.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.held == nil:
		return c.Conn.Write(p)
	case len(*c.held) > 0:
		return len(p), c.writeBoth(p)
	case c.head == nil:
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	const end = "\r\n"
	if !bytes.HasSuffix(p, []byte(end+end)) {
		return 0, errNoHead
	}
	b := append(*c.held, p[:len(p)-len(end)]...)
	*c.held = append(c.head.appendTo(b), end...)
	return len(p), nil
}

// CloseWrite says that nothing more is sent. net/http calls it before it closes a
// connection from which it has not read everything. Without it, the peer would see
// a reset instead of the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// writeBoth sends what is held and p with one call. It needs the lock.
func (c *Conn) writeBoth(p []byte) error {
	c.parts = [2][]byte{*c.held, p}
	c.vector = c.parts[:]
	_, err := c.vector.WriteTo(c.Conn)
	c.parts = [2][]byte{} // the body belongs to the cache
	c.putBuffer()
	return err
}

// release ends the holding. It sends what is still held: the head of an answer
// without a body. After a failure the connection is of no use: part of an answer
// may have gone out, and nothing may follow it.
func (c *Conn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return nil
	}
	var err error
	if len(*c.held) > 0 {
		if _, err = c.Conn.Write(*c.held); err != nil {
			_ = c.Conn.Close() // its error says less than the write's
		}
	}
	c.putBuffer()
	return err
}

// putBuffer needs the lock.
func (c *Conn) putBuffer() {
	*c.held = (*c.held)[:0]
	c.listener.buffers.Put(c.held)
	c.held, c.head = nil, nil
}

// Close ends the connection and removes it from its listener's.
func (c *Conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.remove(c)
	}
	return c.Conn.Close()
}
