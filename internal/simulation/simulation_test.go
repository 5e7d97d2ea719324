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

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

var (
	from    = flag.Uint64("from", 0, "the first seed; 0: a new one")
	number  = flag.Uint64("seeds", 0, "run so many seeds, and go on after one that fails")
	runFor  = flag.Duration("for", 0, "run seeds for so much of a processor's time, at most three times as long by the clock, or until one fails")
	only    = flag.String("events", "", "only faults and deeds whose names this matches; empty: all")
	verbose = flag.Bool("history", false, "show everything that happens")
)

// TestMain starts what the standard library starts once per process, so that it is not in a
// bubble of virtual time. One processor keeps the order of goroutines as much the same as Go
// allows.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	redis.SetLogger(redistest.Silence{})
	os.Exit(m.Run())
}

const (
	// lasts is how much virtual time one seed takes, and a little more.
	lasts   = 2 * time.Minute
	callers = 8
	// thinks is the mean time between two requests of a caller.
	thinks = 500 * time.Millisecond
	// fixedSeeds is how many seeds run where nobody asks for new ones, and racySeeds how many
	// do under the race detector, which makes each ten times as long.
	fixedSeeds = 10
	racySeeds  = 3
)

// outcome is what one seed came to.
type outcome struct {
	failure string // empty: none
	history []string
	reached map[string]int
	lasted  time.Duration
}

// simulate runs one seed. Without events the seed decides what happens.
func simulate(t *testing.T, seed uint64, f form, events []event) (o outcome) {
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, f)
		var actors sync.WaitGroup
		for i := range callers {
			c := newCaller(w, fmt.Sprintf("caller %d", i), i%2 == 0)
			actors.Go(func() { c.run(thinks) })
		}
		actors.Go(w.changes)
		w.calm(5 * time.Second)
		if events == nil {
			w.happen(w.begin.Add(lasts))
		} else {
			w.all(events)
		}
		close(w.ended)
		actors.Wait()
		w.close()
		o = outcome{w.checks.failure, w.lines(), w.reached, time.Since(w.begin)}
	})
	return o
}

// changes is what goes on anyway: the legacy's lists change, and now and then a key is revoked.
func (w *world) changes() {
	for rng := rngOf(w.seed, "changes"); !w.over(); {
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		d := w.draw(rng, nil)
		w.legacy.change(d.account)
		if d.rng.IntN(40) == 0 {
			d.revoke()
		}
	}
}

// TestSeeds runs the same few seeds, new ones for a while, or the one that is asked for.
func TestSeeds(t *testing.T) {
	testkit.Slow(t)
	begin, before, seeds, lived, reached := time.Now(), processorTime(t), 0, time.Duration(0), map[string]int{}
	count := func(t *testing.T, seed uint64, o outcome) {
		seeds++
		lived += o.lasted
		for name, n := range o.reached {
			reached[name] += n
		}
		if o.failure != "" {
			t.Log(strings.Join(o.history, "\n"))
			t.Errorf("seed %d: %s\nmake simulate SEED=%d runs it again", seed, o.failure, seed)
		}
	}
	first := cmp.Or(*from, uint64(begin.UnixMilli()))
	more := func(seed uint64) bool { return seed-first < *number }
	switch {
	case *number > 0:
	case *runFor > 0:
		more = func(uint64) bool {
			return processorTime(t)-before < *runFor && time.Since(begin) < 3**runFor && !t.Failed()
		}
	default: // the same few seeds in each run
		first, more = 1, func(seed uint64) bool {
			return seed <= fixedSeeds && (seed <= racySeeds || !testkit.Race) && !t.Failed()
		}
		if !testkit.Race {
			everyEvent(t, count)
		}
	}
	soFar := func() string {
		return fmt.Sprintf("%d seeds, %v of a fleet's life in %v, %v of a processor's time", seeds, lived.Round(time.Second),
			time.Since(begin).Round(time.Second), (processorTime(t) - before).Round(time.Second))
	}
	for seed := first; more(seed); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { count(t, seed, simulate(t, seed, formOf(seed), nil)) })
		if seeds%500 == 0 {
			fmt.Printf("up to seed %d: %s\n", seed, soFar())
		}
	}
	t.Log(soFar())
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		t.Logf("%7d %s", reached[name], name)
	}
	for _, name := range wanted() {
		if reached[name] == 0 && seeds > fixedSeeds && *runFor == 0 && *number == 0 {
			t.Errorf("%q has never happened", name)
		}
	}
}

// processorTime is what this process has used. Other programs do not count, however busy the
// machine is.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// everyEvent lets every fault and deed happen once, each by itself.
func everyEvent(t *testing.T, count func(t *testing.T, seed uint64, o outcome)) {
	all := append(events(true), events(false)...)
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
		t.Run(fmt.Sprint("every event, ceiling ", f.ceiling), func(t *testing.T) { count(t, 1, simulate(t, 1, f, some)) })
	}
}

// wanted are what has to happen in the seeds that always run: a check that never has anything
// to look at finds nothing.
func wanted() []string {
	all := []string{
		"answer hit", "answer fwd=miss", "answer fwd=stale", "answer collapsed", "answer stale-revalidate", "answer stale-error", "304", "caller left",
		"error upstream_error", "error upstream_unavailable", "error upstream_timeout", "error auth_unavailable", "error invalid_api_key",
		"log: circuit breaker changed", "log: the breaker of Redis changed", "log: configuration reloaded", "an answer in calm", "a fetch in calm",
		"half of the ceiling", "/ops/purge 200", "/ops/purge 502", "/ops/changed 200", "revoked key refused",
	}
	for _, e := range append(events(true), events(false)...) {
		all = append(all, e.name)
	}
	return all
}
