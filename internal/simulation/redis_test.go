package simulation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// redisServer is a model of the part of Redis that the gateway uses. Its scripts
// are the gateway's own, run by an interpreter of Lua. TestRedisAsTheRealOne holds
// it against a real server.
type redisServer struct {
	now  func() time.Time
	turn chan struct{} // capacity 1: who holds it runs a command, as one thread would
	rng  *rand.Rand

	// Guarded by turn:
	store   *store
	scripts *scripts
	subs    map[string][]*session
	faults  redisFaults

	mu       sync.Mutex // guards sessions and listener
	listener *listener
	sessions []*session
	wg       sync.WaitGroup
}

// redisFaults are how it misbehaves.
type redisFaults struct {
	stopped    chan struct{} // not nil: nothing is answered until it is closed
	slow       time.Duration // before each command
	lossOfSubs float64       // share of messages that a subscriber does not get
	refuse     string        // error to every command
}

func newRedisServer(now func() time.Time, rng *rand.Rand) *redisServer {
	r := &redisServer{now: now, turn: make(chan struct{}, 1), rng: rng, subs: map[string][]*session{}}
	r.store = newStore(now)
	r.scripts = newScripts(r)
	return r
}

// with runs change between two commands.
func (r *redisServer) with(change func()) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	change()
}

// stop lets nothing be answered until resume.
func (r *redisServer) stop(stopped chan struct{}) {
	r.stall(true)
	r.with(func() { r.faults.stopped = stopped })
}

func (r *redisServer) resume(stopped chan struct{}) {
	r.with(func() { r.faults.stopped = nil })
	close(stopped)
	r.stall(false)
}

func (r *redisServer) stall(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener.stalled.Store(on)
}

// serve answers connections until the listener is closed.
func (r *redisServer) serve(l *listener) {
	r.mu.Lock()
	r.listener = l
	r.mu.Unlock()
	r.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := &session{server: r, conn: c, in: bufio.NewReader(c), protocol: 2}
			r.mu.Lock()
			r.sessions = append(r.sessions, s)
			r.mu.Unlock()
			r.wg.Go(s.run)
		}
	})
}

// disconnect ends all connections.
func (r *redisServer) disconnect() {
	r.mu.Lock()
	all := slices.Clone(r.sessions)
	r.mu.Unlock()
	for _, s := range all {
		_ = s.conn.Close()
	}
}

// session is one connection.
type session struct {
	server   *redisServer
	conn     net.Conn
	in       *bufio.Reader
	protocol int
	channels []string
}

func (s *session) run() {
	defer s.leave()
	for {
		args, err := readCommand(s.in)
		if err != nil {
			return
		}
		if s.answer(args) != nil {
			return
		}
	}
}

func (s *session) answer(args []string) (err error) {
	r := s.server
	if upper(args[0]) == "HELLO" { // waits for nobody: see fromPubSub
		_, err = s.conn.Write(s.hello(args))
		return err
	}
	r.with(func() {
		for r.faults.stopped != nil {
			stopped := r.faults.stopped
			<-r.turn
			<-stopped
			r.turn <- struct{}{}
		}
		if r.faults.slow > 0 {
			_ = sleep(context.Background(), r.faults.slow)
		}
		_, err = s.conn.Write(s.execute(args)) // before any message that comes later
	})
	return err
}

