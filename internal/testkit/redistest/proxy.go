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
	drop     bool      // the next answer
	cutAfter bool      // it
	writes   int       // of all clients
	hook     func(int) // nil: none
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

// BeforeWrite has hook called before the n-th write of the clients reaches the server, counted from 1
// over all connections. It may cut the cable, drop the answer, or wait. Call it before the first client
// connects.
func (p *Proxy) BeforeWrite(hook func(n int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// DropAnswer drops the server's next answer and ends the connection; cut: all connections, as Cut does.
func (p *Proxy) DropAnswer(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop, p.cutAfter = true, cut
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
		p.wg.Go(func() { _, _ = io.Copy(toServer{s, p}, c); p.end(c, s) })
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
	d, drop, cut := l.p.delay, l.p.drop, l.p.cutAfter
	l.p.drop = false
	l.p.mu.Unlock()
	if drop && cut {
		l.p.Cut()
	}
	if drop {
		return 0, io.ErrClosedPipe // the copy ends, and with it both ends
	}
	if d > 0 {
		<-time.After(d)
	}
	return l.Conn.Write(b)
}

// toServer is the server's end.
type toServer struct {
	net.Conn
	p *Proxy
}

func (s toServer) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	s.p.writes++
	n, hook := s.p.writes, s.p.hook
	s.p.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	return s.Conn.Write(b) // fails if hook has cut the cable
}
