// Package testkit starts programs, makes certificates, and keeps logs and clocks
// for tests, drills and benchmarks. It works without a *testing.T, so that commands can use it too.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
	pollEvery    = 10 * time.Millisecond
)

// Program is what Start runs.
type Program struct {
	Name string   // for errors and for the name of the log
	Path string   // looked up in PATH when it has no slash
	Args []string // without the path
	Addr string   // host:port that the program listens on
	Dir  string   // folder of the log
}

// Process is a running program. Its methods are not safe for concurrent use.
type Process struct {
	Program
	Started time.Time

	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// Start runs a program and returns when its address takes connections, which
// may last 30 seconds. The end of ctx ends the waiting, not the program. When
// Start returns an error, nothing runs.
//
// The process leads a process group of its own: a Ctrl-C in the terminal does
// not reach it, and its children can be told from others. It is killed when
// this program ends without Stop.
func Start(ctx context.Context, p Program) (*Process, error) {
	s := &Process{Program: p, cmd: exec.Command(p.Path, p.Args...), gone: make(chan struct{})}
	// Appending allows to empty the log while the program writes.
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	s.Started = time.Now()
	go func() { _ = s.cmd.Wait(); close(s.gone) }()
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s %w: %s", p.Name, err, s.tail()), s.Stop())
	}
	return s, nil
}

// Log is the path of the file that takes what the program prints.
func (s *Process) Log() string { return filepath.Join(s.Dir, s.Name+".log") }

// PID is the process's id, and the id of its process group.
func (s *Process) PID() int { return s.cmd.Process.Pid }

func (s *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.gone: // somebody else may listen on the address
			return errors.New("ended at its start")
		case <-ctx.Done():
			return errors.New("does not take connections")
		case <-tick.C:
		}
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
	}
}

// Stop asks the process to end and kills it after 5 seconds. Stopping again
// does nothing.
func (s *Process) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended already
	select {
	case <-s.gone:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	<-s.gone
	return nil
}

// tail is the end of the log, for an error message.
func (s *Process) tail() []byte {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-800):]
}

// FreeAddr returns a loopback address whose port was free a moment ago.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// RedisArgs are the arguments of a redis-server that listens on a loopback
// address and keeps nothing on disk.
func RedisArgs(addr, dir string) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	return []string{"--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no"}, err
}
