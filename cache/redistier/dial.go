package redistier

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialer connects for go-redis, over TLS with a configuration. It never fails:
// where there is no connection it returns one on which every call fails.
// go-redis counts failed dials, and after as many as its pool is large it tries
// no more than once a second; a node whose Redis is back must not wait for
// that.
func dialer(config *tls.Config, timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	dial := plain.DialContext
	if config != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return orBroken(dial(ctx, network, addr))
	}
}

func orBroken(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return brokenConn{err}, nil
	}
	return c, nil
}

// brokenConn is a connection that did not come about.
type brokenConn struct{ err error }

func (c brokenConn) Read([]byte) (int, error)         { return 0, c.err }
func (c brokenConn) Write([]byte) (int, error)        { return 0, c.err }
func (c brokenConn) Close() error                     { return nil }
func (c brokenConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c brokenConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c brokenConn) SetDeadline(time.Time) error      { return nil }
func (c brokenConn) SetReadDeadline(time.Time) error  { return nil }
func (c brokenConn) SetWriteDeadline(time.Time) error { return nil }
