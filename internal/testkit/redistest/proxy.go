package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a cable to a server that can be cut for one client alone. It is safe
// for concurrent use and ends with the test.
type Proxy struct {
	Addr string // what the client connects to

	target   string
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	cut      bool
	delay    time.Duration
	conns    map[net.Conn]struct{}
}

// NewProxy starts a proxy to the address.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut ends all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Mend undoes Cut for new connections.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Delay makes every answer of the server late, from the next one on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// accept connects each client with the server, unless the cable is cut.
func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil { // a server that is down looks like a cable that is cut
			_ = c.Close()
			continue
		}
		if !p.add(c, s) {
			p.end(c, s)
			continue
		}
		p.wg.Go(func() { _, _ = io.Copy(late{c, p}, s); p.end(c, s) })
		p.wg.Go(func() { _, _ = io.Copy(s, c); p.end(c, s) })
	}
}

// add keeps the two ends, so that Cut finds them. False: the cable is cut.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return !p.cut
}

// end closes both ends when either has closed.
func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// late is the client's end: what is written to it waits first.
type late struct {
	net.Conn
	p *Proxy
}

func (l late) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	d := l.p.delay
	l.p.mu.Unlock()
	if d > 0 {
		<-time.After(d)
	}
	return l.Conn.Write(b)
}
