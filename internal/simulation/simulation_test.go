package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"net/http"
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
	oneSeed = flag.Uint64("seed", 0, "run this seed alone")
	runFor  = flag.Duration("for", 0, "how much of a processor's time new seeds take, at most three times as long by the clock; 0: the same few seeds in each run")
	tell    = flag.String("stories", "", "tell only stories whose names this matches; empty: all")
	verbose = flag.Bool("history", false, "show everything that happens")
)

// TestMain starts what the standard library starts once per process, so that it is
// not in a bubble of virtual time. One processor keeps the order of goroutines as
// much the same as Go allows.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	redis.SetLogger(redistest.Silence{})
	os.Exit(m.Run())
}

const (
	// lasts is how much virtual time one seed takes, and a little more.
	lasts   = 5 * time.Minute
	callers = 8
	// thinks is the mean time between two requests of a caller.
	thinks = 500 * time.Millisecond
)

// outcome is what one seed came to.
type outcome struct {
	failure string // empty: none
	history []string
	reached map[string]int
	lasted  time.Duration
}

// simulate runs one seed. Without an auth the seed decides where keys are; without
// stories what happens.
func simulate(t *testing.T, seed uint64, auth string, told []story) (o outcome) {
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, auth)
		var actors sync.WaitGroup
		for i := range callers {
			c := newCaller(w, fmt.Sprintf("caller %d", i), i%2 == 0)
			actors.Go(func() { c.run(thinks) })
		}
		actors.Go(w.changes)
		d := &director{w, rngOf(seed, "director"), &http.Client{Transport: &http.Transport{DialContext: w.net.dialer("operator")}}}
		d.calm()
		before := w.size()
		if told == nil {
			d.run(w.begin.Add(lasts))
		} else {
			d.all(told)
		}
		w.checks.size(before, w.size())
		close(w.ended)
		actors.Wait()
		w.close()
		o = outcome{w.checks.failure, w.history, w.reached, time.Since(w.begin)}
	})
	return o
}

// changes is what goes on in the legacy.
func (w *world) changes() {
	rng := rngOf(w.seed, "changes")
	all := append(buyers(), sellers()...)
	for !w.over() {
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		w.legacy.change(all[rng.IntN(len(all))])
	}
}

// size is what must not grow.
type size struct{ goroutines, connections int }

func (w *world) size() size { return size{runtime.NumGoroutine(), w.net.open()} }

// size checks that goroutines and connections return. There may be as many again
// for what a node keeps idle.
func (c *checks) size(before, after size) {
	if after.goroutines > 2*before.goroutines+100 || after.connections > 2*before.connections+50 {
		c.fail("at the end there are %+v, at the start there were %+v", after, before)
	}
}

// fixedSeeds is how many seeds run where nobody asks for new ones, and racySeeds how
// many of them do under the race detector, which makes each ten times as long.
const (
	fixedSeeds = 4
	racySeeds  = 2
)

// TestSeeds runs new seeds for a while, or the one that is asked for.
func TestSeeds(t *testing.T) {
	testkit.Slow(t)
	if *oneSeed != 0 {
		report(t, *oneSeed, simulate(t, *oneSeed, "", nil))
		return
	}
	begin, before, lived, reached := time.Now(), processorTime(t), time.Duration(0), map[string]int{}
	first, most := uint64(1), uint64(fixedSeeds)
	if testkit.Race {
		most = racySeeds
	}
	more := func(seed uint64) bool { return seed <= most }
	if *runFor > 0 {
		first = uint64(begin.UnixMilli())
		more = func(uint64) bool { return processorTime(t)-before < *runFor && time.Since(begin) < 3**runFor }
	}
	for seed := first; more(seed) && !t.Failed(); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			o := simulate(t, seed, "", nil)
			lived += o.lasted
			count(reached, o.reached)
			report(t, seed, o)
		})
	}
	t.Logf("%v of a fleet's life in %v, %v of a processor's time", lived.Round(time.Second), time.Since(begin).Round(time.Second),
		(processorTime(t) - before).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		t.Logf("%7d %s", reached[name], name)
	}
}

// processorTime is what this process has used. Other programs do not count, however
// busy the machine is.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func count(all, more map[string]int) {
	for name, n := range more {
		all[name] += n
	}
}

// report fails the test where the seed has failed.
func report(t *testing.T, seed uint64, o outcome) {
	t.Helper()
	if o.failure == "" {
		return
	}
	t.Log(strings.Join(o.history, "\n"))
	t.Errorf("seed %d: %s\nmake simulate SEED=%d runs it again", seed, o.failure, seed)
}

// TestKnownSeeds runs every seed that ever failed.
func TestKnownSeeds(t *testing.T) {
	testkit.Slow(t)
	testkit.Computes(t)
	f, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		number, why, _ := strings.Cut(lines.Text(), " ")
		if number == "#" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("testdata/seeds: %q: begin each line with a number", lines.Text())
		}
		t.Run(number+" "+why, func(t *testing.T) { report(t, seed, simulate(t, seed, "", nil)) })
	}
}

// TestEveryFault tells every story once, and checks that each path of failures was
// reached: a check that is never asked finds nothing.
func TestEveryFault(t *testing.T) {
	testkit.Slow(t)
	testkit.Computes(t)
	reached := map[string]int{}
	for i, auth := range []string{"file", "redis", "introspection"} {
		var told []story
		for j, s := range stories() {
			if j%3 == i || s.name == "a key is revoked" || s.name == "the key store fails" {
				told = append(told, s)
			}
		}
		t.Run(auth, func(t *testing.T) {
			o := simulate(t, 1, auth, told)
			count(reached, o.reached)
			report(t, 1, o)
		})
	}
	for _, name := range wanted() {
		if reached[name] == 0 {
			t.Errorf("%q has never happened", name)
		}
	}
}

// wanted is what has to happen beside the stories themselves.
func wanted() (all []string) {
	for _, s := range stories() {
		all = append(all, s.name)
	}
	return append(all,
		"answer hit", "answer fwd=miss", "answer fwd=stale", "answer collapsed", "answer stale-revalidate", "answer stale-error", "304", "caller left",
		"error upstream_error", "error upstream_unavailable", "error upstream_timeout", "error auth_unavailable", "error invalid_api_key",
		"breaker of the legacy", "breaker of Redis", "reload", "broken configuration", "repeat", "strict", "fetch in calm", "half of the ceiling",
		"purge 200", "purge 502", "hint 200", "revoked key refused",
		"revocation in file", "revocation in redis", "revocation in introspection",
	)
}
