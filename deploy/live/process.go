// Package live runs the real program and a real Prometheus for the tests of the
// rules, the dashboard and the runbook, so that they are held against what is
// exposed and not against what somebody remembers.
package live

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

const (
	startTimeout = time.Minute
	stopTimeout  = time.Minute
	pollEvery    = 5 * time.Millisecond
)

// Tool is the path of a program from a Debian package. The test fails where it
// is not installed.
func Tool(t testing.TB, program, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test needs %s: run .ci/packages, or install Debian's package %s (%v)", program, debianPackage, err)
	}
	return path
}

// Build builds the gateway and returns the binary's path.
func Build(t testing.TB) string {
	t.Helper()
	noteSources(t)
	binary := filepath.Join(t.TempDir(), "inquiry-gateway")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "inquiry-gateway/cmd/inquiry-gateway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// noteSources looks at every file that the program is built from. go test
// remembers which files a test has looked at, and runs it again when one of
// them changes; of what the compiler reads in another process it knows nothing.
func noteSources(t testing.TB) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	root := strings.TrimSpace(string(out))
	for _, part := range []string{"auth", "cache", "cmd", "gateway", "upstream", "go.mod"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			_, err = os.Stat(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Process is a program that runs until the test ends. Its methods fail the test
// on an error.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *testkit.Log
	gone chan struct{} // closed when the process has ended
}

// Start runs a program with further environment variables. It is asked to stop
// when the test ends, and killed where it does not.
func Start(t testing.TB, env []string, name string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(name, args...), out: &testkit.Log{}, gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.gone) }() // how it ended is in its output
	t.Cleanup(p.stop)
	return p
}

func (p *Process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-p.gone:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.gone
		p.t.Errorf("%s did not stop when asked to", p.cmd.Path)
	}
}

// Await waits until the output has a match and returns its groups.
func (p *Process) Await(pattern *regexp.Regexp) []string {
	p.t.Helper()
	var match []string
	Eventually(p.t, func() string {
		if match = pattern.FindStringSubmatch(p.out.String()); match != nil {
			return ""
		}
		select {
		case <-p.gone:
			p.t.Fatalf("%s ended:\n%s", p.cmd.Path, p.out)
		default:
		}
		return "no " + pattern.String() + " in\n" + p.out.String()
	})
	return match
}

// Eventually waits until check has no complaint, or ends the test with the last.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", startTimeout, complaint)
		case <-tick.C:
		}
	}
}
