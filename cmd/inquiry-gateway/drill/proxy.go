package drill

import (
	"io"
	"net"
	"sync"
)

// proxy is a way to Redis that can be stalled or cut. It is safe for concurrent
// use; close ends all that it runs.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	wg       sync.WaitGroup
	done     chan struct{} // closed at the end

	mu      sync.Mutex
	cut     bool
	stalled bool
	conns   map[net.Conn]struct{}
}

func newProxy(dial func() (net.Conn, error)) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, dial: dial, done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// stall keeps every further answer back: connections stay, and new ones come
// about.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = true
}

// end cuts all connections and refuses new ones.
func (p *proxy) end() {
	_ = p.listener.Close() // a second time says that it is closed
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close() // as above
	}
}

func (p *proxy) close() {
	close(p.done)
	p.end()
	p.wg.Wait()
}

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
		if !p.add(client, server) {
			return
		}
		p.wg.Go(func() { p.pipe(server, client, false) })
		p.wg.Go(func() { p.pipe(client, server, true) })
	}
}

// add remembers two ends, or closes them where it is all over.
func (p *proxy) add(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.cut {
			_ = c.Close() // nobody has used it
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.cut
}

// pipe copies one way until either end is closed, and closes both. Answers may
// be held up.
func (p *proxy) pipe(to, from net.Conn, isAnswer bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if isAnswer && n > 0 {
			p.hold()
		}
		if _, wrong := to.Write(buf[:n]); wrong != nil || err != nil {
			break // io.EOF included: the other end is closed, too
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []io.Closer{to, from} {
		_ = c.Close() // may have been closed by end
	}
	delete(p.conns, to)
	delete(p.conns, from)
}

// hold waits while the proxy is stalled, which is for ever.
func (p *proxy) hold() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled {
		<-p.done
	}
}
