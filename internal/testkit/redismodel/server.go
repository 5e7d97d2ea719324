// Package redismodel is a model of the part of Redis that the gateway uses, in RESP3, for tests in
// virtual time. Its scripts are the gateway's own, run by an interpreter of Lua.
package redismodel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is one Redis. The simulation's TestRedisAsTheRealOne compares it with a real server. It
// is safe for concurrent use, but for what With is for.
type Server struct {
	// What a test changes is changed within With.
	Slow   time.Duration // before each command
	Mute   float64       // share of messages that a subscriber does not get
	Refuse string        // error to every command; empty: none

	turn chan struct{} // capacity 1: who holds it runs a command, as one thread would
	rng  *rand.Rand

	// Guarded by turn:
	store   *store
	scripts *scripts
	subs    map[string][]*session
	stopped chan struct{} // not nil: nothing is answered until it is closed

	mu       sync.Mutex // guards sessions
	sessions []*session
	wg       sync.WaitGroup
}

// New is an empty server with a clock. Chance decides which messages Mute takes.
func New(now func() time.Time, rng *rand.Rand) *Server {
	r := &Server{turn: make(chan struct{}, 1), rng: rng, subs: map[string][]*session{}, store: newStore(now)}
	r.scripts = newScripts(r.Do)
	return r
}

// With runs change between two commands.
func (r *Server) With(change func()) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	change()
}

// Stall lets nothing be answered until resume is called.
func (r *Server) Stall() (resume func()) {
	stopped := make(chan struct{})
	r.With(func() { r.stopped = stopped })
	return func() {
		r.With(func() { r.stopped = nil })
		close(stopped)
	}
}

// Clear forgets everything, as a start without a file does. It is called within With.
func (r *Server) Clear() { r.store.clear() }

// RollBack takes the writes of the last lag back, as a fail-over does to a replica that was
// behind. It is called within With.
func (r *Server) RollBack(lag time.Duration) { r.store.rollBack(lag) }

// Change puts another text in the place of each that a key has. It is called within With.
func (r *Server) Change(change func(key, text string) string) {
	for _, key := range slices.Sorted(maps.Keys(r.store.values)) {
		v := r.store.values[key]
		v.text = change(key, v.text)
		r.store.values[key] = v
	}
}

// Now is the moment by its clock.
func (r *Server) Now() time.Time { return r.store.now() }

// Serve answers connections until the listener is closed. It returns at once.
func (r *Server) Serve(l net.Listener) {
	r.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s := &session{server: r, conn: c, in: bufio.NewReader(c)}
			r.mu.Lock()
			r.sessions = append(r.sessions, s)
			r.mu.Unlock()
			r.wg.Go(s.run)
		}
	})
}

// Disconnect ends all connections.
func (r *Server) Disconnect() {
	r.mu.Lock()
	all := slices.Clone(r.sessions)
	r.mu.Unlock()
	for _, s := range all {
		_ = s.conn.Close()
	}
}

// Wait returns when the listener is closed and all connections have ended.
func (r *Server) Wait() { r.wg.Wait() }

// Do runs a command that belongs to no connection, also for a script. Outside of one it is called
// within With. It returns a string, int64, float64, nil, error, []any or a status.
func (r *Server) Do(args ...string) any {
	switch strings.ToUpper(args[0]) {
	case "EVAL", "EVALSHA":
		return r.scripts.eval(strings.ToUpper(args[0]) == "EVAL", args[1], args[2:])
	case "PUBLISH":
	default:
		return r.store.do(args...)
	}
	for _, s := range r.subs[args[1]] {
		if r.Mute == 0 || r.rng.Float64() >= r.Mute {
			_, _ = s.conn.Write(encode(nil, push{"message", args[1], args[2]})) // one that has left gets nothing
		}
	}
	return int64(len(r.subs[args[1]]))
}

