// Package redistest starts real redis-server processes for tests, on free ports
// of the loopback and in temporary folders, and stops them with the test.
package redistest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/testkit"
)

const (
	startAttempts = 5 // another process may take the free port first
	startTimeout  = 10 * time.Second
	pollEvery     = 5 * time.Millisecond
)

// Server is one redis-server process. Its methods fail the test on an error
// and are not safe for concurrent use.
type Server struct {
	Addr string // host:port; the same after Restart

	t    testing.TB
	bin  string
	conf string // configuration file; empty: none
	args []string
	tls  *tls.Config // non-nil: speaks TLS only
	cmd  *exec.Cmd
	out  *testkit.Log
	gone chan struct{} // closed when the process has ended
}

// Start runs a redis-server with further arguments such as "--requirepass",
// "x". It keeps nothing on disk. The test fails when redis-server is not
// installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, &Server{bin: "redis-server", args: append(inMemory(), args...)})
}

// inMemory turns off everything that a server keeps on disk.
func inMemory() []string { return []string{"--save", "", "--appendonly", "no"} }

// start launches a server on a free port.
func start(t testing.TB, s *Server) *Server {
	t.Helper()
	path, err := exec.LookPath(s.bin)
	if err != nil {
		t.Fatalf("this test needs a real %s: install Debian's package of that name (%v)", s.bin, err)
	}
	s.t, s.bin = t, path
	for range startAttempts {
		s.Addr = FreeAddr(t)
		if err = s.launch(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("start %s: %v", s.bin, err)
	}
	t.Cleanup(s.Kill)
	return s
}

// FreeAddr returns a loopback address whose port was free a moment ago.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Port is the number at the end of Addr.
func (s *Server) Port() string { return s.Addr[strings.LastIndexByte(s.Addr, ':')+1:] }

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	args := []string{"--bind", "127.0.0.1", "--dir", s.t.TempDir()}
	if s.conf != "" {
		args = append([]string{s.conf}, args...)
	}
	if s.tls != nil {
		args = append(args, "--port", "0", "--tls-port", s.Port())
	} else {
		args = append(args, "--port", s.Port())
	}
	args = append(args, s.args...)
	s.out = &testkit.Log{Most: 64 << 10}
	s.cmd = exec.Command(s.bin, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	s.gone = gone
	go func() { _ = s.cmd.Wait(); close(gone) }()
	if err := s.await(); err != nil {
		s.Kill()
		return fmt.Errorf("%w\n%s", err, s.out)
	}
	return nil
}

// await polls until the server speaks the protocol.
func (s *Server) await() error {
	return until(s.gone, s.answers)
}

// until polls a condition of another process; no clock of ours moves it.
func until(gone <-chan struct{}, ok func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-gone:
			return errors.New("the process ended at once")
		case <-ctx.Done():
			return errors.New("not ready in time")
		case <-tick.C:
		}
	}
	return nil
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

func (s *Server) dial() (net.Conn, error) {
	d := &net.Dialer{Timeout: time.Second}
	if s.tls != nil {
		return tls.DialWithDialer(d, "tcp", s.Addr, s.tls)
	}
	return d.Dial("tcp", s.Addr)
}

// Kill ends the process without warning. It may be called twice.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // works on a stopped process, too
	<-s.gone
}

// Restart starts a killed server again at the same address, empty.
func (s *Server) Restart() {
	s.t.Helper()
	var err error
	for range startAttempts {
		if err = s.launch(); err == nil {
			return
		}
	}
	s.t.Fatalf("restart redis-server: %v", err)
}

// Pause stops the process as it stands: connections stay, nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v to redis-server: %v", sig, err)
	}
}

// Client returns a client that fails fast, as the gateway's does, and is closed
// with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                  s.Addr,
		ContextTimeoutEnabled: true,
		DialTimeout:           150 * time.Millisecond,
		ReadTimeout:           100 * time.Millisecond,
		WriteTimeout:          100 * time.Millisecond,
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
	c, err := s.dial()
	if err != nil {
		s.t.Fatalf("redis-server at %s: %v", s.Addr, err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	var b bytes.Buffer
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
	if _, err := c.Write(b.Bytes()); err != nil {
		s.t.Fatalf("redis-server at %s: %v", s.Addr, err)
	}
	buf := make([]byte, 1<<20)
	n, err := c.Read(buf)
	if err != nil {
		s.t.Fatalf("redis-server at %s: %v", s.Addr, err)
	}
	return strings.TrimSuffix(string(buf[:n]), "\r\n")
}

// Silence keeps go-redis, through redis.SetLogger, from printing each refused
// connection.
type Silence struct{}

// Printf does nothing.
func (Silence) Printf(context.Context, string, ...any) {}
