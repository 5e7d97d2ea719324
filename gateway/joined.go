package gateway

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// net/http sends an answer whose body is larger than its buffer in two writes:
// a full buffer, which begins with the header, and the rest of the body. Each
// write is a system call and, to the peer, a segment of its own. A joinedConn
// holds the header back until the body comes and sends both with one call,
// without copying the body.

// heldBytes is room for what is held back: a header, or with TLS its record.
const heldBytes = 2 << 10

// errNoHead cuts a connection off on which net/http did not write a header where
// one was due: nothing that follows could be trusted to be an answer.
var errNoHead = errors.New("the answer's header did not come in one piece")

// joinedOf is the request's connection; nil where there is none to hold back
// on. HTTP/2 shares its connection between requests and has its own buffers.
func joinedOf(r *http.Request) *joinedConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	return joinedFrom(r.Context())
}

// headWriter adds its lines to the head of an answer.
type headWriter interface {
	appendHead(b []byte) []byte
}

// joinedConn is written by the goroutine that serves its request and, with TLS,
// also by the one that reads ahead: an alert or the answer to a key update may
// come while something is held back. TLS sends its records in their order, so
// whichever comes first is held and goes out with the next.
type joinedConn struct {
	net.Conn
	listener  *Listener
	peer      netip.Addr
	accepted  int64        // Unix nanoseconds
	idleSince atomic.Int64 // Unix nanoseconds; 0 while a request is under way
	asked     atomic.Int64 // when somebody authenticated on it last, Unix nanoseconds; 0: nobody has
	closed    atomic.Bool
	timer     *time.Timer // ends a stranger's; guarded by the listener's mutex, nil without a bound

	mu     sync.Mutex // guards the fields below
	held   *[]byte    // nil: nothing is held back
	head   headWriter // whose lines go into the head that is due; nil: none
	parts  [2][]byte  // of one write, kept here to be allocated once
	vector net.Buffers
}

// hold begins to hold back: what is written next is the answer's head, alone.
// The lines of head, if any, become part of it.
func (c *joinedConn) hold(head headWriter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.head = c.listener.buffers.Get().(*[]byte), head
}

// Write keeps the head until the next part of the answer, which goes out
// together with it.
func (c *joinedConn) Write(p []byte) (int, error) {
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
	*c.held = append(c.head.appendHead(b), end...)
	return len(p), nil
}

// CloseWrite says that nothing more is sent. net/http does so before it closes a
// connection from which it has not read everything: the peer would not see the
// answer otherwise, but a reset.
func (c *joinedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// writeBoth sends what is held and p with one call. It needs the lock.
func (c *joinedConn) writeBoth(p []byte) error {
	c.parts = [2][]byte{*c.held, p}
	c.vector = c.parts[:]
	_, err := c.vector.WriteTo(c.Conn)
	c.parts = [2][]byte{} // the body is the cache's
	c.giveBack()
	return err
}

// release ends the holding, and sends what is still held: the head of an answer
// without a body. After a failure the connection is of no use: part of an answer
// may have gone out, and nothing may follow it.
func (c *joinedConn) release() error {
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
	c.giveBack()
	return err
}

// giveBack needs the lock.
func (c *joinedConn) giveBack() {
	*c.held = (*c.held)[:0]
	c.listener.buffers.Put(c.held)
	c.held, c.head = nil, nil
}
