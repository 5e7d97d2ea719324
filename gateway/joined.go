package gateway

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// net/http sends an answer whose body is larger than its buffer in two writes:
// a full buffer, which begins with the header, and the rest of the body. Each
// write is a system call and, to the peer, a segment of its own. A joinedConn
// holds the first back until the rest has come.

// maxJoined is what a connection holds back at most; larger answers go out
// together with what was held, without being copied.
const maxJoined = 64 << 10

// JoinWrites returns a listener whose connections can send an answer of the
// Gateway in one write. It needs ConnContext in the server's settings; TLS, if
// any, goes around it.
func JoinWrites(l net.Listener) net.Listener {
	return &joinedListener{l, &sync.Pool{New: func() any { return new(make([]byte, 0, maxJoined)) }}}
}

// ConnContext goes into http.Server.ConnContext, so that a request knows its
// connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	if joined, ok := c.(*joinedConn); ok {
		return context.WithValue(ctx, joinedKey{}, joined)
	}
	return ctx
}

type joinedKey struct{}

// joinedOf is the request's connection; nil where there is none to hold back
// on. HTTP/2 shares its connection between requests and has its own buffers.
func joinedOf(r *http.Request) *joinedConn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(joinedKey{}).(*joinedConn)
	return c
}

type joinedListener struct {
	net.Listener
	buffers *sync.Pool // of *[]byte
}

// Accept wraps the next connection.
func (l *joinedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &joinedConn{Conn: c, buffers: l.buffers}, nil
}

// joinedConn is written by one goroutine at a time, which is the one that
// serves its request.
type joinedConn struct {
	net.Conn
	buffers *sync.Pool
	held    *[]byte // nil: nothing is held back
}

// hold begins to hold back what is written.
func (c *joinedConn) hold() { c.held = c.buffers.Get().(*[]byte) }

// Write sends p, or keeps it until release while the connection holds back.
func (c *joinedConn) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if len(*c.held)+len(p) <= maxJoined {
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	parts := net.Buffers{*c.held, p}
	_, err := parts.WriteTo(c.Conn)
	*c.held = (*c.held)[:0]
	return len(p), err
}

// release sends what was held back. After a failure the connection is of no
// use: part of an answer may have gone out, and nothing may follow it.
func (c *joinedConn) release() error {
	held := c.held
	c.held = nil
	var err error
	if len(*held) > 0 {
		if _, err = c.Conn.Write(*held); err != nil {
			_ = c.Conn.Close() // its error says less than the write's
		}
	}
	*held = (*held)[:0]
	c.buffers.Put(held)
	return err
}
