package simulation

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network joins hosts by name. What a host sends arrives after the latency of its
// way, in order. It is safe for concurrent use, and waits by channels and timers
// only, so that virtual time goes on.
type network struct {
	seed uint64
	sent func(way, []byte) // is told of all that is sent, when it is

	mu    sync.Mutex
	hosts map[string]*listener // by address
	ways  map[way]*condition
	pipes []*pipe
	dials map[way]uint64
}

// way is one direction between two hosts.
type way struct{ from, to string }

// condition is how a way is.
type condition struct {
	cut  bool
	slow time.Duration // on top of the latency
}

func newNetwork(seed uint64) *network {
	return &network{seed: seed, sent: func(way, []byte) {}, hosts: map[string]*listener{}, ways: map[way]*condition{}, dials: map[way]uint64{}}
}

// rngOf is the generator of an actor: a number of the seed and its name.
func rngOf(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// listen opens an address of a host. A host that listens on it already is replaced.
func (n *network) listen(host, address string) *listener {
	l := &listener{host: host, network: n, address: address, queue: make(chan *conn, 1024), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if before := n.hosts[address]; before != nil {
		before.close()
	}
	n.hosts[address] = l
	return l
}

// set changes a way. What was sent on one that was cut arrives when it heals.
func (n *network) set(w way, c condition) {
	n.mu.Lock()
	n.ways[w] = &c
	pipes := slices.Clone(n.pipes)
	n.mu.Unlock()
	for _, p := range pipes {
		if p.way == w {
			p.signal()
		}
	}
}

func (n *network) condition(w way) condition {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.ways[w]; c != nil {
		return *c
	}
	return condition{}
}

// crash ends all connections of a host. silently: the others are not told, as if
// its machine had lost its power.
func (n *network) crash(host string, silently bool) {
	n.mu.Lock()
	for address, l := range n.hosts {
		if l.host == host {
			delete(n.hosts, address)
			l.close()
		}
	}
	pipes := slices.Clone(n.pipes)
	n.mu.Unlock()
	for _, p := range pipes {
		switch {
		case p.way.to == host:
			p.end(syscall.ECONNRESET, true)
		case p.way.from == host && !silently:
			p.end(syscall.ECONNRESET, true)
		case p.way.from == host:
			p.lose()
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
	l := n.hosts[address]
	to := address
	if l != nil {
		to = l.host
	}
	there, back := way{host, to}, way{to, host}
	n.dials[there]++
	rng := rngOf(n.seed^n.dials[there], host+">"+address)
	n.mu.Unlock()
	if fromPubSub() {
		return n.dialAtOnce(l, there)
	}
	for n.condition(there).cut || n.condition(back).cut { // the first packet is lost, and sent again
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, os.ErrDeadlineExceeded
		}
	}
	if err := sleep(ctx, latency(rng)+n.condition(there).slow); err != nil {
		return nil, os.ErrDeadlineExceeded
	}
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	return n.join(l, n.pipe(there, rng), n.pipe(back, rng))
}

// fromPubSub tells whether go-redis opens a connection for a subscription. It does
// so, up to the first answer, with a mutex held that others wait for. Virtual time
// stands still while somebody waits for a mutex, so that this must take none.
func fromPubSub() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "go-redis/v9.(*PubSub)") {
			return true
		}
		if !more {
			return false
		}
	}
}

// dialAtOnce opens a connection whose first question and answer take no time, or is
// refused at once.
func (n *network) dialAtOnce(l *listener, there way) (*conn, error) {
	back := way{there.to, there.from}
	if l == nil || l.stalled.Load() || n.condition(there).cut || n.condition(back).cut {
		return nil, syscall.ECONNREFUSED
	}
	rng := rngOf(n.seed, there.from+" subscribes")
	a, b := n.pipe(there, rng), n.pipe(back, rng)
	a.atOnce, b.atOnce = 1, 1
	return n.join(l, a, b)
}

