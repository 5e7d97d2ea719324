package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aclements/go-moremath/stats"
)

// H2load loads with h2load on one thread, with one stream a connection. The
// requests are made in turn, without their headers and with the first key: h2load
// has one set of headers. The error is of writing its files.
func H2load(p Plan) (Generator, error) {
	var urls strings.Builder
	for _, r := range p.Requests {
		urls.WriteString(p.URL + r.Path + "\n")
	}
	list, log := p.Files+".urls", p.Files+".h2log"
	err := os.WriteFile(list, []byte(urls.String()), 0o600)
	return func(ctx context.Context, d time.Duration) (Load, error) {
		if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
			return Load{}, err // h2load appends
		}
		output, err := run(ctx, d, "h2load", "-t1", "-m1", "-c"+strconv.Itoa(p.Connections), "-D"+seconds(d),
			"-H", "authorization: Bearer "+p.Keys[0], "--log-file", log, "-i", list)
		if err != nil {
			return Load{}, err
		}
		load, err := parseH2load(output)
		if err != nil {
			return Load{}, err
		}
		text, err := os.ReadFile(log)
		if err != nil {
			return Load{}, err
		}
		load.P50, load.P99, err = parseH2log(text)
		return load, err
	}, err
}

// parseH2load reads h2load's summary. Percentiles are not in it; "failed" has
// the bad status codes too.
func parseH2load(output []byte) (Load, error) {
	found := regexp.MustCompile(`(?s)finished in ([0-9.a-z]+),.*requests: .* (\d+) done, .* (\d+) errored, (\d+) timeout.*` +
		`status codes: .* (\d+) 4xx, (\d+) 5xx.*traffic: [^(]*\((\d+)\) total`).FindSubmatch(output)
	if found == nil {
		return Load{}, fmt.Errorf("h2load printed no summary: %s", tail(output))
	}
	took, err := time.ParseDuration(string(found[1]))
	n := func(i int) int { v, _ := strconv.Atoi(string(found[i])); return v } // digits by the pattern
	return Load{Requests: n(2), Duration: took, Bytes: int64(n(7)), Errors: n(3) + n(4), BadStatus: n(5) + n(6)}, err
}

// parseH2log reads h2load's log. A line is a request: start, status and time in
// microseconds.
func parseH2log(log []byte) (p50, p99 time.Duration, err error) {
	var took []float64
	for line := range bytes.Lines(log) {
		fields := bytes.Fields(line)
		if len(fields) < 3 {
			return 0, 0, fmt.Errorf("h2load's log: %.60q has fewer than 3 columns", line)
		}
		us, err := strconv.Atoi(string(fields[2]))
		if err != nil {
			return 0, 0, fmt.Errorf("h2load's log: %w", err)
		}
		took = append(took, float64(us)*float64(time.Microsecond))
	}
	if len(took) == 0 {
		return 0, 0, errors.New("h2load's log is empty")
	}
	s := stats.Sample{Xs: took}.Copy().Sort()
	return time.Duration(s.Quantile(0.5)), time.Duration(s.Quantile(0.99)), nil
}