// session is one connection.
type session struct {
	server   *Server
	conn     net.Conn
	in       *bufio.Reader
	channels []string
}

func (s *session) run() {
	r := s.server
	for {
		args, err := readCommand(s.in)
		if err != nil || s.answer(args) != nil {
			break
		}
	}
	_ = s.conn.Close()
	r.With(func() { s.subscribe(false, s.channels) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = slices.DeleteFunc(r.sessions, func(o *session) bool { return o == s })
}

func (s *session) answer(args []string) (err error) {
	r := s.server
	if strings.ToUpper(args[0]) == "HELLO" { // waits for nobody: go-redis holds a mutex meanwhile
		_, err = s.conn.Write(encode(nil, pairs{"server", "redis", "version", "7.0.15", "proto", int64(3)}))
		return err
	}
	r.With(func() {
		for r.stopped != nil {
			stopped := r.stopped
			<-r.turn
			<-stopped
			r.turn <- struct{}{}
		}
		if r.Slow > 0 {
			time.Sleep(r.Slow)
		}
		_, err = s.conn.Write(s.execute(args)) // before any message that comes later
	})
	return err
}

// execute runs what belongs to the connection here, and the rest in the store.
func (s *session) execute(args []string) []byte {
	r := s.server
	switch name := strings.ToUpper(args[0]); {
	case name == "SUBSCRIBE":
		return s.subscribe(true, args[1:])
	case name == "UNSUBSCRIBE" && len(args) == 1:
		return s.subscribe(false, s.channels)
	case name == "UNSUBSCRIBE":
		return s.subscribe(false, args[1:])
	case r.Refuse != "":
		return encode(nil, errors.New(r.Refuse))
	case name == "CLIENT":
		return encode(nil, status("OK"))
	}
	return encode(nil, r.Do(args...))
}

func (s *session) subscribe(begin bool, channels []string) (out []byte) {
	for _, channel := range slices.Clone(channels) {
		word := "unsubscribe"
		s.server.subs[channel] = slices.DeleteFunc(s.server.subs[channel], func(o *session) bool { return o == s })
		s.channels = slices.DeleteFunc(s.channels, func(c string) bool { return c == channel })
		if begin {
			word = "subscribe"
			s.server.subs[channel] = append(s.server.subs[channel], s)
			s.channels = append(s.channels, channel)
		}
		out = encode(out, push{word, channel, int64(len(s.channels))})
	}
	return out
}

// The values of RESP besides string, int64, nil, error and []any.
type (
	status string
	pairs  []any // a map
	push   []any
)

func encode(b []byte, v any) []byte {
	head := func(mark byte, n int64) {
		b = append(strconv.AppendInt(append(b, mark), n, 10), "\r\n"...)
	}
	all := func(mark byte, n int, values []any) {
		head(mark, int64(n))
		for _, v := range values {
			b = encode(b, v)
		}
	}
	switch v := v.(type) {
	case nil:
		b = append(b, "_\r\n"...)
	case status:
		b = fmt.Appendf(b, "+%s\r\n", v)
	case error:
		b = fmt.Appendf(b, "-%s\r\n", strings.ReplaceAll(v.Error(), "\n", " "))
	case int64:
		head(':', v)
	case float64:
		b = append(strconv.AppendFloat(append(b, ','), v, 'f', 0, 64), "\r\n"...)
	case string:
		head('$', int64(len(v)))
		b = append(append(b, v...), "\r\n"...)
	case []any:
		all('*', len(v), v)
	case pairs:
		all('%', len(v)/2, v)
	case push:
		all('>', len(v), v)
	default:
		panic(fmt.Sprintf("no such value in RESP: %T", v))
	}
	return b
}

// readCommand reads an array of bulk strings, as clients send them.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readHead(r)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readHead(r)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// readHead reads the mark of an array or a string, and the length of it.
func readHead(r *bufio.Reader) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(line[1 : len(line)-2]))
}
