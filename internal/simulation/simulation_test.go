// Package simulation runs a fleet of three gateways with faults in virtual time and holds
// every answer against the promises. docs/developing.md says how to use it.
package simulation

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
)

var (
	from    = flag.Uint64("from", 0, "the first seed; 0: a new one")
	seeds   = flag.Uint64("seeds", 0, "run so many seeds, and go on after one that fails")
	runs    = flag.Uint64("runs", 1, "run each seed so many times: what Go decides by chance may differ")
	runFor  = flag.Duration("for", 0, "run seeds for so much of a processor's time, at most three times as long by the clock, or until one fails")
	only    = flag.String("events", "", "only faults and steps whose names this matches; empty: all")
	verbose = flag.Bool("history", false, "show everything that happens")
)

// TestMain starts what the standard library starts once per process, so that it is not in a
// bubble of virtual time. One processor keeps the order of goroutines as much the same as Go
// allows.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(1600)
	debug.SetMemoryLimit(512 << 20)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	redisclient.Silence()
	os.Exit(m.Run())
}

const (
	// rounds of faults with calm after each are one seed.
	rounds = 2
	// fixedSeeds from firstFixed on run where nobody asks for others, and racySeeds under the race
	// detector, which makes each ten times as long.
	firstFixed = 14
	fixedSeeds = 10
	racySeeds  = 3
	// repeats of a seed show, at 95 %, what happens in one run of seven.
	repeats = 20
)

// outcome is what one seed came to.
type outcome struct {
	seed    uint64
	failure string // empty: none
	history []happening
	reached map[string]int
	lasted  time.Duration
}

// simulate runs one seed: the given events, or those that the seed draws.
func simulate(t *testing.T, seed uint64, f form, events []event) (o outcome) {
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		env := newEnvironment(t, seed, f)
		wait := env.startCallers()
		var changes sync.WaitGroup
		changes.Go(env.changes)
		env.calm(3 * time.Second)
		if events == nil {
			env.randomly(rounds)
		} else {
			env.inTurn(events)
		}
		close(env.ended)
		wait()
		changes.Wait()
		env.close()
		o = outcome{seed, env.checks.failure, env.history, env.reached, time.Since(env.begin)}
	})
	return o
}

// changes is what goes on anyway: the legacy's lists change, and now and then a key is revoked.
func (env *environment) changes() {
	for rng := rngOf(env.seed, "changes"); !env.over(); {
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		d := env.draw(rng, nil)
		env.legacy.change(d.account)
		if d.rng.IntN(40) == 0 {
			d.revoke()
		}
	}
}

// runner counts what seeds came to.
type runner struct {
	begin   time.Time
	before  time.Duration // of the processor's time
	seeds   int
	lived   time.Duration
	reached map[string]int
}

// run runs one seed, and fails where one of its runs does.
func (r *runner) run(t *testing.T, name string, runs uint64, simulate func(t *testing.T) outcome) {
	t.Run(name, func(t *testing.T) {
		var failed []outcome
		for range runs {
			o := simulate(t)
			r.lived += o.lasted
			for name, n := range o.reached {
				r.reached[name] += n
			}
			if o.failure != "" {
				failed = append(failed, o)
			}
		}
		r.seeds++
		if len(failed) == 0 {
			return
		}
		for _, h := range failed[0].history {
			t.Log(h)
		}
		t.Errorf("seed %d failed in %d of %d runs: %s\nmake simulate SEED=%[1]d RUNS=%[5]d repeats it", failed[0].seed, len(failed), runs, failed[0].failure, repeats)
	})
}

func (r *runner) String() string {
	return fmt.Sprintf("%d seeds, %v of a fleet's life in %v, %v of a processor's time",
		r.seeds, r.lived.Round(time.Second), time.Since(r.begin).Round(time.Second), r.used().Round(time.Second))
}

// used is the processor's time. Other programs do not count, however busy the machine is.
func (r *runner) used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of this process it does not fail
	return time.Duration(u.Utime.Nano()+u.Stime.Nano()) - r.before
}

// TestSeeds runs the same few seeds, or those that are asked for.
func TestSeeds(t *testing.T) {
	testkit.SkipShort(t)
	r := &runner{begin: time.Now(), reached: map[string]int{}}
	r.before = r.used()
	first, fixed := cmp.Or(*from, uint64(r.begin.UnixMilli())), false
	more := func(seed uint64) bool { return seed-first < *seeds }
	switch {
	case *seeds > 0:
	case *runFor > 0:
		more = func(uint64) bool { return r.used() < *runFor && time.Since(r.begin) < 3**runFor && !t.Failed() }
	default:
		if first, fixed = firstFixed, !testkit.Race; !fixed {
			t.Log("most seeds are left out under the race detector")
		}
		more = func(seed uint64) bool { return seed-first < racySeeds || seed-first < fixedSeeds && fixed }
	}
	if fixed {
		everyEvent(t, r)
	}
	for seed := first; more(seed); seed++ {
		r.run(t, strconv.FormatUint(seed, 10), *runs, func(t *testing.T) outcome { return simulate(t, seed, formOf(seed), nil) })
		if r.seeds%500 == 0 {
			fmt.Printf("up to seed %d: %v\n", seed, r)
		}
	}
	t.Log(r)
	for _, name := range slices.Sorted(maps.Keys(r.reached)) {
		t.Logf("%7d %s", r.reached[name], name)
	}
	for _, name := range wanted() {
		if fixed && r.reached[name] == 0 {
			t.Errorf("%q has never happened", name)
		}
	}
}

// everyEvent runs every fault and step once, each by itself, and two faults of one host at a time.
func everyEvent(t *testing.T, r *runner) {
	all := append(append(faults(), steps()...), event{"redis stalls and dies", "shared fleet redis auth", (*draw).redisStallsAndDies})
	for i, f := range []form{
		{false, 12, policy{"m1", 5 * time.Second, 3 * time.Second, 20 * time.Second}},
		{true, roomy, policy{"m1", 2 * time.Second, 3 * time.Second, 60 * time.Second}},
	} {
		var some []event
		for j, e := range all {
			if j%2 == i || strings.Contains(e.name, "revoked") {
				some = append(some, e)
			}
		}
		r.run(t, fmt.Sprint("every event, ceiling ", f.ceiling), 1, func(t *testing.T) outcome { return simulate(t, 1, f, some) })
	}
}

// wanted are what has to happen in the seeds that always run: a check that never has anything
// to look at finds nothing.
func wanted() []string {
	all := []string{
		"answer hit", "answer fwd=miss", "answer fwd=stale", "answer collapsed", "answer stale-revalidate", "answer stale-error", "304", "caller left",
		"error upstream_error", "error upstream_unavailable", "error upstream_timeout", "error auth_unavailable", "error invalid_api_key",
		"log: circuit breaker changed", "log: the breaker of Redis changed", "log: configuration reloaded", "an answer in calm", "a fetch in calm",
		"half of the ceiling", "/ops/purge 200", "/ops/purge 502", "/ops/purge soft 200", "revoked key refused",
	}
	for _, e := range append(faults(), steps()...) {
		all = append(all, e.name)
	}
	return all
}
