// Command bench measures what a request costs the gateway, beside a bare
// net/http handler that writes the same bytes and the caches that could stand
// in its place. It builds and starts everything on this machine, measures in
// interleaved rounds, and writes RESULTS.md, results.json and chart.svg.
//
// The figure is the CPU time of the server's processes per request. A run fails
// when an answer is not what it should be: a benchmark of hits that misses, or
// of errors, would look fine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	quick    bool
	rounds   int
	duration time.Duration
	keys     int
	out      string
	peers    bool
	growth   bool
	profile  string
	records  int
	progress func(format string, args ...any)
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one round of one second: shows that everything works, in less than two minutes")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each row is measured")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "of each measurement, in whole seconds")
	flags.IntVar(&o.keys, "keys", 1000, "API keys, each of an account with 4 lists")
	flags.StringVar(&o.out, "out", "deploy/load/results", "`FOLDER` to write to")
	flags.BoolVar(&o.peers, "peers", true, "measure nginx and Varnish too, where installed")
	flags.BoolVar(&o.growth, "growth", true, "measure how costs grow with keys, lists and nodes")
	flags.StringVar(&o.profile, "profile", "", "only write a CPU profile of the gateway under hits to `FILE`, for go tool pprof and go build -pgo")
	flags.IntVar(&o.records, "records", 0, "with -profile: not hits, but misses of this many records")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.duration = 1, time.Second
	}
	o.progress = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if o.rounds < 1 || o.keys < 1 || o.duration < time.Second {
		err := errors.New("-rounds and -keys must be at least 1, -duration at least 1s")
		fmt.Fprintln(os.Stderr, "bench:", err)
		return o, err
	}
	return o, nil
}

// run makes a temporary folder, does everything in it, ends what it started and
// removes the folder.
func (o options) run(ctx context.Context) (err error) {
	if err := checkPrograms(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "inquiry-gateway-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.progress("building")
	s, err := newStand(ctx, dir, o.keys)
	if s != nil {
		defer func() { err = errors.Join(err, s.crew.stop()) }()
	}
	if err != nil {
		return err
	}
	if o.profile != "" {
		return s.profile(ctx, o)
	}
	return s.bench(ctx, o)
}

func splitAddr(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr) // made by net itself
	return host, port
}
