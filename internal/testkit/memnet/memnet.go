// Package memnet is a network in memory for tests: a conversation over sockets costs twice as
// much, and the deadlines of sockets follow the machine's clock instead of that of synctest.
package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// roomOfCaller is any: a caller may read nothing before it has sent everything.
const roomOfCaller = 1 << 30

var (
	server = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	caller = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}
)

// Listener gives a server its ends of connections. It is safe for concurrent use.
type Listener struct {
	// Room is how many bytes of what the server sends wait for a caller to read them; what is
	// more the server waits for. It is set before use.
	Room int

	conns  chan net.Conn
	closed chan struct{}
	end    func()
}

// Listen opens a listener with a Room of 16 KiB.
func Listen() *Listener {
	l := &Listener{Room: 16 << 10, conns: make(chan net.Conn), closed: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Accept waits for a caller. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close leaves the connections open.
func (l *Listener) Close() error { l.end(); return nil }

// Addr is 192.0.2.1:80.
func (l *Listener) Addr() net.Addr { return server }

// Dial connects from 198.51.100.7:4000, whatever the address. It waits until the server accepts.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := l.DialFrom(ctx, caller)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DialFrom connects from an address.
func (l *Listener) DialFrom(ctx context.Context, from net.Addr) (*Conn, error) {
	there, back := newDirection(roomOfCaller), newDirection(l.Room)
	select {
	case l.conns <- &Conn{in: there, out: back, local: server, remote: from}:
		return &Conn{in: back, out: there, local: from, remote: server}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Conn is one end of a connection. Unlike with TCP, what was sent before one end was closed is
// always received. It is safe for concurrent use.
type Conn struct {
	in, out       *direction
	local, remote net.Addr
}

// direction carries the bytes of one end to the other.
type direction struct {
	mu      sync.Mutex
	changed sync.Cond
	room    int // bytes that are held before who writes has to wait
	b       []byte
	ended   bool // nothing more is written
	gone    bool // nobody reads
	toRead  deadline
	toWrite deadline
}

func newDirection(room int) *direction {
	d := &direction{room: room}
	d.changed.L = &d.mu
	return d
}

// set makes a change that who waits has to look at.
func (d *direction) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	d.changed.Broadcast()
}

// deadline is a moment at which who waits looks again; zero: there is none.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (l *deadline) passed() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

func (d *direction) setDeadline(l *deadline, at time.Time) {
	d.set(func() {
		l.at = at
		if l.timer != nil {
			l.timer.Stop()
		}
		if !at.IsZero() && !l.passed() { // one that has passed is how net/http ends a read
			l.timer = time.AfterFunc(time.Until(at), func() { d.set(func() {}) })
		}
	})
}

// Read waits for bytes, for the other end to be closed, or for the deadline.
func (c *Conn) Read(p []byte) (int, error) {
	d := c.in
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.gone:
			return 0, net.ErrClosed
		case d.toRead.passed():
			return 0, os.ErrDeadlineExceeded
		case len(d.b) > 0:
			n := copy(p, d.b)
			d.b = d.b[n:]
			d.changed.Broadcast()
			return n, nil
		case d.ended:
			return 0, io.EOF
		}
		d.changed.Wait()
	}
}

// Write waits for room, or for the deadline.
func (c *Conn) Write(p []byte) (written int, err error) {
	d := c.out
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(p) > 0 {
		for len(d.b) >= d.room && !d.gone && !d.ended && !d.toWrite.passed() {
			d.changed.Wait()
		}
		switch {
		case d.gone || d.ended:
			return written, net.ErrClosed
		case d.toWrite.passed():
			return written, os.ErrDeadlineExceeded
		}
		n := min(len(p), d.room-len(d.b))
		d.b = append(d.b, p[:n]...)
		p, written = p[n:], written+n
		d.changed.Broadcast()
	}
	return written, nil
}

// CloseWrite ends what this end sends; it goes on receiving.
func (c *Conn) CloseWrite() error { c.out.set(func() { c.out.ended = true }); return nil }

// Close ends both directions.
func (c *Conn) Close() error {
	_ = c.SetDeadline(time.Time{})
	c.in.set(func() { c.in.gone = true })
	return c.CloseWrite()
}

// LocalAddr is where this end is.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is where the other end is.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline ends a Read at a moment; the zero time takes the deadline away.
func (c *Conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(&c.in.toRead, t); return nil }

// SetWriteDeadline ends a Write at a moment; the zero time takes the deadline away.
func (c *Conn) SetWriteDeadline(t time.Time) error { c.out.setDeadline(&c.out.toWrite, t); return nil }
