// Package breaker makes the circuit breakers of the program.
package breaker

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// Config is when a breaker opens and for how long.
type Config struct {
	Window  time.Duration // over which results are counted; a tenth of it ends at a time
	Least   int           // results in it before the ratio counts
	Ratio   float64       // of failures at which it opens, above 0
	OpenFor time.Duration // then one call is let through as a probe
}

// Judge tells what the error of a call, or nil, says: whether the other side is well, and
// whether it says anything at all.
type Judge func(err error) (well, counts bool)

// New makes a closed breaker. changed runs under its lock and must not ask it anything.
func New[T any](c Config, judge Judge, changed func(from, to gobreaker.State)) *gobreaker.CircuitBreaker[T] {
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		MaxRequests:  1,
		Interval:     c.Window,
		BucketPeriod: c.Window / 10,
		Timeout:      c.OpenFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			known := n.TotalSuccesses + n.TotalFailures
			return known >= uint32(c.Least) && float64(n.TotalFailures) >= c.Ratio*float64(known)
		},
		IsSuccessful:  func(err error) bool { well, _ := judge(err); return well },
		IsExcluded:    func(err error) bool { _, counts := judge(err); return !counts },
		OnStateChange: func(_ string, from, to gobreaker.State) { changed(from, to) },
	})
}
