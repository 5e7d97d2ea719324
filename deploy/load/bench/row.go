package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
)

// row is a line of the table and how to measure it.
type row struct {
	report.Row
	load    func(context.Context, time.Duration) (measure.Load, error)
	servers []*process // whose CPU time is the figure
	helpers []*process // whose CPU time stands beside it
	golang  *process   // the server, if it can tell what a Go program can
	gateway *process   // the server, if it has the gateway's metrics
	origin  *process   // a peer's backend, which must not be asked for a hit
	records int        // of a miss with everything on
	bytes   [2]float64 // bounds of a whole answer's mean size
	// check looks at what the gateway counted during the load.
	check func(grown measure.Series, requests float64) error
}

// state is what is read before and after a load.
type state struct {
	used, helper measure.Usage
	heap         measure.Heap
	series       measure.Series
	finished     int64 // by the origin
}

func (s *stand) read(ctx context.Context, r *row) (st state, err error) {
	if r.golang != nil {
		if st.heap, err = s.heap(ctx, r.golang); err != nil {
			return st, err
		}
	}
	if r.gateway != nil {
		if st.series, err = s.series(ctx, r.gateway); err != nil {
			return st, err
		}
	}
	if r.origin != nil {
		n, err := s.served(ctx, r.origin.addr)
		if err != nil {
			return st, err
		}
		st.finished = n["finished"]
	}
	if st.used, err = usage(r.servers); err != nil {
		return st, err
	}
	st.helper, err = usage(r.helpers)
	return st, err
}

func usage(of []*process) (measure.Usage, error) {
	pids := make([]int, len(of))
	for i, p := range of {
		pids[i] = p.pid()
	}
	return measure.Processes{}.Usage(pids...)
}

// measure loads a row for a time and holds what came of it against what should.
func (s *stand) measure(ctx context.Context, r *row, d time.Duration) (report.Sample, error) {
	before, err := s.read(ctx, r)
	if err != nil {
		return report.Sample{}, err
	}
	cpu, err := usage(r.servers) // without what reading cost
	if err != nil {
		return report.Sample{}, err
	}
	load, err := r.load(ctx, d)
	if err != nil {
		return report.Sample{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	used, err := usage(r.servers)
	if err != nil {
		return report.Sample{}, err
	}
	after, err := s.read(ctx, r)
	if err != nil {
		return report.Sample{}, err
	}
	before.used, after.used = cpu, used
	if err := r.verify(before, after, load); err != nil {
		return report.Sample{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	return r.sample(before, after, load), emptyLogs(r.servers)
}

func (r *row) verify(before, after state, load measure.Load) error {
	if err := load.Check(); err != nil {
		return err
	}
	mean := float64(load.Bytes) / float64(load.Requests)
	if mean < r.bytes[0] || mean > r.bytes[1] {
		return fmt.Errorf("an answer has %.0f bytes on average and should have %.0f to %.0f", mean, r.bytes[0], r.bytes[1])
	}
	if asked := after.finished - before.finished; float64(asked) > 0.001*float64(load.Requests) {
		return fmt.Errorf("of %d requests %d reached the origin and were no hits", load.Requests, asked)
	}
	if r.check == nil {
		return nil
	}
	return r.check(after.series.Minus(before.series), float64(load.Requests))
}

func (r *row) sample(before, after state, load measure.Load) report.Sample {
	const mib = 1 << 20
	n := float64(load.Requests)
	s := report.Sample{
		Requests: load.Requests, CPU: perRequest(after.used.CPU-before.used.CPU, n),
		Helper: perRequest(after.helper.CPU-before.helper.CPU, n),
		Rate:   load.Rate(), P50: micros(load.P50), P99: micros(load.P99),
		RSS: float64(after.used.RSS) / mib, Peak: float64(after.used.Peak) / mib,
	}
	if r.golang == nil {
		return s
	}
	s.Go = &report.Go{
		Bytes:   float64(after.heap.TotalAlloc-before.heap.TotalAlloc) / n,
		Objects: float64(after.heap.Mallocs-before.heap.Mallocs) / n,
	}
	if cpu := after.used.CPU - before.used.CPU; cpu > 0 {
		p := runtime.GOMAXPROCS(0) // the server has as many: same machine, same limits
		gc := after.heap.GCTime(r.golang.started, p) - before.heap.GCTime(r.golang.started, p)
		s.Go.GCShare = max(0, float64(gc)/float64(cpu))
	}
	return s
}

func perRequest(d time.Duration, n float64) float64 { return micros(d) / n }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// emptyLogs keeps request logs from filling the disk: servers append to them.
func emptyLogs(of []*process) error {
	for _, p := range of {
		if err := os.Truncate(p.log, 0); err != nil {
			return err
		}
	}
	return nil
}

// measureAll goes through the rows round by round, so that whatever disturbs
// the machine for a while disturbs all rows alike. In a run that is not quick
// each row is loaded once before it counts.
func (s *stand) measureAll(ctx context.Context, rows []*row, o options) error {
	if !o.quick {
		o.progress("loading everything once, uncounted")
		err := s.round(ctx, rows, time.Second, func(*row, report.Sample) {})
		if err != nil {
			return err
		}
	}
	for n := range o.rounds {
		err := s.round(ctx, rows, o.duration, func(r *row, sample report.Sample) {
			r.Samples = append(r.Samples, sample)
			o.progress("round %d/%d  %-32s %9.1f µs CPU  %9.0f requests/s", n+1, o.rounds, r.Name, sample.CPU, sample.Rate)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stand) round(ctx context.Context, rows []*row, d time.Duration, keep func(*row, report.Sample)) error {
	for _, r := range rows {
		if r.load == nil {
			continue // not installed
		}
		sample, err := s.measure(ctx, r, d)
		if err != nil {
			return err
		}
		keep(r, sample)
	}
	return nil
}
