package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	h2Finished = regexp.MustCompile(`(?m)^finished in ([0-9.]+)(us|ms|s|m|h),`)
	h2Requests = regexp.MustCompile(`(?m)^requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
	h2Status   = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
	h2Traffic  = regexp.MustCompile(`(?m)^traffic: [^(]*\((\d+)\) total`)
)

var errH2Summary = errors.New("h2load printed no summary")

// ParseH2load reads h2load's summary. Percentiles are not in it; they come from
// its log with Percentiles.
func ParseH2load(output []byte) (Load, error) {
	finished, requests := h2Finished.FindSubmatch(output), h2Requests.FindSubmatch(output)
	status, traffic := h2Status.FindSubmatch(output), h2Traffic.FindSubmatch(output)
	if finished == nil || requests == nil || status == nil || traffic == nil {
		return Load{}, errH2Summary
	}
	took, err := time.ParseDuration(string(finished[1]) + string(finished[2]))
	if err != nil {
		return Load{}, fmt.Errorf("h2load's duration: %w", err)
	}
	n := func(b []byte) int { v, _ := strconv.Atoi(string(b)); return v } // digits by the pattern
	return Load{
		Requests: n(requests[1]), Duration: took, Bytes: int64(n(traffic[1])),
		// "failed" of h2load counts bad status codes too.
		Errors:    n(requests[4]) + n(requests[5]),
		BadStatus: n(status[3]) + n(status[4]),
	}, nil
}

// Percentiles reads the log of h2load, one request per line: start, status and
// time in microseconds. Shares are from 0 to 1.
func Percentiles(log io.Reader, shares ...float64) ([]time.Duration, error) {
	var took []int
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			return nil, fmt.Errorf("h2load's log: %.60q has fewer than 3 columns", lines.Text())
		}
		us, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("h2load's log: %w", err)
		}
		took = append(took, us)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(took) == 0 {
		return nil, errors.New("h2load's log is empty")
	}
	slices.Sort(took)
	out := make([]time.Duration, len(shares))
	for i, share := range shares {
		out[i] = time.Duration(took[int(share*float64(len(took)-1))]) * time.Microsecond
	}
	return out, nil
}

// trimmedTail is the end of a program's output, for an error message.
func trimmedTail(output []byte) string {
	const most = 600
	output = bytes.TrimSpace(output)
	if len(output) > most {
		output = output[len(output)-most:]
	}
	return string(output)
}
