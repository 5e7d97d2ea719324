package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Wrk runs wrk against one address with one thread.
type Wrk struct {
	URL         string // scheme://host:port
	Script      string // path of a file made with Script
	Connections int
}

// Run loads for a time.
func (w Wrk) Run(ctx context.Context, d time.Duration) (Load, error) {
	output, err := run(ctx, d, "wrk", "-t1", "-c"+strconv.Itoa(w.Connections), "--timeout", "10s",
		"-d"+strconv.Itoa(int(max(d, time.Second)/time.Second))+"s", "-s", w.Script, w.URL)
	if err != nil {
		return Load{}, err
	}
	return ParseWrk(output)
}

// H2load runs h2load against one address with one thread and one key: unlike
// wrk it has no script to choose among many.
type H2load struct {
	URLs        string // path of a file, one URL per line, used in turn
	Key         string
	Log         string // path of a file to write and remove
	Connections int
}

// Run loads for a time.
func (h H2load) Run(ctx context.Context, d time.Duration) (Load, error) {
	if err := os.Remove(h.Log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Load{}, err // h2load appends
	}
	output, err := run(ctx, d, "h2load", "-t1", "-m1", "-c"+strconv.Itoa(h.Connections),
		"-D"+strconv.Itoa(int(max(d, time.Second)/time.Second)), "-H", "authorization: Bearer "+h.Key,
		"--log-file", h.Log, "-i", h.URLs)
	if err != nil {
		return Load{}, err
	}
	load, err := ParseH2load(output)
	if err != nil {
		return Load{}, fmt.Errorf("%w: %s", err, trimmedTail(output))
	}
	log, err := os.Open(h.Log)
	if err != nil {
		return Load{}, err
	}
	defer log.Close()
	p, err := Percentiles(log, 0.5, 0.99)
	if err != nil {
		return Load{}, err
	}
	load.P50, load.P99 = p[0], p[1]
	return load, nil
}

// run bounds a generator by its own duration and some time to come to an end.
func run(ctx context.Context, d time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, trimmedTail(output))
	}
	return output, nil
}
