// Package drill makes the parts that a gateway depends on fail, all of them its own
// and on this machine, and compares what callers get with one declared table.
package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// parallel is how many gateways are drilled at a time: most of them wait.
const parallel = 8

// Gateway is a running gateway, as it is told from outside.
type Gateway struct {
	URL, Ops string
	// Cause is what the gateway's log says of the request with that id, where it
	// was an error.
	Cause func(requestID string) string
	// Expire makes all lists that it knows stale, for as long as it runs.
	Expire func() error
	// Stop ends it.
	Stop func() error
}

// Options are what a drill works with. Config, Start and Dir are required.
type Options struct {
	Config config.Config // whose settings are drilled
	Whose  string        // they are, for a person
	// Start runs a gateway until it is stopped.
	Start func(ctx context.Context, c config.Config) (Gateway, error)
	Dir   string // for temporary files; emptied by whoever made it
	Store *Store // nil: what needs Redis is left out
	// Matrix is what is declared, which Run fits to the settings; nil: Declared.
	Matrix Matrix
	// WithoutTrials leaves out all but the rows.
	WithoutTrials bool
	// Slack is how much longer than declared an answer may take, on top of how
	// long this machine held up the drill itself.
	Slack time.Duration
	// Progress is told after each environment and trial how many of all are done;
	// it is called from several goroutines. May be nil.
	Progress func(done, all int)
}

// run is one drill.
type run struct {
	Options
	terms        terms
	mapping      upstream.Config
	prefix       string
	environments atomic.Int64
	busy         busy
}

// Run drills every cell. Rows that ctx left no time for say so. An error means
// that nothing was drilled.
func Run(ctx context.Context, o Options) (Report, error) {
	begin := time.Now()
	r := &run{Options: o, terms: termsOf(o.Config, o.Store != nil), prefix: "drill-" + rand.Text()}
	if r.Matrix == nil {
		r.Matrix = Declared()
	}
	r.terms.adapt(r.Matrix)
	var err error
	if r.mapping, err = sampleMapping(o.Dir); err != nil {
		return Report{}, err
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.busy.watch(watching) })
	defer watcher.Wait()
	defer stop()
	rows, trials := r.all(ctx)
	return r.report(rows, trials, time.Since(begin)), nil
}

// all drills all cells and trials, and returns the rows in the order of the
// matrix. Cells with declared times come first and alone; the others mostly wait, and do
// so together; the trials, which make the most traffic, come last.
func (r *run) all(ctx context.Context) ([]Row, []Trial) {
	cells, trials := r.terms.cells(), trials()
	if r.WithoutTrials {
		trials = nil
	}
	rows := make([][]Row, len(cells))
	var finished atomic.Int64
	step := func() {
		if done := finished.Add(1); r.Progress != nil {
			r.Progress(int(done), len(cells)+len(trials))
		}
	}
	for i, c := range cells {
		if rows[i] = r.due(c); timed(rows[i]) { // alone, as times are judged
			r.drill(ctx, c, rows[i])
			step()
		}
	}
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range cells {
		if !timed(rows[i]) {
			group.Go(func() error { r.drill(ctx, c, rows[i]); step(); return nil })
		}
	}
	_ = group.Wait() // the trials' traffic would slow the rows down
	for i := range trials {
		group.Go(func() error { r.try(ctx, &trials[i]); step(); return nil })
	}
	_ = group.Wait() // no function returns an error
	return slices.Concat(rows...), trials
}

// slack is what an answer may take beyond what is declared.
func (r *run) slack() time.Duration { return r.Slack + r.busy.heldUp() }

// due are the rows of a cell, not drilled yet.
func (r *run) due(c Cell) []Row {
	var rows []Row
	for _, when := range r.terms.cases(c) {
		e, ok := r.terms.expect(r.Matrix, c, when)
		if !ok {
			continue
		}
		row := Row{Cell: c, Case: when, Declared: e, Problem: "not drilled"}
		row.limit = time.Duration(e.Timeouts*float64(r.terms.redisTimeout)) + e.Added
		rows = append(rows, row)
	}
	return rows
}

// timed says whether a time is declared for one of the rows; such rows need the
// machine for themselves.
func timed(rows []Row) bool {
	return slices.ContainsFunc(rows, func(row Row) bool { return row.limit > 0 })
}

// sampleMapping is how the drill's own legacy system is read. The mapping of the
// drilled configuration is for another system.
func sampleMapping(dir string) (upstream.Config, error) {
	file := filepath.Join(dir, "mapping.yaml")
	if err := os.WriteFile(file, legacy.Mapping(), 0o600); err != nil {
		return upstream.Config{}, err
	}
	loaded, err := config.Load(file, config.Options{MayMiss: []string{"auth.keys_file"}})
	return loaded.Config.Upstream, err
}

// drill fills in the rows of a cell.
func (r *run) drill(ctx context.Context, c Cell, rows []Row) {
	if err := r.inEnvironment(ctx, c, nil, func(e *environment) error { return e.drill(ctx, c, rows) }); err != nil {
		for i := range rows {
			if !rows[i].done {
				rows[i].Problem = "it could not be drilled: " + err.Error()
			}
		}
	}
}

// inEnvironment lets do have an environment of its own, with settings that configure, if
// it is not nil, has changed. The environment is closed whatever happens, and although
// ctx may have ended: nothing of a drill is left on the machine.
func (r *run) inEnvironment(ctx context.Context, c Cell, configure func(*config.Config), do func(*environment) error) (err error) {
	if err := over(ctx); err != nil {
		return err
	}
	e, err := r.newEnvironment(ctx, c)
	defer func() { err = errors.Join(err, e.close(context.WithoutCancel(ctx))) }()
	if err != nil {
		return err
	}
	if configure != nil {
		configure(&e.config)
	}
	return do(e)
}

// over says that, and why, there is no more time for the drill.
func over(ctx context.Context) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("no time was left")
	case ctx.Err() != nil:
		return errors.New("the drill was interrupted")
	}
	return nil
}

// busyTick is how often the drill looks whether it is held up itself.
const busyTick = 20 * time.Millisecond

// busy notes for how long this process, whose are the gateways too, was held up
// at the most: what a machine with other work does to it is not the gateways'.
// It is safe for concurrent use.
type busy struct{ most atomic.Int64 }

// watch looks until ctx ends.
func (b *busy) watch(ctx context.Context) {
	tick := time.NewTicker(busyTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		b.note(now.Sub(last) - busyTick)
		last = now
	}
}

// note keeps the longest.
func (b *busy) note(late time.Duration) {
	for {
		most := b.most.Load()
		if int64(late) <= most || b.most.CompareAndSwap(most, int64(late)) {
			return
		}
	}
}

// heldUp is the longest so far.
func (b *busy) heldUp() time.Duration { return time.Duration(b.most.Load()) }