func (s *session) leave() {
	_ = s.conn.Close()
	r := s.server
	r.with(func() {
		for _, channel := range s.channels {
			r.subs[channel] = slices.DeleteFunc(r.subs[channel], func(o *session) bool { return o == s })
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = slices.DeleteFunc(r.sessions, func(o *session) bool { return o == s })
}

func (s *session) hello(args []string) []byte {
	if len(args) > 1 && args[1] == "3" {
		s.protocol = 3
	}
	return s.encode(nil, pairs{"server", "redis", "version", "7.0.15", "proto", int64(s.protocol)})
}

// execute runs what belongs to the connection here, and the rest in the store.
func (s *session) execute(args []string) []byte {
	r := s.server
	name := upper(args[0])
	switch name {
	case "SUBSCRIBE", "UNSUBSCRIBE":
		return s.subscribe(name == "SUBSCRIBE", args[1:])
	}
	if r.faults.refuse != "" {
		return s.encode(nil, errors.New(r.faults.refuse))
	}
	switch name {
	case "CLIENT", "SELECT":
		return s.encode(nil, status("OK"))
	case "EVAL":
		return s.encode(nil, r.scripts.eval(args[1], args[2:]))
	case "EVALSHA":
		return s.encode(nil, r.scripts.evalSHA(args[1], args[2:]))
	}
	return s.encode(nil, r.do(args))
}

// do runs a command of the store, or PUBLISH, also for a script.
func (r *redisServer) do(args []string) any {
	if upper(args[0]) == "PUBLISH" && len(args) == 3 {
		return r.publish(args[1], args[2])
	}
	return r.store.do(args)
}

func (r *redisServer) publish(channel, message string) any {
	var n int64
	for _, s := range r.subs[channel] {
		n++
		if r.faults.lossOfSubs > 0 && r.rng.Float64() < r.faults.lossOfSubs {
			continue
		}
		_, _ = s.conn.Write(s.encode(nil, push{"message", channel, message})) // one that has left gets nothing
	}
	return n
}

func (s *session) subscribe(begin bool, channels []string) (out []byte) {
	word := "subscribe"
	if !begin {
		word = "unsubscribe"
		if len(channels) == 0 {
			channels = slices.Clone(s.channels)
		}
	}
	for _, channel := range channels {
		of := func(o *session) bool { return o == s }
		s.server.subs[channel] = slices.DeleteFunc(s.server.subs[channel], of)
		s.channels = slices.DeleteFunc(s.channels, func(c string) bool { return c == channel })
		if begin {
			s.server.subs[channel] = append(s.server.subs[channel], s)
			s.channels = append(s.channels, channel)
		}
		out = s.encode(out, push{word, channel, int64(len(s.channels))})
	}
	return out
}

// The values of RESP besides string, int64, nil, error and []any.
type (
	status string
	pairs  []any // a map
	push   []any
)

// encode writes a value in the connection's protocol.
func (s *session) encode(b []byte, v any) []byte {
	head := func(mark byte, n int) { b = append(strconv.AppendInt(append(b, mark), int64(n), 10), "\r\n"...) }
	all := func(values []any) {
		for _, v := range values {
			b = s.encode(b, v)
		}
	}
	switch v := v.(type) {
	case nil:
		if s.protocol == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "$-1\r\n"...)
	case status:
		return fmt.Appendf(b, "+%s\r\n", v)
	case error:
		return fmt.Appendf(b, "-%s\r\n", v)
	case int64:
		head(':', int(v))
	case string:
		head('$', len(v))
		b = append(append(b, v...), "\r\n"...)
	case []any:
		head('*', len(v))
		all(v)
	case pairs:
		if s.protocol == 3 {
			head('%', len(v)/2)
		} else {
			head('*', len(v))
		}
		all(v)
	case push:
		if s.protocol == 3 {
			head('>', len(v))
		} else {
			head('*', len(v))
		}
		all(v)
	default:
		panic(fmt.Sprintf("no such value in RESP: %T", v))
	}
	return b
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readHead(r, '*')
	if err != nil || n < 1 || n > 1024 {
		return nil, errors.Join(err, io.EOF)
	}
	args := make([]string, n)
	for i := range args {
		size, err := readHead(r, '$')
		if err != nil || size < 0 || size > 1<<24 {
			return nil, errors.Join(err, io.EOF)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func readHead(r *bufio.Reader, mark byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 4 || line[0] != mark {
		return 0, errors.Join(err, io.EOF)
	}
	return strconv.Atoi(line[1 : len(line)-2])
}
