package httpwire

import (
	"crypto/tls"
	"io"
	"runtime"
	"sync/atomic"
	"time"
)

// The hit lane answers a request inside the connection's Read, before net/http sees
// its bytes. What it does not answer net/http gets, byte for byte.

const (
	// laneBytes is the least room that a read must have for the lane. net/http's own
	// buffer has more when it waits for a request; the read that watches for a caller
	// who leaves has less.
	laneBytes = 1 << 10
	// laneRun is how many answers one connection gets before others have their turn,
	// for a caller whose next request is always there already.
	laneRun = 64
	// rearmAfter is how old a deadline may be before it is set again.
	rearmAfter = time.Second
)

// Lane answers requests in the connection's Read. It is safe for concurrent use.
type Lane interface {
	// Enabled says whether requests may be answered so at all.
	Enabled() bool
	// Answer answers h, which came at begin, or leaves it to net/http by false.
	// After an error the connection is closed.
	Answer(c *Conn, h *Head, begin time.Time) (bool, error)
}

// The states of a connection towards the lane. While it answers, Close is put off
// until the answer is sent.
const (
	laneFree = iota
	laneBusy
	laneClosing // busy, to be closed after the answer
	laneClosed
)

// laneState is a connection's part of the lane. But for state it is for the goroutine
// that serves the connection.
type laneState struct {
	framing
	state      atomic.Int32
	head       Head      // the last one, as many callers send one request again and again
	left       any       // of Leave
	last       bool      // the answer closes the connection
	writeArmed time.Time // when the deadline of writes was set; zero: it is not
}

// idle is called when net/http has answered a request. It writes nothing where there is nothing
// to change: over HTTP/2 other goroutines read it at the same time.
func (s *laneState) idle() {
	s.framing.idle()
	if s.left != nil {
		s.left = nil
	}
}

// Read is net/http's. Where a request may begin, the lane looks at it first.
func (c *Conn) Read(p []byte) (int, error) {
	lane := c.listener.lane
	if lane == nil || c.lane.lost {
		return c.read(p)
	}
	if c.lane.atStart() && len(p) >= laneBytes && lane.Enabled() {
		return c.readInLane(lane, p)
	}
	n, err := c.read(p)
	c.lane.follow(p[:n])
	return n, err
}

// readInLane answers requests until there is one for net/http. Until then p is a
// buffer that nobody else reads.
func (c *Conn) readInLane(lane Lane, p []byte) (int, error) {
	readArmed := time.Now()
	c.lane.writeArmed = time.Time{} // net/http has set none after its answer
	for i := 1; ; i++ {
		n, err := c.Conn.Read(p)
		begin := time.Now()
		if err != nil || !c.lane.recall(p[:n]) {
			c.lane.follow(p[:n])
			return n, err
		}
		answered, err := lane.Answer(c, &c.lane.head, begin)
		open := c.end()
		switch {
		case err != nil, !open, c.lane.last:
			_ = c.Conn.Close()
			return 0, io.EOF
		case !answered:
			c.lane.follow(p[:n])
			return n, nil
		}
		if begin.Sub(readArmed) >= rearmAfter {
			readArmed = begin
			_ = c.SetReadDeadline(begin.Add(c.listener.idle))
		}
		if _, secure := c.Conn.(*tls.Conn); secure {
			// TLS may have to write while it reads, whenever that is.
			_, c.lane.writeArmed = c.SetWriteDeadline(time.Time{}), time.Time{}
		}
		if i%laneRun == 0 {
			runtime.Gosched()
		}
	}
}

// recall reads a request's head, unless it is the last one again.
func (s *laneState) recall(p []byte) bool {
	if s.head.text != "" && s.head.text == string(p) {
		return true
	}
	ok := s.head.parse(p)
	if !ok {
		s.head = Head{}
	}
	return ok
}

// Begin is called before an answer of the lane, which may take write; zero: as long
// as it takes. False: the connection is being closed.
func (c *Conn) Begin(at time.Time, write time.Duration) bool {
	if !c.lane.state.CompareAndSwap(laneFree, laneBusy) {
		return false
	}
	c.idleSince.Store(0)
	if write > 0 && at.Sub(c.lane.writeArmed) >= rearmAfter {
		c.lane.writeArmed = at
		_ = c.SetWriteDeadline(at.Add(write))
	}
	return true
}

// end follows an answer, or what became none. False: the connection is closed.
func (c *Conn) end() bool {
	switch c.lane.state.Load() {
	case laneFree: // Begin was not called
		return true
	case laneBusy:
		c.setIdle()
		if c.lane.state.CompareAndSwap(laneBusy, laneFree) {
			return true
		}
	}
	c.lane.state.Store(laneClosed)
	return false
}

// Leave keeps what is known of the request that is left to net/http, for its handler.
func (c *Conn) Leave(known any) { c.lane.left = known }

// Left is what was left for the request under way; nil: nothing. c may be nil.
func (c *Conn) Left() any {
	if c == nil {
		return nil
	}
	return c.lane.left
}

// Close ends the connection; where the lane is answering on it, after the answer.
func (c *Conn) Close() error { return c.afterAnswer(c.Conn.Close) }

// drop is Close without a word of TLS, for who cannot wait until that is written.
func (c *Conn) drop() error { return c.afterAnswer(c.wire.Close) }

// afterAnswer closes now, or leaves it to end, which follows the answer under way.
func (c *Conn) afterAnswer(closeNow func() error) error {
	for {
		switch s := c.lane.state.Load(); s {
		case laneBusy:
			if c.lane.state.CompareAndSwap(laneBusy, laneClosing) {
				return nil
			}
		case laneClosing:
			return nil
		default:
			if c.lane.state.CompareAndSwap(s, laneClosed) {
				return closeNow()
			}
		}
	}
}
