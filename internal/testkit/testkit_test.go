package testkit_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a shell script that stands for a program: it prints a line and
// runs the rest.
func script(t *testing.T, rest string) testkit.Program {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho began as $WHO\n"+rest), 0o700); err != nil {
		t.Fatal(err)
	}
	return testkit.Program{Name: "x", Path: path, Dir: dir, Env: []string{"WHO=tester"}}
}

func TestAwaitReadsTheLogAndStopEndsTheProcess(t *testing.T) {
	p := testkit.Run(t, script(t, "exec sleep 60"))
	match, err := p.Await(t.Context(), regexp.MustCompile(`began as (\w+)`))
	if err != nil || match[1] != "tester" {
		t.Fatalf("%q, %v", match, err)
	}
	for range 2 { // a second Stop does nothing
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Until(t.Context(), func() bool { return true }); err == nil {
		t.Error("a process that has ended fulfils a condition")
	}
}

func TestStartWaitsForTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program := script(t, "exec sleep 60")
	program.Addr = l.Addr().String()
	testkit.Run(t, program)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if program.Addr, err = testkit.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	if _, err := testkit.Start(ctx, program); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody listens, and the error is %v", err)
	}
}

func TestStartShowsWhatAFailedProgramPrinted(t *testing.T) {
	program := script(t, "echo bad configuration >&2; exit 1")
	program.Addr = "127.0.0.1:9"
	if _, err := testkit.Start(t.Context(), program); err == nil || !strings.Contains(err.Error(), "bad configuration") {
		t.Errorf("the error is %v", err)
	}
	program.Path += ".absent"
	if _, err := testkit.Start(t.Context(), program); err == nil {
		t.Error("a program that does not exist was started")
	}
}
