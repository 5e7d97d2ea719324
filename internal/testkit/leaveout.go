// Package testkit has the small things that tests of several packages need: which of them are left
// out, their seed, a clock, a log, certificates, sample records. What is larger has a package below.
package testkit

import "testing"

// Slow leaves a test out of `go test -short`, which is what `make quick` runs. It
// is for tests that start whole programs (Redis servers, browsers, the gateway)
// and for those that take seconds. The helpers that start programs call it, so
// that a test need not.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short: it starts whole programs or takes seconds")
	}
}

// Computes leaves a test out under the race detector, which makes it many times
// slower. It is for tests that take seconds of computing: in another process or in one
// goroutine, where there is no race to find, or along paths that others take under the
// detector.
func Computes(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("left out under the race detector: make test runs it")
	}
}
