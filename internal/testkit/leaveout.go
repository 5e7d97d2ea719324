// Package testkit has the small things that tests of several packages need: which of them are left
// out, their seed, a clock, a log, certificates, sample records. What is larger has a package below.
package testkit

import "testing"

// SkipShort skips a test under `go test -short`, which `make quick` runs. It is for tests that start
// whole programs (Redis servers, browsers, the gateway) or take seconds. The helpers that start
// programs call it, so such tests need not.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short: it starts whole programs or takes seconds")
	}
}

// SkipUnderRace skips a test under the race detector, which makes it many times slower. It is for
// tests that compute for seconds where there is no race to find: in another process, in one goroutine,
// or on paths that other tests take under the detector.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("left out under the race detector: make test runs it")
	}
}
