package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
	pollEvery    = 5 * time.Millisecond
)

// Command is what StartProgram runs.
type Command struct {
	Name string   // for errors and for the name of the log
	Path string   // looked up in PATH when it has no slash
	Args []string // without the path
	Env  []string // further environment variables
	Addr string   // host:port that the program listens on; empty: StartProgram does not wait for it
	Dir  string   // folder of the log
}

// Process is a running program. Its methods are not safe for concurrent use.
type Process struct {
	Command

	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// StartProgram runs a program and returns when its address takes connections, which
// may last 2 minutes. The end of ctx ends the waiting, not the program. When
// StartProgram returns an error, nothing runs.
//
// The process leads a process group of its own: a Ctrl-C in the terminal does
// not reach it, and its children can be told from others. It is killed when
// this program ends without Stop.
func StartProgram(ctx context.Context, c Command) (*Process, error) {
	s := &Process{Command: c, cmd: exec.Command(c.Path, c.Args...), gone: make(chan struct{})}
	// Appending allows to empty the log while the program writes.
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), c.Env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	go func() { _ = s.cmd.Wait(); close(s.gone) }()
	if c.Addr == "" {
		return s, nil
	}
	if err := s.Until(ctx, func() bool { return takesConnections(ctx, c.Addr) }); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// RunProgram is StartProgram for a test, with which the program ends. A program that cannot be
// started, or does not stop when it is asked to, fails the test.
func RunProgram(t testing.TB, c Command) *Process {
	t.Helper()
	s, err := StartProgram(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func takesConnections(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	return err == nil && conn.Close() == nil
}

// Log is the path of the file that takes what the program prints.
func (s *Process) Log() string { return filepath.Join(s.Dir, s.Name+".log") }

// Until polls a condition, for up to 2 minutes: no clock of ours moves what
// another process does. It returns an error when the process ends or ctx does.
// The error has the end of what the program printed.
func (s *Process) Until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.gone: // before ok: somebody else may answer in its place
			return fmt.Errorf("%s has ended: %s", s.Name, s.tail())
		default:
		}
		if ok() {
			return nil
		}
		select {
		case <-s.gone:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", s.Name, ctx.Err(), s.tail())
		case <-tick.C:
		}
	}
}

// Await waits until the log has a match of the pattern, and returns its groups.
func (s *Process) Await(ctx context.Context, pattern *regexp.Regexp) ([]string, error) {
	var match []string
	err := s.Until(ctx, func() bool {
		text, _ := os.ReadFile(s.Log()) // StartProgram has made it
		match = pattern.FindStringSubmatch(string(text))
		return match != nil
	})
	if err != nil {
		return nil, fmt.Errorf("no %s: %w", pattern, err)
	}
	return match, nil
}

// Stop asks the process to end. After a minute it kills it and returns an
// error. Stopping again does nothing.
func (s *Process) Stop() error {
	_ = s.Signal(syscall.SIGTERM) // an error: it has ended already
	select {
	case <-s.gone:
		return nil
	case <-time.After(stopTimeout):
		s.Kill()
		return fmt.Errorf("%s did not end when it was asked to", s.Name)
	}
}

// Kill ends the process without warning, also a stopped one. Killing again does
// nothing.
func (s *Process) Kill() {
	_ = s.cmd.Process.Kill() // an error: it has ended already
	<-s.gone
}

// Signal sends a signal to the process.
func (s *Process) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// SignalGroup sends a signal to the process and to its children.
func (s *Process) SignalGroup(sig syscall.Signal) error {
	return syscall.Kill(-s.cmd.Process.Pid, sig)
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

// BuildGateway builds the gateway and returns the binary's path. It looks at every file that
// the program is made from, because go test runs a test again only when a file changes
// that the test itself has opened. The binary is the same under the race detector, so that
// the test is left out there.
func BuildGateway(t testing.TB) string {
	t.Helper()
	SkipShort(t)
	SkipUnderRace(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	root := strings.TrimSpace(string(out))
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "inquiry-gateway")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "inquiry-gateway/cmd/inquiry-gateway")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}
