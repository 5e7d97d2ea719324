// Package measure loads a server with wrk or h2load and reads what that cost:
// CPU time and memory from /proc, the gateway's counters from /metrics, and the
// allocations of a Go process.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
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

// Check returns an error unless every request was answered well. A server that
// fails would look fast.
func (l Load) Check() error {
	switch {
	case l.Requests == 0:
		return errors.New("nothing was answered")
	case l.Errors > 0 || l.BadStatus > 0:
		return fmt.Errorf("of %d requests %d failed and %d were answered with an error", l.Requests, l.Errors, l.BadStatus)
	}
	return nil
}

// Generator is a load that can be run again and again.
type Generator func(context.Context, time.Duration) (Load, error)

// Plan is what a generator asks for.
type Plan struct {
	URL         string // scheme://host:port
	Keys        []string
	Requests    []Request
	Connections int
	Files       string // start of the paths of the generator's files
}

// Request is one kind of request. Its parts must not hold tabs or line ends.
type Request struct {
	Path   string
	Header map[string]string
}

// run gives a generator its own duration and 30 seconds more to end.
func run(ctx context.Context, d time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, tail(output))
	}
	return output, nil
}

// seconds are at least 1: the generators take whole ones.
func seconds(d time.Duration) string { return strconv.Itoa(int(max(d, time.Second) / time.Second)) }

// tail is the end of a program's output, for an error message.
func tail(output []byte) []byte {
	output = bytes.TrimSpace(output)
	return output[max(0, len(output)-600):]
}
