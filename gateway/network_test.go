package gateway

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memoryListener gives a server ends of connections in memory: a conversation over sockets
// costs twice as much, and their deadlines follow no clock of a test.
type memoryListener struct {
	conns  chan net.Conn
	last   memoryConn // that was given
	closed chan struct{}
	close  func()
}

func newMemoryListener() *memoryListener {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.close(); return nil }
func (l *memoryListener) Addr() net.Addr { return addr("192.0.2.1:80") }

// connect gives the caller's end of a new connection. What it sends has any room, so that a
// caller may read nothing before it has sent everything.
func (l *memoryListener) connect(peer addr) memoryConn {
	there, back := newDirection(1<<30), newDirection(16<<10)
	l.last = memoryConn{there, back, peer}
	l.conns <- l.last
	return memoryConn{back, there, "192.0.2.1:80"}
}

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

// direction carries the bytes of one end of a connection to the other.
type direction struct {
	mu      sync.Mutex
	changed sync.Cond
	room    int // bytes that are held before who writes has to wait
	b       []byte
	writes  int
	ended   bool // nothing more is written
	gone    bool // nobody reads
	broken  bool // the next write panics

	deadline time.Time // of reads
	timer    *time.Timer
}

func newDirection(room int) *direction {
	d := &direction{room: room}
	d.changed.L = &d.mu
	return d
}

func (d *direction) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.changed.Broadcast()
}

func (d *direction) read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.gone:
			return 0, net.ErrClosed
		case !d.deadline.IsZero() && !time.Now().Before(d.deadline):
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

func (d *direction) write(p []byte) (written int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.broken {
		d.broken = false
		panic("boom")
	}
	for len(p) > 0 {
		for len(d.b) >= d.room && !d.gone && !d.ended {
			d.changed.Wait()
		}
		if d.gone || d.ended {
			return written, net.ErrClosed
		}
		n := min(len(p), d.room-len(d.b))
		d.b = append(d.b, p[:n]...)
		p, written = p[n:], written+n
		d.changed.Broadcast()
	}
	return written, nil
}

// halfConn is a connection whose writing side can be closed by itself.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// memoryConn is one end of a connection. Unlike with TCP, what was sent before one end was
// closed is always received. It knows deadlines of reads only.
type memoryConn struct {
	in, out *direction
	peer    addr
}

func (c memoryConn) Read(p []byte) (int, error)       { return c.in.read(p) }
func (c memoryConn) Write(p []byte) (int, error)      { return c.out.write(p) }
func (c memoryConn) LocalAddr() net.Addr              { return addr("192.0.2.1:80") }
func (c memoryConn) RemoteAddr() net.Addr             { return c.peer }
func (c memoryConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c memoryConn) SetWriteDeadline(time.Time) error { return nil }

func (c memoryConn) CloseWrite() error { c.out.set(func() { c.out.ended = true }); return nil }

func (c memoryConn) Close() error {
	_ = c.SetReadDeadline(time.Time{})
	c.in.set(func() { c.in.gone = true })
	return c.CloseWrite()
}

func (c memoryConn) SetReadDeadline(t time.Time) error {
	c.in.set(func() {
		c.in.deadline = t
		if c.in.timer != nil {
			c.in.timer.Stop()
		}
		if !t.IsZero() {
			c.in.timer = time.AfterFunc(time.Until(t), func() { c.in.set(func() {}) })
		}
	})
	return nil
}
