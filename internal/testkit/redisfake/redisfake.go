// Package redisfake serves miniredis over the connections of a test's own network, in virtual time
// (testing/synctest), and injects faults: delays, stalls, errors, lost writes.
package redisfake

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Server is one Redis. It is safe for concurrent use; Slow, Refuse, Clear, RollBack, Change and Do
// are for use within With.
type Server struct {
	Slow   time.Duration // delay of each command; commands wait for one another
	Refuse string        // error that answers every command but SUBSCRIBE and UNSUBSCRIBE; empty: none

	redis   *miniredis.Miniredis
	now     func() time.Time
	turn    chan struct{} // capacity 1: held by the command that is delayed, and by With
	stopped chan struct{} // guarded by turn; not nil: commands wait until it is closed
	writes  []write       // guarded by turn; oldest first

	mu    sync.Mutex // guards what is below
	rng   *rand.Rand
	conns []net.Conn
	wg    sync.WaitGroup // of the listeners
}

// write is one key of a command. undo makes it what it was before.
type write struct {
	at   time.Time
	undo func()
}

// New returns an empty server. now is its clock; rng decides what its faults lose.
func New(now func() time.Time, rng *rand.Rand) *Server {
	s := &Server{redis: miniredis.NewMiniRedis(), now: now, rng: rng, turn: make(chan struct{}, 1)}
	s.redis.SetTime(now())
	s.redis.ClockTTL(true)
	c, _ := s.redis.Dial() // starts it without a port
	_ = c.Close()
	s.redis.Server().SetPreHook(s.before)
	return s
}

// before runs before each command, and tells whether it has answered it. Commands of scripts, and of
// Do, come on peers that have sent no HELLO. HELLO does not wait: go-redis holds a mutex meanwhile.
func (s *Server) before(c *server.Peer, name string, args ...string) (done bool) {
	if name == "HELLO" {
		c.ClientName = "client"
	}
	if name == "HELLO" || c.ClientName == "" {
		return false
	}
	s.With(func() {
		for s.stopped != nil {
			stopped := s.stopped
			<-s.turn
			<-stopped
			s.turn <- struct{}{}
		}
		time.Sleep(s.Slow)
		s.redis.SetTime(s.now())
		if done = s.Refuse != "" && !strings.HasSuffix(name, "SUBSCRIBE"); done {
			c.WriteError(s.Refuse)
		} else {
			s.record(name, args)
		}
	})
	return done
}

// record keeps what the keys of a command are, so that RollBack can undo it.
func (s *Server) record(name string, args []string) {
	keys := args[:min(1, len(args))]
	if s.redis.IsReadOnlyCommand(name) {
		return
	}
	if strings.HasPrefix(name, "EVAL") {
		n, _ := strconv.Atoi(args[1])
		keys = args[2 : 2+n]
	}
	for _, key := range keys {
		s.writes = append(s.writes, write{s.now(), s.undo(key)})
	}
	if n := len(s.writes); n > 8192 { // more than ten seconds' worth
		s.writes = slices.Clone(s.writes[n/2:])
	}
}

// undo returns a function that gives a key the value that it has now. Lists, sets and streams it removes.
func (s *Server) undo(key string) func() {
	at, ttl, restore := s.now(), s.redis.TTL(key), func() {}
	switch s.redis.Type(key) {
	case "string":
		text, _ := s.redis.Get(key)
		restore = func() { _ = s.redis.Set(key, text) }
	case "hash":
		hash := s.Do("HGETALL", key).([]any)
		restore = func() {
			for pair := range slices.Chunk(hash, 2) {
				s.redis.HSet(key, pair[0].(string), pair[1].(string))
			}
		}
	case "zset":
		scores, _ := s.redis.SortedSet(key)
		restore = func() {
			for member, score := range scores {
				_, _ = s.redis.ZAdd(key, score, member)
			}
		}
	}
	return func() {
		s.redis.Del(key)
		restore()
		if ttl > 0 { // it may have passed
			s.redis.SetTTL(key, ttl-s.now().Sub(at))
		}
	}
}

// RollBack undoes the writes of the last lag, as a fail-over to a replica that was behind.
func (s *Server) RollBack(lag time.Duration) {
	s.redis.SetTime(s.now())
	for _, w := range slices.Backward(s.writes) {
		if s.now().Sub(w.at) < lag {
			w.undo()
		}
	}
	s.writes = nil
}

// With runs change while no command is delayed.
func (s *Server) With(change func()) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	change()
}

// Stall has all commands wait until resume is called.
func (s *Server) Stall() (resume func()) {
	stopped := make(chan struct{})
	s.With(func() { s.stopped = stopped })
	return func() { s.With(func() { s.stopped = nil; close(stopped) }) }
}

// Clear removes all keys, as a restart without a file does.
func (s *Server) Clear() {
	s.redis.FlushAll()
	s.writes = nil
}

// Change replaces the text of each key of type string.
func (s *Server) Change(change func(key, text string) string) {
	for _, key := range s.redis.Keys() {
		if text, err := s.redis.Get(key); err == nil {
			s.Do("SET", key, change(key, text), "KEEPTTL")
		}
	}
}

// Do runs a command that takes no time. The reply is a string, an int, nil, an error, or a []any of these.
func (s *Server) Do(name string, args ...string) any {
	s.redis.SetTime(s.now())
	s.record(name, args)
	var out bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&out))
	s.redis.Server().Dispatch(peer, append([]string{name}, args...))
	peer.Flush()
	reply, err := server.ParseReply(bufio.NewReader(&out))
	if err != nil {
		return err
	}
	return reply
}

// Serve accepts connections until the listener is closed. It returns at once.
func (s *Server) Serve(l net.Listener) {
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.redis.Server().ServeConn(c)
		}
	})
}

// Disconnect closes all connections; Serve goes on.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// Wait returns when the listeners are closed and all connections have ended.
func (s *Server) Wait() {
	s.wg.Wait()
	s.redis.Close()
}
