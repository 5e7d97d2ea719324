// Command bench measures what a request costs the gateway, beside a bare
// net/http handler that writes the same bytes and the caches that could stand
// in its place. It builds and starts everything on this machine, measures in
// interleaved rounds, and writes RESULTS.md and results.json.
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
	"os"
	"os/exec"
	"os/signal"
	"regexp"
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
	only     *regexp.Regexp // nil: all rows
	profile  string
	progress func(format string, args ...any)
}

// Exit codes: 1 where the run failed, 2 for a wrong use. Ctrl-C ends the run, and with
// it all programs that it has started.
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

// parseOptions has printed what is wrong when it returns an error.
func parseOptions(args []string) (options, error) {
	o := options{progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "one round of one second: shows that everything works, in about two minutes")
	flags.IntVar(&o.rounds, "rounds", 7, "how often each row is measured")
	flags.DurationVar(&o.duration, "duration", 4*time.Second, "of each measurement, in whole seconds")
	flags.IntVar(&o.keys, "keys", 1000, "API keys, each of an account with 4 lists")
	flags.StringVar(&o.out, "out", "deploy/load/results", "`FOLDER` to write to")
	flags.BoolVar(&o.peers, "peers", true, "measure nginx and Varnish too, where installed")
	flags.BoolVar(&o.growth, "growth", true, "measure how costs grow with keys, lists and nodes")
	flags.Func("only", "measure only rows whose name matches `REGEXP`; what they are compared with must match, too", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	flags.StringVar(&o.profile, "profile", "", "only write a CPU profile to `FILE`, for go tool pprof and go build -pgo: of the gateway under hits, or of its first row that -only leaves")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.duration = 1, time.Second
	}
	if o.rounds < 1 || o.keys < 1 || o.duration < time.Second {
		err := errors.New("-rounds and -keys must be at least 1, -duration at least 1s")
		fmt.Fprintln(os.Stderr, "bench:", err)
		return o, err
	}
	return o, nil
}

// run does everything in a temporary folder, ends what it started and removes
// the folder.
func (o options) run(ctx context.Context) (err error) {
	if err := checkPrograms(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "inquiry-gateway-bench-")
	if err != nil {
		return err
	}
	b := &bench{options: o, dir: dir, client: newClient(warmers)}
	defer func() { err = errors.Join(err, b.stop(), os.RemoveAll(dir)) }() // after a bug, too
	return catch(func() {
		b.prepare(ctx)
		b.run(ctx)
	})
}

// failure is an error that ends the run. Nothing can be measured after one, so most
// functions do not return theirs: they check them, and catch has them.
type failure struct{ error }

// check ends what catch does if there is an error. It is for the goroutine of catch.
func check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(failure{err})
	}
}

// must checks the error that comes with a value.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// catch gives the error that ended do; nil: none did.
func catch(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// needed are the programs that nothing can be measured without, and the Debian
// packages that have them.
func needed() map[string]string {
	return map[string]string{"wrk": "wrk", "h2load": "nghttp2-client", "redis-server": "redis-server", "go": "golang"}
}

// checkPrograms names all missing programs in one error, before anything is built.
func checkPrograms() error {
	var errs []error
	for program, pkg := range needed() {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is not installed; Debian has it in the package %s (apt-get install %s)", program, pkg, pkg))
		}
	}
	return errors.Join(errs...)
}
