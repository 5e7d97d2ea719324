// Package redistest starts real redis-server processes for tests, on free ports
// of the loopback and in temporary folders, and stops them with the test.
package redistest

import (
	"bytes"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
)

const startAttempts = 5 // another process may take the free port first

// Server is one redis-server process. Its methods fail the test on an error
// and are not safe for concurrent use.
type Server struct {
	Addr string // host:port; the same after Restart

	t       testing.TB
	bin     string
	conf    string // configuration file; empty: none
	args    []string
	tls     *tls.Config // non-nil: speaks TLS only
	process *testkit.Process
}

// Start runs a redis-server with further arguments such as "--requirepass",
// "x". It keeps nothing on disk. The test fails when redis-server is not
// installed, and is left out of `go test -short`.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, &Server{bin: "redis-server", args: append(inMemory(), args...)})
}

// start launches a server on a free port.
func start(t testing.TB, s *Server) *Server {
	t.Helper()
	testkit.SkipShort(t)
	if _, err := exec.LookPath(s.bin); err != nil {
		t.Fatalf("this test needs a real %s: install Debian's package of that name (%v)", s.bin, err)
	}
	s.t = t
	s.launch(func() { s.Addr = FreeAddr(t) })
	t.Cleanup(s.Kill)
	return s
}

// FreeAddr returns a loopback address whose port was free a moment ago.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := testkit.FreeAddr()
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	return addr
}

// Port is the number at the end of Addr.
func (s *Server) Port() string { return s.Addr[strings.LastIndexByte(s.Addr, ':')+1:] }

// launch starts the process and waits until it answers. before is called before
// each attempt.
func (s *Server) launch(before func()) {
	s.t.Helper()
	var err error
	for range startAttempts {
		before()
		if s.process, err = testkit.StartProgram(s.t.Context(), s.program()); err != nil {
			break
		}
		if err = s.process.Until(s.t.Context(), s.answers); err == nil {
			return
		}
		s.Kill()
	}
	s.t.Fatalf("start %s: %v", s.bin, err)
}

// program has the server's own arguments last, so that they override the usual ones.
func (s *Server) program() testkit.Command {
	dir, port := s.t.TempDir(), []string{"--port", s.Port()}
	if s.tls != nil {
		port = []string{"--port", "0", "--tls-port", s.Port()}
	}
	var args []string
	if s.conf != "" {
		args = append(args, s.conf)
	}
	args = append(append(args, "--bind", "127.0.0.1", "--dir", dir), port...)
	return testkit.Command{Name: s.bin, Path: s.bin, Args: append(args, s.args...), Dir: dir}
}

// until waits for a condition of the server or of one that it knows.
func (s *Server) until(what string, ok func() bool) {
	s.t.Helper()
	if err := s.process.Until(s.t.Context(), ok); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// answers asks for a PING; any reply line, NOAUTH included, is an answer.
func (s *Server) answers() bool {
	c, err := s.dial()
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 64))
	return err == nil && n > 0
}

// dial opens a connection of its own, with TLS where the server speaks it.
func (s *Server) dial() (net.Conn, error) {
	d := &net.Dialer{Timeout: time.Second}
	if s.tls != nil {
		return tls.DialWithDialer(d, "tcp", s.Addr, s.tls)
	}
	return d.Dial("tcp", s.Addr)
}

// Kill ends the process without warning. It may be called twice.
func (s *Server) Kill() { s.process.Kill() }

// Restart starts a killed server again at the same address, empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.launch(func() {})
}

// Pause stops the process as it stands: connections stay, nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v to redis-server: %v", sig, err)
	}
}

// Client returns a client that fails fast, as the gateway's does, and is closed
// with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                  s.Addr,
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
		ReadTimeout:           time.Second,
		WriteTimeout:          time.Second,
		MaxRetries:            -1,
		DialerRetries:         1,
		DisableIdentity:       true,
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do sends one command over a connection of its own and returns the raw reply,
// without its last line end.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	reply, err := s.do(args)
	if err != nil {
		s.t.Fatalf("redis-server at %s: %v", s.Addr, err)
	}
	return strings.TrimSuffix(reply, "\r\n")
}

// do reads the reply with one read, so it is for short replies.
func (s *Server) do(args []string) (string, error) {
	c, err := s.dial()
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	// The protocol is short enough to write, and a client would hide what the server
	// says.
	var b bytes.Buffer
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		return "", err
	}
	buf := make([]byte, 1<<20)
	n, err := c.Read(buf)
	return string(buf[:n]), err
}

// Reconnecting has goleak ignore the goroutine with which go-redis looks for a server that is gone:
// it ends up to a second after its client was closed.
func Reconnecting() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}

// Eventually waits until a condition of another process holds, which no clock of
// the test moves. After a minute the test fails.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

// inMemory are the arguments of a server that keeps nothing on disk.
func inMemory() []string { return []string{"--save", "", "--appendonly", "no"} }
