package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readBytes is the largest request that the front reads.
	readBytes = 4 << 10
	// nextBytes of a connection's next request are waited for, as net/http does: fewer of
	// them and then the end are not a bad request, but no request.
	nextBytes = 4
	// answersPerTurn is how many answers one connection gets before others have their turn,
	// for a caller whose next request is always there already.
	answersPerTurn = 64
	// rearmAfter is how old a deadline may be before it is set again.
	rearmAfter = time.Second
	// lingerTime is how long the rest of what a caller sends is read after the last answer:
	// the kernel would answer it with a reset, which can keep the caller from reading that
	// answer (RFC 9112, section 9.6).
	lingerTime = 500 * time.Millisecond
	// evictedSince stands for the moment since when a connection that was closed to make room is
	// idle or busy.
	evictedSince = math.MinInt64
)

// Conn is a connection of a Listener: the socket, with what the table of connections knows
// of it. While the front has it, one goroutine reads, answers and writes. After that
// net/http has it for ever.
type Conn struct {
	net.Conn
	listener *Listener
	peer     netip.AddrPort

	since         atomic.Int64 // when it became idle, Unix nanoseconds; below 0: the negative of when it became busy
	authenticated atomic.Int64 // when somebody did so last, Unix nanoseconds; 0: nobody has
	closed        atomic.Bool
	inFront       atomic.Bool
	timer         *time.Timer // ends the connection of a stranger; guarded by the listener's mutex, nil without a bound

	// For the goroutine of serve.
	stream     net.Conn             // what HTTP is spoken on: this Conn, or TLS over it
	state      *tls.ConnectionState // nil without TLS
	ctx        context.Context      // of its requests
	writeArmed time.Time            // when the deadline of writes was set
	last       bool                 // the answer closes the connection
	held       *[]byte              // records of TLS that wait to be sent together; nil: none wait
	parts      [2][]byte            // of one write, kept here to be allocated once
	vector     net.Buffers
}

// contextKey is of FromContext.
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

// ConnState goes into http.Server.ConnState, so that a Listener knows which of the
// connections that net/http has are idle. It takes no lock.
func ConnState(c net.Conn, state http.ConnState) {
	conn := unwrap(c)
	switch {
	case conn == nil:
	case state == http.StateActive:
		conn.begin(time.Now())
	case state == http.StateIdle:
		conn.setIdle()
	}
}

// unwrap finds the Conn of what net/http has; nil if it is none of a Listener's.
func unwrap(c net.Conn) *Conn {
	for {
		switch over := c.(type) {
		case *Conn:
			return over
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return nil
		}
	}
}

// Peer is the address that the connection of r came from. One of them may be nil.
func (c *Conn) Peer(r *http.Request) netip.AddrPort {
	if c != nil {
		return c.peer
	}
	return parsePeer(r.RemoteAddr)
}

// parsePeer reads an address with its port. The zero AddrPort stands for one that
// cannot be read.
func parsePeer(s string) netip.AddrPort {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()) // no network contains an address with a zone
}

// Secure says whether the connection has TLS.
func (c *Conn) Secure() bool { return c.state != nil }

// Authenticated notes that somebody has authenticated on the connection. From then
// on it may be idle for longer. c may be nil.
func (c *Conn) Authenticated(at time.Time) {
	if c != nil {
		c.authenticated.Store(at.UnixNano())
	}
}

// Stopping says whether the listener stops, so that the next answer is the last one. c may
// be nil.
func (c *Conn) Stopping() bool { return c != nil && c.listener.stopping.Load() }

// begin says that a request is under way; false: the connection was closed to make room.
func (c *Conn) begin(at time.Time) bool {
	since := c.since.Load()
	return since != evictedSince && c.since.CompareAndSwap(since, -at.UnixNano())
}

// setIdle notes that an answer has ended.
func (c *Conn) setIdle() { c.since.Store(time.Now().UnixNano()) }

// evict closes the connection if it is still idle, or busy, since then.
func (c *Conn) evict(since int64) bool {
	return since != evictedSince && c.since.CompareAndSwap(since, evictedSince) && c.Close() == nil
}

// Close closes the socket and removes the connection from its listener's table.
func (c *Conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.remove(c)
		discardReceived(c.Conn)
	}
	return c.Conn.Close()
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
		b := make([]byte, readBytes)
		for range 8 {
			if n, err := syscall.Read(int(fd), b); n <= 0 || err != nil {
				return
			}
		}
	})
}

