package drill

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// proxy is a way to Redis that can be stalled or cut. It is safe for concurrent
// use; close ends all that it runs.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	stalled  atomic.Bool
	open     context.Context // ends when all connections are cut
	cut      context.CancelFunc
	wg       sync.WaitGroup
}

// newProxy listens on a free port; dial reaches the Redis behind it.
func newProxy(dial func() (net.Conn, error)) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, dial: dial}
	p.open, p.cut = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// addr is where the gateway finds its Redis.
func (p *proxy) addr() string { return p.listener.Addr().String() }

// stall keeps every further answer back: connections stay, and new ones come
// about.
func (p *proxy) stall() { p.stalled.Store(true) }

// end cuts all connections and refuses new ones.
func (p *proxy) end() {
	_ = p.listener.Close() // a second time says that it is closed
	p.cut()
}

// close waits until nothing of the proxy runs any more.
func (p *proxy) close() {
	p.end()
	p.wg.Wait()
}

// accept joins each connection with one to Redis, until end closes the listener.
func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close() // Redis is away, which is what the client should see
			continue
		}
		both := sync.OnceFunc(func() { _, _ = client.Close(), server.Close() }) // nobody needs them any more
		stop := context.AfterFunc(p.open, both)
		p.wg.Go(func() { defer both(); _, _ = io.Copy(server, client) }) // any error ends both
		p.wg.Go(func() { defer stop(); defer both(); p.answer(client, server) })
	}
}

// answer copies what Redis says until either end is closed, or, while the proxy is
// stalled, until the connections are cut.
func (p *proxy) answer(client io.Writer, server io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := server.Read(buf)
		if p.stalled.Load() && n > 0 {
			<-p.open.Done()
			return
		}
		if _, wrong := client.Write(buf[:n]); wrong != nil || err != nil {
			return
		}
	}
}
