//go:build !race

package testkit

// Race tells whether the race detector is in the binary, which makes it many times slower.
const Race = false