// CloseWrite says that nothing more is sent. net/http calls it before it closes a
// connection from which it has not read everything.
func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// preface begins a connection of HTTP/2 (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// handed is a connection as net/http gets it from the front: what was read comes again.
type handed struct {
	net.Conn
	first []byte
	// never is what is left of the preface, which net/http would take for the beginning of
	// HTTP/2: after an answer of HTTP/1 it ends the connection. Empty: something else came.
	never string
}

func (h *handed) Read(p []byte) (n int, err error) {
	if n = copy(p, h.first); n > 0 {
		h.first = h.first[n:]
	} else {
		n, err = h.Conn.Read(p)
	}
	for i := 0; i < n && h.never != ""; i++ {
		if p[i] != h.never[0] {
			h.never = ""
		} else if h.never = h.never[1:]; h.never == "" {
			_ = h.Conn.Close()
			return 0, io.EOF
		}
	}
	return n, err
}

func (h *handed) CloseWrite() error { return closeWrite(h.Conn) }
func (h *handed) NetConn() net.Conn { return h.Conn }

// handedTLS is handed with TLS, which net/http tells by this method.
type handedTLS struct {
	*handed
	state *tls.ConnectionState
}

func (h handedTLS) ConnectionState() tls.ConnectionState { return *h.state }

// serve answers on a connection until it ends or has something for net/http.
func (c *Conn) serve() {
	l := c.listener
	defer l.fronts.Done()
	defer c.inFront.Store(false)
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // as net/http does
				l.opts.Log.Printf("http: panic serving %v: %v\n%s", c.RemoteAddr(), p, debug.Stack())
			}
			_ = c.Close()
		}
	}()
	if !c.handshake() {
		return
	}
	var head Head
	in := make([]byte, readBytes)
	armed := time.Now()
	c.waitUntil(armed, l.opts.ReadHeaderTimeout)
	least := 1
	for i := 0; ; i++ {
		n, err := io.ReadAtLeast(c.stream, in, least)
		begin := time.Now()
		if err != nil {
			_ = c.stream.Close()
			return
		}
		least = nextBytes
		if !l.opts.Handler.Enabled() || !head.read(in[:n]) {
			if i == 0 && isPROXY(in[:n]) { // net/http answers 400 and logs nothing
				l.opts.Log.Printf("http: PROXY protocol from %s: %s", c.RemoteAddr(), noPROXY)
			}
			c.handOver(in[:n], i > 0)
			return
		}
		if !c.begin(begin) {
			return
		}
		taken, err := l.opts.Handler.Answer(c, &head, begin)
		c.setIdle()
		switch {
		case err != nil:
			_ = c.Close()
			return
		case !taken:
			c.handOver(in[:n], i > 0)
			return
		case c.last:
			c.linger(in)
			return
		case i == 0 || begin.Sub(armed) >= rearmAfter:
			armed = begin
			c.waitUntil(begin, l.opts.IdleTimeout)
		}
		if c.state != nil || c.writeArmed.IsZero() { // TLS may have to write while it reads, whenever that is
			_, c.writeArmed = c.SetWriteDeadline(time.Time{}), time.Time{}
		}
		if i%answersPerTurn == answersPerTurn-1 {
			runtime.Gosched()
		}
	}
}

// noPROXY says what to do instead.
const noPROXY = "it is not supported; turn it off, let the proxy set X-Forwarded-For, and name the proxy in gateway.trusted_proxies"

// isPROXY says whether a connection begins as in version 1 or 2 of the PROXY protocol. Five bytes tell:
// as many as begin a record of TLS.
func isPROXY(first []byte) bool {
	return bytes.HasPrefix(first, []byte("PROXY")) || bytes.HasPrefix(first, []byte("\r\n\r\n\x00"))
}

// waitUntil bounds the wait for the next request; zero: it is not bounded. A listener that
// stops waits no longer than settleTime.
func (c *Conn) waitUntil(from time.Time, d time.Duration) {
	if d > 0 {
		_ = c.SetReadDeadline(from.Add(d))
	} else {
		_ = c.SetReadDeadline(time.Time{})
	}
	if c.listener.stopping.Load() {
		_ = c.SetReadDeadline(time.Now().Add(settleTime))
	}
}

