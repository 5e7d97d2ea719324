package testkit

import (
	"os"
	"strconv"
	"testing"
)

// Seed returns what a test begins its chance with: RAPID_SEED, which rapid reads too, or 1. A
// test that fails says it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("RAPID_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RAPID_SEED=%d", seed)
	return seed
}
