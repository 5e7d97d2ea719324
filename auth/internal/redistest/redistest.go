//go:build unix

// Package redistest runs a real redis-server for tests.
package redistest

import (
	"bufio"
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 20 * time.Second

// Server is a redis-server of its own on a free port of the loopback, with its
// files in a temporary folder. Its methods fail the test when they fail.
type Server struct {
	Addr string // host:port; the same after Restart

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t)
}

// StartCluster starts a cluster of one server, which refuses what a cluster
// refuses: commands over several slots.
func StartCluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	s := start(t, "--cluster-enabled", "yes")
	if err := s.Client().Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for c.Set(ctx, "ready", 1, 0).Err() != nil { // the cluster is down until it has seen its slots
		if ctx.Err() != nil {
			t.Fatal("the cluster does not come up")
		}
		c.ReloadState(ctx)
	}
	return c
}

func start(t testing.TB, args ...string) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), t: t, dir: t.TempDir(), args: args}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.Restart()
	return s
}

// Restart starts the server after Stop, without its old data.
func (s *Server) Restart() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	args := append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("redis-server is needed for this test: %v", err)
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- true
			}
		}
		close(ready)
		_, _ = io.Copy(io.Discard, out) // what a line too long leaves; the pipe must not fill
	}()
	select {
	case ok := <-ready:
		if !ok {
			s.t.Fatal("redis-server ended at its start")
		}
	case <-time.After(startTimeout):
		s.t.Fatal("redis-server does not start")
	}
}

// Stop kills the server; its port then refuses connections.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Pause makes the server hang: it accepts connections and does not answer.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
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