func (n *network) join(l *listener, a, b *pipe) (*conn, error) {
	near, far := &conn{in: b, out: a, peer: l.Addr()}, &conn{in: a, out: b, peer: addressOf(a.way.from)}
	select {
	case <-l.closed:
		near.Close()
		return nil, syscall.ECONNREFUSED
	case l.queue <- far:
		return near, nil
	}
}

func (n *network) pipe(w way, rng *rand.Rand) *pipe {
	p := &pipe{network: n, way: w, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), wake: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pipes = append(n.pipes, p)
	return p
}

func (n *network) forget(p *pipe) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.pipes, p); i >= 0 {
		n.pipes = slices.Delete(n.pipes, i, i+1)
	}
}

// open is how many connections there are.
func (n *network) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pipes) / 2
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

// pipe is one direction of a connection.
type pipe struct {
	network *network
	way     way
	wake    chan struct{} // capacity 1: the reader has to look again

	mu       sync.Mutex
	rng      *rand.Rand
	segments []segment
	last     time.Time // arrival of the last segment
	ended    error     // what the reader gets after the segments
	atOnce   int       // so many segments take no time
	lost     bool      // nothing arrives any more, and nobody is told
}

type segment struct {
	at   time.Time
	data []byte

	atOnce bool // whatever the way is like
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pipe) send(b []byte) error {
	slow := p.network.condition(p.way).slow
	p.network.sent(p.way, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return syscall.EPIPE
	}
	at, atOnce := time.Now(), p.atOnce > 0
	if atOnce {
		p.atOnce--
	} else {
		at = at.Add(latency(p.rng) + slow)
	}
	if at.Before(p.last) {
		at = p.last
	}
	p.last = at
	p.segments = append(p.segments, segment{at, slices.Clone(b), atOnce})
	p.signal()
	return nil
}

// end tells the reader that no more comes. now: what is on its way is lost.
func (p *pipe) end(err error, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
	}
	if now {
		p.segments = nil
	}
	p.signal()
}

func (p *pipe) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost, p.segments = true, nil
}

// take reads what has arrived; else wait says when to look again, 0 for never.
func (p *pipe) take(b []byte, now time.Time) (n int, wait time.Duration, err error) {
	cut := p.network.condition(p.way).cut
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.lost || cut && !(len(p.segments) > 0 && p.segments[0].atOnce) && !errors.Is(p.ended, net.ErrClosed):
		return 0, 0, nil
	case len(p.segments) == 0:
		return 0, 0, p.ended
	}
	s := &p.segments[0]
	if s.at.After(now) {
		return 0, s.at.Sub(now), nil
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

	mu       sync.Mutex
	deadline time.Time // of reading
	closed   bool
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		deadline, closed := c.deadline, c.closed
		c.mu.Unlock()
		now := time.Now()
		switch {
		case closed:
			return 0, net.ErrClosed
		case !deadline.IsZero() && !now.Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}
		n, wait, err := c.in.take(b, now)
		if n > 0 || err != nil {
			return n, err
		}
		if left := deadline.Sub(now); !deadline.IsZero() && (wait == 0 || left < wait) {
			wait = left
		}
		await(c.in.wake, wait)
	}
}

// await waits for a signal, or for d; 0: for the signal alone.
func await(wake <-chan struct{}, d time.Duration) {
	if d == 0 {
		<-wake
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	if err := c.out.send(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite ends what this side sends, and goes on reading.
func (c *conn) CloseWrite() error {
	c.out.end(io.EOF, false)
	return nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.out.end(io.EOF, false)
	c.in.end(net.ErrClosed, true)
	c.out.network.forget(c.in)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }
func (c *conn) RemoteAddr() net.Addr { return c.peer }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
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
	host, address string
	network       *network
	queue         chan *conn
	once          sync.Once
	stalled       atomic.Bool // who subscribes is refused
	closed        chan struct{}
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
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.hosts[l.address] == l {
		delete(l.network.hosts, l.address)
	}
	l.close()
	return nil
}

func (l *listener) close() { l.once.Do(func() { close(l.closed) }) }

// Addr is the same for all that listen on an address one after the other.
func (l *listener) Addr() net.Addr { return addressOf(l.address) }
