package httpwire

import (
	"net"
	"sync"
	"syscall"
)

// net/http sends an answer whose body is larger than its buffer in two writes: a
// full buffer, which begins with the header, and the rest of the body. Each write
// is a system call and, to the peer, a segment of its own. A wire holds the head
// back until the body comes, and sends both with one call, without copying the
// body.

// heldBytes is room for what is held back: a head, or with TLS its record.
const heldBytes = 2 << 10

// wire is a TCP connection that can hold back one write. With TLS the goroutine that
// reads ahead writes too: an alert, or the answer to a key update, may come while
// something is held back. TLS sends its records in their order, so the first one is
// held and goes out with the next.
type wire struct {
	net.Conn
	conn *Conn // above it

	mu     sync.Mutex // guards the fields below
	held   *[]byte    // nil: nothing is held back
	parts  [2][]byte  // of one write, kept here to be allocated once
	vector net.Buffers
}

// hold begins to hold back: what is written next waits for what comes after it.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = w.conn.listener.buffers.Get().(*[]byte)
	}
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.held == nil:
		return w.Conn.Write(p)
	case len(*w.held) > 0:
		return w.writeBoth(p)
	}
	*w.held = append(*w.held, p...)
	return len(p), nil
}

// writeBoth sends what is held and p with one call, and gives how much of p was sent. It
// needs the lock.
func (w *wire) writeBoth(p []byte) (int, error) {
	held := len(*w.held)
	w.parts = [2][]byte{*w.held, p}
	w.vector = w.parts[:]
	n, err := w.vector.WriteTo(w.Conn)
	w.parts = [2][]byte{} // the body belongs to the cache
	w.putBuffer()
	return max(0, int(n)-held), err
}

// release ends the holding. It sends what is still held: the head of an answer
// without a body. After a failure the connection is of no use: part of an answer
// may have gone out, and nothing may follow it.
func (w *wire) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		return nil
	}
	var err error
	if len(*w.held) > 0 {
		if _, err = w.Conn.Write(*w.held); err != nil {
			_ = w.Conn.Close() // its error says less than the write's
		}
	}
	w.putBuffer()
	return err
}

// putBuffer needs the lock.
func (w *wire) putBuffer() {
	*w.held = (*w.held)[:0]
	w.conn.listener.buffers.Put(w.held)
	w.held = nil
}

// CloseWrite says that nothing more is sent.
func (w *wire) CloseWrite() error { return closeWrite(w.Conn) }

// Close ends the connection at once and removes it from its listener's.
func (w *wire) Close() error {
	if w.conn.closed.CompareAndSwap(false, true) {
		w.conn.listener.remove(w.conn)
		discardReceived(w.Conn)
		w.conn.watch.set(func(w *watch) { w.closed = true })
	}
	return w.Conn.Close()
}

// discardReceived reads what has come and nobody has read, without waiting: net/http
// leaves the rest of a request that it refuses. The kernel would answer these bytes with a
// reset, which can keep the peer from reading the last answer (RFC 9112, section 9.6).
func discardReceived(c net.Conn) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // Read would wait for a read under way
		b := make([]byte, 4<<10)
		for range 8 {
			if n, err := syscall.Read(int(fd), b); n <= 0 || err != nil {
				return
			}
		}
	})
}
