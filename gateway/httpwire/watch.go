package httpwire

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// While a handler runs, net/http waits for one more byte, and takes the end of what the
// caller sends for its leaving: it cancels the request. But a caller may send its
// requests, say by a FIN that these were all, and wait for the answers (RFC 9112,
// section 9.6, speaks of half-closed connections). So that end is kept from net/http
// until the handler is done. A reset, as of a process that was killed, is not kept.

// watchBytes is what net/http asks for while a handler runs, and at no other time.
const watchBytes = 1

// watch keeps the end of what a caller sends from net/http. Its zero value is usable.
type watch struct {
	mu     sync.Mutex
	past   bool // the deadline of reads is: net/http wants its read back
	closed bool
	wake   chan struct{} // nil: nobody waits
}

// read is the connection's. The end comes when the handler is done, or as
// [net.ErrClosed] when the connection is closed.
func (c *Conn) read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && err == io.EOF && len(p) == watchBytes && c.idleSince.Load() == 0 {
		err = c.watch.wait()
	}
	return n, err
}

// wait blocks until set says that net/http wants its read back, or that the connection
// is closed.
func (w *watch) wait() error {
	w.mu.Lock()
	if !w.past && !w.closed {
		wake := make(chan struct{})
		w.wake = wake
		w.mu.Unlock()
		<-wake
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.closed {
		return net.ErrClosed
	}
	return os.ErrDeadlineExceeded // which net/http expects of a read that it wants back
}

// set changes what a wait depends on, and ends it if that says so.
func (w *watch) set(change func(*watch)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
	if w.wake != nil && (w.past || w.closed) {
		close(w.wake)
		w.wake = nil
	}
}

// SetReadDeadline implements net.Conn. A deadline before the connection itself is
// how net/http takes its read back.
func (c *Conn) SetReadDeadline(t time.Time) error {
	past := !t.IsZero() && t.UnixNano() < c.accepted
	c.watch.set(func(w *watch) { w.past = past })
	return c.Conn.SetReadDeadline(t)
}
