package gateway

import (
	"context"
	"net"
	"sync/atomic"

	"inquiry-gateway/internal/testkit/memnet"
)

// network gives the server connections in memory that a test looks into.
type network struct {
	*memnet.Listener
	last atomic.Pointer[watched] // that was accepted
}

// watched is the server's end of a connection.
type watched struct {
	*memnet.Conn
	writes atomic.Int64
	broken atomic.Bool // the next write panics
}

func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w := &watched{Conn: c.(*memnet.Conn)}
	n.last.Store(w)
	return w, nil
}

func (c *watched) Write(p []byte) (int, error) {
	c.writes.Add(1)
	if c.broken.CompareAndSwap(true, false) {
		panic("boom")
	}
	return c.Conn.Write(p)
}

// halfConn is a connection whose writing side can be closed by itself.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// connect gives a caller's end of a new connection.
func (n *network) connect(peer net.Addr) halfConn {
	c, err := n.DialFrom(context.Background(), peer)
	if err != nil {
		panic(err) // the server has been closed
	}
	return c
}
