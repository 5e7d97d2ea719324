package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// secureListener accepts connections with TLS whose handshake is done, so that
// net/http can be given what stands above TLS. HTTP/2 is left to net/http as a
// tls.Conn. Handshakes run side by side; each is a connection that counts, and is
// bounded in time.
type secureListener struct {
	*Listener
	config  *tls.Config
	timeout time.Duration // of a handshake
	log     *log.Logger
	start   sync.Once
	ready   chan accepted
	wg      sync.WaitGroup // of handshakes
	life    context.Context
	end     context.CancelFunc
}

// accepted is a connection whose handshake is done, or why none came.
type accepted struct {
	conn net.Conn
	err  error
}

// Secure is l with TLS. A handshake may take timeout. One that fails is logged as
// net/http would.
func (l *Listener) Secure(config *tls.Config, timeout time.Duration, log *log.Logger) net.Listener {
	s := &secureListener{Listener: l, config: config, timeout: timeout, log: log, ready: make(chan accepted)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Accept waits for the next connection whose handshake is done. After Close it gives
// those under way before it ends.
func (s *secureListener) Accept() (net.Conn, error) {
	s.start.Do(func() { go s.run() })
	next, ok := <-s.ready
	if !ok {
		return nil, net.ErrClosed
	}
	return next.conn, next.err
}

// Close takes no more connections. Handshakes under way have the time that Settle
// gives to the first requests.
func (s *secureListener) Close() error {
	time.AfterFunc(settleTime, s.end)
	return s.Listener.Close()
}

// run accepts until the listener is closed, and then waits for the handshakes under
// way.
func (s *secureListener) run() {
	defer close(s.ready)
	defer s.wg.Wait()
	for {
		c, err := s.Listener.Accept()
		switch {
		case err == nil:
			s.wg.Go(func() { s.handshake(c.(*Conn)) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.give(accepted{err: err}) // net/http waits before it asks again
		}
	}
}

// give is false where nobody will take it.
func (s *secureListener) give(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.life.Done():
		return false
	}
}

// handshake hands the connection on, or closes it.
func (s *secureListener) handshake(c *Conn) {
	conn := tls.Server(&c.wire, s.config)
	defer func() {
		if p := recover(); p != nil {
			s.log.Printf("http: panic serving %v: %v\n%s", c.RemoteAddr(), p, debug.Stack())
			_ = c.wire.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(s.life, s.timeout)
	defer cancel()
	_ = c.SetDeadline(time.Now().Add(s.timeout))
	if err := conn.HandshakeContext(ctx); err != nil {
		s.log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), refuseClearText(err))
		_ = c.wire.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	c.Conn = conn
	next := accepted{conn: secureConn{c}}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		next.conn = conn
	}
	if !s.give(next) {
		_ = c.wire.Close()
	}
}

// refuseClearText answers a caller who speaks HTTP where TLS is due, in the way of
// net/http, and says why a handshake failed.
func refuseClearText(err error) string {
	e, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || e.Conn == nil {
		return err.Error()
	}
	switch string(e.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(e.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		return "client sent an HTTP request to an HTTPS server"
	}
	return err.Error()
}
