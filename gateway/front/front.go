// Package front serves plain GET requests over HTTP/1.1 for less CPU than http.Server needs:
// one read, one call of the handler, one write. A connection on which anything else arrives is
// handed to the http.Server for the rest of its lifetime, with the bytes read so far, so the
// handler serves every request and cannot tell the two apart by what it has to answer.
//
// The http.Request and its header map are reused by the connection that they came on. A handler
// must not keep or change them, must not read a body (there is none), and must write its
// response's body with one Write.
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Listener.
type Options struct {
	// Serves reports whether requests for a path are served here; all others are the http.Server's.
	// It is called for each request. Nil: none is.
	Serves func(path string) bool
	// Fields are the header fields that the handler reads, in canonical form. Others are checked and
	// dropped.
	Fields []string
	// TLS terminates TLS on each connection; nil means clear text. The http.Server must not do so.
	TLS *tls.Config
}

// Listener is what an http.Server accepts its connections from. It is safe for concurrent use.
type Listener struct {
	net.Listener
	server  *http.Server
	opts    Options
	log     *log.Logger
	buffers sync.Pool // of *[]byte, see recordBuffer

	start      sync.Once
	accepted   chan accepted
	done       chan struct{} // closed by Close
	closeDone  func()
	closeInner func() error
	stopping   atomic.Bool
	serving    sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]bool // that are served here; true: handed to the http.Server
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// NewListener serves connections of l with the handler, ConnContext, timeouts and ErrorLog of s.
// Accept returns those that s has to serve.
func NewListener(l net.Listener, s *http.Server, opts Options) *Listener {
	out := &Listener{
		Listener: l, server: s, opts: opts, log: s.ErrorLog,
		buffers:  sync.Pool{New: func() any { return new(make([]byte, 0, recordBytes)) }},
		accepted: make(chan accepted), done: make(chan struct{}), conns: map[*conn]bool{},
	}
	if out.log == nil {
		out.log = log.New(io.Discard, "", 0)
	}
	out.closeInner, out.closeDone = sync.OnceValue(l.Close), sync.OnceFunc(func() { close(out.done) })
	return out
}

// Accept waits for the next connection for the http.Server.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.acceptAll() })
	select {
	case next := <-l.accepted:
		return next.conn, next.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *Listener) acceptAll() {
	for {
		inner, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.deliver(nil, err) // http.Server waits before it accepts again
			continue
		}
		c := &conn{Conn: inner, listener: l}
		if !l.track(c) {
			_ = inner.Close()
			continue
		}
		go c.serve()
	}
}

// deliver makes Accept return a connection, or closes it once the Listener is closed.
func (l *Listener) deliver(c net.Conn, err error) {
	select {
	case l.accepted <- accepted{c, err}:
	case <-l.done:
		if c != nil {
			_ = c.Close()
		}
	}
}

// track is false once the Listener stops.
func (l *Listener) track(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping.Load() {
		return false
	}
	l.conns[c] = false
	l.serving.Add(1)
	return true
}

func (l *Listener) untrack(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.serving.Done()
}

// stop accepts no more connections and calls do for each that is served here. busy tells whether there are some, or some
// that the http.Server has not accepted yet.
func (l *Listener) stop(do func(*conn)) (busy bool, err error) {
	err = l.closeInner()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping.Store(true)
	for c, handed := range l.conns {
		if !handed {
			do(c)
		}
	}
	return len(l.conns) > 0, err
}

// Close closes the listener and the connections that are served here. It may be called again.
func (l *Listener) Close() error {
	_, err := l.stop(func(c *conn) { _ = c.Conn.Close() })
	l.closeDone()
	return err
}

// Shutdown accepts no more connections, closes the idle ones that are served here, and waits for
// the others to finish their response. When ctx ends it closes them and returns ctx's error. Call
// it before Shutdown of the http.Server, which serves the connections handed to it meanwhile.
func (l *Listener) Shutdown(ctx context.Context) error {
	busy, err := l.stop(func(c *conn) { _ = c.SetReadDeadline(time.Now()) })
	if busy { // otherwise nothing is cut off, even if ctx has ended
		served := make(chan struct{})
		go func() { l.serving.Wait(); close(served) }()
		select {
		case <-served:
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
	}
	return errors.Join(err, l.Close())
}
