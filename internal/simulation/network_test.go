package simulation

import (
	"context"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// network joins hosts by name. What a host sends arrives after the latency of its way, in
// order. It is safe for concurrent use, and waits by channels and timers only, so that
// virtual time goes on. One mutex guards the network, its connections and their pipes.
type network struct {
	seed uint64
	sent func(way, []byte) // is called with all that is sent, when it is

	mu    sync.Mutex
	hosts map[string]*listener // by address
	ways  map[way]condition
	far   map[string]time.Duration // what is sent to a host takes so much longer
	pipes []*pipe
	dials map[way]uint64
	gone  map[string]bool // hosts that have crashed: what is left of a process sends to nobody
}

// way is one direction between two hosts.
type way struct{ from, to string }

// condition is how a way is. What was sent on one that was cut arrives when it heals.
type condition struct {
	cut  bool
	slow time.Duration // on top of the latency
}

func newNetwork(seed uint64) *network {
	return &network{seed: seed, sent: func(way, []byte) {}, hosts: map[string]*listener{}, ways: map[way]condition{}, far: map[string]time.Duration{}, dials: map[way]uint64{}, gone: map[string]bool{}}
}

// rngOf is the generator of an actor: a number of the seed and its name.
func rngOf(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// listen opens an address of a host. Who listens on it already is replaced.
func (n *network) listen(host, address string) *listener {
	l := &listener{net: n, host: host, address: address, queue: make(chan *conn, 1024), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if before := n.hosts[address]; before != nil {
		before.end()
	}
	n.hosts[address] = l
	return l
}

func (n *network) set(w way, c condition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways[w] = c
	for _, p := range n.pipes {
		if p.way == w {
			p.signal()
		}
	}
}

// crash ends all connections of a host. silently: the others are not told, as if its
// machine had lost its power.
func (n *network) crash(host string, silently bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone[host] = true
	for address, l := range n.hosts {
		if l.host == host {
			delete(n.hosts, address)
			l.end()
		}
	}
	for _, p := range n.pipes {
		switch {
		case p.way.from == host && silently:
			p.lost, p.segments = true, nil
		case p.way.from == host, p.way.to == host:
			p.end(syscall.ECONNRESET, true)
		}
	}
}

// dialer opens connections of a host.
func (n *network) dialer(host string) func(ctx context.Context, _, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := n.dial(ctx, host, address)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		return c, nil
	}
}

func (n *network) dial(ctx context.Context, host, address string) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, to := n.hosts[address], address
	if l != nil {
		to = l.host
	}
	there, back := way{host, to}, way{to, host}
	n.dials[there]++
	rng := rngOf(n.seed^n.dials[there], host+">"+address)
	for n.ways[there].cut || n.ways[back].cut { // the first packet is lost, and sent again
		if n.wait(ctx, 50*time.Millisecond) != nil {
			return nil, os.ErrDeadlineExceeded
		}
	}
	if n.wait(ctx, latency(rng)+n.slow(there)) != nil {
		return nil, os.ErrDeadlineExceeded
	}
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	return n.join(l, there, rng)
}

func (n *network) move(host string, far time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.far[host] = far
}

// slow is what a way takes on top of the latency. The caller holds mu.
func (n *network) slow(w way) time.Duration { return n.ways[w].slow + n.far[w.to] }

// wait is sleep without the mutex.
func (n *network) wait(ctx context.Context, d time.Duration) error {
	n.mu.Unlock()
	defer n.mu.Lock()
	return sleep(ctx, d)
}

// join makes a connection. The caller holds mu.
func (n *network) join(l *listener, there way, rng *rand.Rand) (*conn, error) {
	pipe := func(w way) *pipe {
		return &pipe{net: n, way: w, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), wake: make(chan struct{}, 1)}
	}
	a, b := pipe(there), pipe(way{there.to, there.from})
	select {
	case <-l.closed:
		return nil, syscall.ECONNREFUSED
	case l.queue <- &conn{in: a, out: b, peer: addressOf(there.from)}:
		n.pipes = append(n.pipes, a, b)
		return &conn{in: b, out: a, peer: l.Addr()}, nil
	}
}

