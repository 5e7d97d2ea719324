package testkit

import (
	"os"
	"strconv"
	"testing"
)

// Number returns the number in an environment variable; otherwise where it is not set.
func Number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Seed returns what a test begins its chance with: RAPID_SEED, which rapid reads too, or 1. A
// test that fails says it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := Number(t, "RAPID_SEED", 1)
	t.Logf("RAPID_SEED=%d", seed)
	return seed
}