// handshake does that of TLS, where there is TLS. False: the connection is not the front's
// any more.
func (c *Conn) handshake() bool {
	l := c.listener
	if l.tls == nil {
		c.stream = c
		return true
	}
	conn := tls.Server(c, l.tls)
	if l.opts.ReadHeaderTimeout > 0 {
		_ = c.SetDeadline(time.Now().Add(l.opts.ReadHeaderTimeout))
	}
	if err := conn.Handshake(); err != nil {
		if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && isPROXY(e.RecordHeader[:]) {
			err = errors.New("PROXY protocol: " + noPROXY)
		}
		l.opts.Log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), refuseClearText(err))
		_ = c.Close()
		return false
	}
	_ = c.SetDeadline(time.Time{})
	state := conn.ConnectionState()
	c.stream, c.state = conn, &state
	if state.NegotiatedProtocol == "h2" { // net/http needs it as it is
		c.inFront.Store(false)
		l.give(conn, nil)
		return false
	}
	return true
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

// handOver gives net/http the connection with what was read, for ever.
func (c *Conn) handOver(first []byte, answered bool) {
	_ = c.SetDeadline(time.Time{})
	h := &handed{Conn: c.stream, first: first}
	if answered {
		h.never = preface
	}
	c.inFront.Store(false)
	if c.state != nil {
		c.listener.give(handedTLS{h, c.state}, nil)
	} else {
		c.listener.give(h, nil)
	}
}

// linger closes the connection after the last answer.
func (c *Conn) linger(in []byte) {
	if closeWrite(c.stream) == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		for total := 0; total < 16*readBytes; {
			n, err := c.stream.Read(in)
			if total += n; err != nil {
				break
			}
		}
	}
	_ = c.stream.Close()
}

// WriteWithin bounds the answer that begins now; zero: it may take as long as it takes.
func (c *Conn) WriteWithin(now time.Time, d time.Duration) {
	if d > 0 && now.Sub(c.writeArmed) >= rearmAfter {
		c.writeArmed = now
		_ = c.SetWriteDeadline(now.Add(d))
	}
}

// WriteBy bounds the answer that begins now more tightly. The next one has a deadline of its
// own.
func (c *Conn) WriteBy(at time.Time) {
	c.writeArmed = time.Time{}
	_ = c.SetWriteDeadline(at)
}

// Send writes one whole answer with one call of the kernel's: its head, which ends with an
// empty line, and its body, of which it gives how many bytes were sent. last: the answer
// closes the connection.
func (c *Conn) Send(head, body []byte, last bool) (int, error) {
	c.last = last
	if c.state == nil {
		c.parts = [2][]byte{head, body}
		if c.vector = c.parts[:]; len(body) == 0 {
			c.vector = c.parts[:1]
		}
		n, err := c.vector.WriteTo(c.Conn)
		c.parts = [2][]byte{} // the body belongs to the cache
		return max(0, int(n)-len(head)), err
	}
	c.held = c.listener.sealed.Get().(*[]byte)
	_, err := c.stream.Write(head)
	n := 0
	if err == nil && len(body) > 0 {
		n, err = c.stream.Write(body)
	}
	if err == nil {
		_, err = c.Conn.Write(*c.held)
	}
	*c.held = (*c.held)[:0]
	c.listener.sealed.Put(c.held)
	c.held = nil
	if err != nil {
		n = 0 // what was sent of the records is not known
	}
	return n, err
}

// Write implements net.Conn. Records of TLS wait for the others of their answer, as far as
// there is room: what is kept here is sealed.
func (c *Conn) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if len(*c.held)+len(p) > cap(*c.held) {
		_, err := c.Conn.Write(*c.held)
		if *c.held = (*c.held)[:0]; err != nil || len(p) > cap(*c.held) {
			n := 0
			if err == nil {
				n, err = c.Conn.Write(p)
			}
			return n, err
		}
	}
	*c.held = append(*c.held, p...)
	return len(p), nil
}

// Context is that of the requests on the connection.
func (c *Conn) Context() context.Context {
	if c.ctx == nil {
		c.ctx = context.WithValue(ConnContext(context.Background(), c), http.LocalAddrContextKey, c.LocalAddr())
	}
	return c.ctx
}
