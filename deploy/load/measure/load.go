package measure

import (
	"fmt"
	"time"
)

// Load is what a load generator saw.
type Load struct {
	Requests  int           // answered
	Duration  time.Duration // from the first request to the last answer
	Bytes     int64         // received, headers included
	P50, P99  time.Duration
	Errors    int // connections or requests that failed
	BadStatus int // answers above 399
}

// Rate is answers per second.
func (l Load) Rate() float64 {
	if l.Duration <= 0 {
		return 0
	}
	return float64(l.Requests) / l.Duration.Seconds()
}

// Check tells whether every request was answered well. One that was not would
// make a server look fast.
func (l Load) Check() error {
	switch {
	case l.Requests == 0:
		return fmt.Errorf("nothing was answered")
	case l.Errors > 0 || l.BadStatus > 0:
		return fmt.Errorf("of %d requests %d failed and %d were answered with an error", l.Requests, l.Errors, l.BadStatus)
	}
	return nil
}
