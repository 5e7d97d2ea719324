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
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

const (
	maxWait   = time.Minute
	pollEvery = 5 * time.Millisecond
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

// Build builds the gateway, with further flags of go build, and returns the binary's
// path.
func Build(t testing.TB, flags ...string) string {
	t.Helper()
	testkit.Slow(t)
	noteSources(t)
	binary := filepath.Join(t.TempDir(), "inquiry-gateway")
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", binary}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "inquiry-gateway/cmd/inquiry-gateway")...)
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
	for _, part := range []string{"auth", "cache", "cmd", "deploy/runbook.go", "deploy/runbook.md", "gateway", "internal", "upstream", "go.mod"} {
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

// start runs a program with further environment variables until the test ends,
// and waits until its output has a match of the pattern, whose groups it returns. The
// process is for a test that ends it.
func start(t testing.TB, ready *regexp.Regexp, env []string, path string, args ...string) ([]string, *testkit.Process) {
	t.Helper()
	p := testkit.Run(t, testkit.Program{Name: filepath.Base(path), Path: path, Args: args, Env: env, Dir: t.TempDir()})
	match, err := p.Await(t.Context(), ready)
	if err != nil {
		t.Fatal(err)
	}
	return match, p
}

// Eventually waits until check has no complaint, or ends the test with the last.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	for end := time.Now().Add(maxWait); ; time.Sleep(pollEvery) { // no clock of the test moves another process
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", maxWait, complaint)
		}
	}
}
