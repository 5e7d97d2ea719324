package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// maxRequest is the size of the largest request that is served here, in bytes.
	maxRequest = 4 << 10
	// nextBytes is how many bytes of the next request to wait for. Like http.Server, a client that
	// closes earlier counts as having sent no request.
	nextBytes = 4
	// responsesPerTurn is how many responses a connection gets before it yields to others, for a
	// client whose next request has always arrived already.
	responsesPerTurn = 64
	// lingerTime is how long the rest of what a client sends is read after the last response: the
	// kernel would answer it with a reset, which can destroy that response (RFC 9112, section 9.6).
	lingerTime = 500 * time.Millisecond
)

// conn is a connection while it is served here, by one goroutine.
type conn struct {
	net.Conn
	listener *Listener
	stream   net.Conn      // carries HTTP: Conn, or TLS over it
	raw      net.Conn      // the socket: net.Buffers writes to nothing else with one system call
	records  *recordBuffer // under TLS; nil without
	request  parser
	response response
	reading  deadline
	writing  deadline
	parts    [2][]byte // of one response, kept here to be allocated once
	vector   net.Buffers
}

// preface begins a connection of HTTP/2 (RFC 9113, section 3.4).
var preface = []byte("PRI * HTTP/2.0\r\n\r\n")

// deadline sets a deadline of a connection only where it is earlier than the last one or more than
// a second later: setting it for each request costs a tenth of a response.
type deadline struct{ armed time.Time }

func (d *deadline) set(at time.Time, set func(time.Time) error) {
	if diff := at.Sub(d.armed); diff < 0 || diff > time.Second {
		d.armed = at
		_ = set(at)
	}
}

// serve serves requests until the connection ends or is handed to the http.Server.
func (c *conn) serve() {
	l := c.listener
	defer l.untrack(c)
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // as net/http does
				l.log.Printf("http: panic serving %v: %v\n%s", c.RemoteAddr(), p, debug.Stack())
			}
			_ = c.Close()
		}
	}()
	if !c.handshake() {
		return
	}
	c.prepare()
	in := make([]byte, maxRequest)
	c.arm(time.Now(), l.server.ReadHeaderTimeout)
	for i, least := 0, 1; !l.stopping.Load(); i, least = i+1, nextBytes {
		n, err := io.ReadAtLeast(c.stream, in, least)
		if err != nil {
			break
		}
		now := time.Now()
		if i > 0 && bytes.HasPrefix(in[:n], preface) {
			break // http.Server would take the connection for a new one, and start HTTP/2
		}
		if !c.request.parse(in[:n]) || l.opts.Serves == nil || !l.opts.Serves(c.request.url.Path) {
			if i == 0 && isPROXY(in[:n]) { // net/http answers 400 and logs nothing
				l.log.Printf("http: PROXY protocol from %s: %s", c.RemoteAddr(), noPROXY)
			}
			c.handOver(in[:n])
			return
		}
		if l.server.WriteTimeout > 0 {
			_ = c.response.SetWriteDeadline(now.Add(l.server.WriteTimeout))
		}
		c.response.reset()
		l.server.Handler.ServeHTTP(&c.response, c.request.take())
		if err := c.response.finish(); err != nil {
			break
		}
		if c.response.last {
			c.linger(in)
			break
		}
		if c.records != nil { // TLS may have to write while it reads, whenever that is
			c.writing = deadline{}
			_ = c.SetWriteDeadline(time.Time{})
		}
		c.arm(now, l.server.IdleTimeout)
		if i%responsesPerTurn == responsesPerTurn-1 {
			runtime.Gosched()
		}
	}
	_ = c.stream.Close()
}

// noPROXY says what to do instead.
const noPROXY = "it is not supported; turn it off, let the proxy set X-Forwarded-For, and name the proxy in gateway.trusted_proxies"

// isPROXY says whether a connection begins as in version 1 or 2 of the PROXY protocol. Five bytes tell:
// as many as begin a record of TLS.
func isPROXY(first []byte) bool {
	return bytes.HasPrefix(first, []byte("PROXY")) || bytes.HasPrefix(first, []byte("\r\n\r\n\x00"))
}

// prepare makes what all requests of the connection share.
func (c *conn) prepare() {
	server := c.listener.server
	ctx := context.WithValue(context.WithValue(context.Background(), http.ServerContextKey, server), http.LocalAddrContextKey, c.LocalAddr())
	if server.ConnContext != nil {
		ctx = server.ConnContext(ctx, c.stream)
	}
	template := (&http.Request{Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: c.RemoteAddr().String()}).WithContext(ctx)
	if over, ok := c.stream.(*tls.Conn); ok {
		state := over.ConnectionState()
		template.TLS = &state
	}
	c.request.init(template, c.listener.opts.Fields)
	c.response.conn = c
	c.raw = c.Conn
	for {
		over, ok := c.raw.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c.raw = over.NetConn()
	}
}

// arm bounds the wait for the next request; zero means no bound. A Shutdown that began before is noticed
// at the caller's next check of stopping; one that begins later sets a deadline of its own.
func (c *conn) arm(now time.Time, d time.Duration) {
	if d > 0 {
		c.reading.set(now.Add(d), c.SetReadDeadline)
	} else if !c.reading.armed.IsZero() {
		c.reading.armed = time.Time{}
		_ = c.SetReadDeadline(time.Time{})
	}
}

// handOver gives the http.Server the connection with what has been read from it.
func (c *conn) handOver(read []byte) {
	p := &prefixed{Conn: c.stream, prefix: read}
	if over, ok := c.stream.(*tls.Conn); ok {
		c.deliver(prefixedTLS{p, over})
	} else {
		c.deliver(p)
	}
}

// deliver gives the http.Server a connection that has no deadline, and gets none by a Shutdown.
func (c *conn) deliver(carrier net.Conn) {
	c.listener.mu.Lock()
	c.listener.conns[c] = true
	c.listener.mu.Unlock()
	_ = c.SetDeadline(time.Time{})
	c.listener.deliver(carrier, nil)
}

// send writes a response with one system call and returns how many bytes of the body were sent.
func (c *conn) send(head, body []byte) (int, error) {
	if c.records != nil {
		return c.records.send(c.stream, head, body)
	}
	c.parts = [2][]byte{head, body}
	if c.vector = c.parts[:]; len(body) == 0 {
		c.vector = c.parts[:1]
	}
	n, err := c.vector.WriteTo(c.raw)
	c.parts = [2][]byte{} // the body belongs to the handler
	return max(0, int(n)-len(head)), err
}

// linger waits for the client to close the connection after the last response.
func (c *conn) linger(in []byte) {
	if closeWrite(c.stream) != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	for total := 0; total < 16*maxRequest; {
		n, err := c.stream.Read(in)
		if total += n; err != nil {
			return
		}
	}
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// prefixed is a connection from which some bytes have been read already.
type prefixed struct {
	net.Conn
	prefix []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.prefix)
	p.prefix = p.prefix[n:]
	return n, nil
}

// CloseWrite is for http.Server, which calls it before it closes a connection that it has not read
// to the end.
func (p *prefixed) CloseWrite() error { return closeWrite(p.Conn) }

// NetConn is the connection that p reads from.
func (p *prefixed) NetConn() net.Conn { return p.Conn }
