package main

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
)

// process is a server that this tool started, and so may end.
type process struct {
	name    string
	addr    string // what it serves on
	ops     string // /metrics and /debug/pprof; empty: none
	log     string // path of what it prints
	started time.Time

	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// crew are all processes of a run.
type crew struct {
	dir       string
	processes []*process
}

// start runs a program and waits until its address takes connections. What it
// prints is appended to a file, so that the file can be emptied meanwhile.
func (c *crew) start(ctx context.Context, p *process, program string, args ...string) error {
	p.log = filepath.Join(c.dir, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A Ctrl-C in the terminal is for this tool, which then stops all in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.started, p.gone = time.Now(), make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(p.gone) }()
	c.processes = append(c.processes, p)
	return p.awaitReady(ctx)
}

func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.gone:
			return fmt.Errorf("%s ended at its start: %s", p.name, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s does not take connections: %s", p.name, tail(p.log))
		}
	}
}

// stop ends everything in the opposite order of the start.
func (c *crew) stop() error {
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].stop())
	}
	c.processes = nil
	return errors.Join(errs...)
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.gone:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	<-p.gone
	return nil
}

// tail is the end of a file, for an error message.
func tail(path string) string {
	const most = 800
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return string(text)
}

// freeAddr is a loopback address whose port was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// freeAddrs gives several, all different.
func freeAddrs(n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // held until all are found
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}