func latency(rng *rand.Rand) time.Duration {
	return 100*time.Microsecond + time.Duration(rng.ExpFloat64()*float64(200*time.Microsecond))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pipe is one direction of a connection. Its methods' callers hold the network's mu.
type pipe struct {
	net  *network
	way  way
	rng  *rand.Rand
	wake chan struct{} // capacity 1: the reader has to look again

	segments []segment
	last     time.Time // arrival of the last segment
	ended    error     // what the reader gets after the segments
	lost     bool      // nothing arrives any more, and nobody is told
	closed   bool      // by its reader
	deadline time.Time // of its reader
}

type segment struct {
	at   time.Time
	data []byte
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// end tells the reader that no more comes. now: what is on its way is lost.
func (p *pipe) end(err error, now bool) {
	if p.ended == nil {
		p.ended = err
	}
	if now {
		p.segments = nil
	}
	p.signal()
}

// take reads what has arrived; else wait says when to look again, 0 for never.
func (p *pipe) take(b []byte, now time.Time) (n int, wait time.Duration, err error) {
	if p.closed {
		return 0, 0, net.ErrClosed
	}
	if !p.deadline.IsZero() {
		if wait = p.deadline.Sub(now); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	if p.lost || p.net.ways[p.way].cut {
		return 0, wait, nil
	}
	if len(p.segments) == 0 {
		return 0, wait, p.ended
	}
	s := &p.segments[0]
	if left := s.at.Sub(now); left > 0 {
		if wait == 0 || left < wait {
			wait = left
		}
		return 0, wait, nil
	}
	n = copy(b, s.data)
	if s.data = s.data[n:]; len(s.data) == 0 {
		p.segments = p.segments[1:]
	}
	return n, 0, nil
}

var _ net.Conn = (*conn)(nil)

// conn is one end of a connection.
type conn struct {
	in, out *pipe
	peer    net.Addr
	timer   *time.Timer // of the reader: there is one at a time
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.in.net.mu.Lock()
		n, wait, err := c.in.take(b, time.Now())
		c.in.net.mu.Unlock()
		switch {
		case n > 0 || err != nil:
			return n, err
		case wait == 0:
			<-c.in.wake
		default:
			if c.timer == nil {
				c.timer = time.NewTimer(wait)
			} else {
				c.timer.Reset(wait)
			}
			select {
			case <-c.in.wake:
				c.timer.Stop()
			case <-c.timer.C:
			}
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	p := c.out
	p.net.mu.Lock()
	gone := p.net.gone[p.way.from]
	p.net.mu.Unlock()
	if !gone {
		p.net.sent(p.way, b)
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	switch {
	case c.in.closed:
		return 0, net.ErrClosed
	case p.ended != nil:
		return 0, syscall.EPIPE
	}
	s := segment{time.Now().Add(latency(p.rng) + p.net.slow(p.way)), slices.Clone(b)}
	if s.at.Before(p.last) {
		s.at = p.last
	}
	p.last = s.at
	p.segments = append(p.segments, s)
	p.signal()
	return len(b), nil
}

// CloseWrite ends what this side sends, and goes on reading.
func (c *conn) CloseWrite() error {
	c.out.net.mu.Lock()
	defer c.out.net.mu.Unlock()
	c.out.end(io.EOF, false)
	return nil
}

func (c *conn) Close() error {
	n := c.out.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.in.closed {
		return net.ErrClosed
	}
	c.in.closed = true
	c.out.end(io.EOF, false)
	c.in.end(net.ErrClosed, true)
	n.pipes = slices.DeleteFunc(n.pipes, func(p *pipe) bool { return p == c.in })
	return nil
}

func (c *conn) LocalAddr() net.Addr           { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (c *conn) RemoteAddr() net.Addr          { return c.peer }
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.net.mu.Lock()
	defer c.in.net.mu.Unlock()
	c.in.deadline = t
	c.in.signal()
	return nil
}

// SetWriteDeadline does nothing: a write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// addressOf gives each host an address of its own.
func addressOf(host string) net.Addr {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	s := h.Sum32()
	return &net.TCPAddr{IP: net.IPv4(10, byte(s>>16), byte(s>>8), byte(s)), Port: 40000}
}

// listener is an open address.
type listener struct {
	net           *network
	host, address string
	queue         chan *conn
	closed        chan struct{}
	once          sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if l.net.hosts[l.address] == l {
		delete(l.net.hosts, l.address)
	}
	l.end()
	return nil
}

func (l *listener) end() { l.once.Do(func() { close(l.closed) }) }

// Addr is the same for all that listen on an address one after the other.
func (l *listener) Addr() net.Addr { return addressOf(l.address) }
