package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// recordBytes is room for the records of one response.
const recordBytes = 32 << 10

// handshake is false where the connection is not served here any more.
func (c *conn) handshake() bool {
	l := c.listener
	if c.stream = c.Conn; l.opts.TLS == nil {
		return true
	}
	c.records = &recordBuffer{Conn: c.Conn, pool: &l.buffers}
	over := tls.Server(c.records, l.opts.TLS)
	if l.server.ReadHeaderTimeout > 0 {
		_ = c.SetDeadline(time.Now().Add(l.server.ReadHeaderTimeout))
	}
	if err := over.Handshake(); err != nil {
		l.log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), answerClearText(err))
		_ = c.Close()
		return false
	}
	c.stream = over
	if over.ConnectionState().NegotiatedProtocol == "h2" {
		c.deliver(over)
		return false
	}
	_ = c.SetDeadline(time.Time{})
	return true
}

// answerClearText responds to clear-text HTTP on a TLS port, like net/http, and returns why the
// handshake failed.
func answerClearText(err error) error {
	e, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || e.Conn == nil {
		return err
	}
	if isPROXY(e.RecordHeader[:]) {
		return errors.New("PROXY protocol: " + noPROXY)
	}
	switch string(e.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(e.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		return errors.New("client sent an HTTP request to an HTTPS server")
	}
	return err
}

// recordBuffer collects the TLS records of one response, so that they leave with one system call.
type recordBuffer struct {
	net.Conn
	pool   *sync.Pool
	buffer *[]byte // nil: records are written at once
}

func (s *recordBuffer) Write(p []byte) (int, error) {
	if s.buffer == nil {
		return s.Conn.Write(p)
	}
	if len(*s.buffer)+len(p) > cap(*s.buffer) {
		if err := s.flush(); err != nil || len(p) > cap(*s.buffer) {
			return 0, errors.Join(err, io.ErrShortBuffer) // no record is that long
		}
	}
	*s.buffer = append(*s.buffer, p...)
	return len(p), nil
}

func (s *recordBuffer) flush() error {
	_, err := s.Conn.Write(*s.buffer)
	*s.buffer = (*s.buffer)[:0]
	return err
}

// send writes a response through TLS. How much of a body arrived is not known after an error.
func (s *recordBuffer) send(over net.Conn, head, body []byte) (n int, err error) {
	s.buffer = s.pool.Get().(*[]byte)
	if _, err = over.Write(head); err == nil && len(body) > 0 {
		n, err = over.Write(body)
	}
	if err == nil {
		err = s.flush()
	}
	*s.buffer = (*s.buffer)[:0]
	s.pool.Put(s.buffer)
	if s.buffer = nil; err != nil {
		n = 0
	}
	return n, err
}

// NetConn is for users of the connection underneath.
func (s *recordBuffer) NetConn() net.Conn { return s.Conn }

// prefixedTLS is prefixed under TLS, which http.Server knows by this method.
type prefixedTLS struct {
	*prefixed
	over *tls.Conn
}

func (p prefixedTLS) ConnectionState() tls.ConnectionState { return p.over.ConnectionState() }
