package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
)

// row is a line of the table and how to measure it.
type row struct {
	report.Row
	server    *server // whose CPU time is the figure; nil: not installed
	helper    *server // whose CPU time stands beside it; nil: nobody helps
	generator func(measure.Plan) (measure.Generator, error)
	plan      measure.Plan
	status    string // of every answer of a gateway; empty: 200
	bytes     limits
	counted   lookup // what a gateway counts for nearly every request; zero: not a gateway
	records   int    // of a miss with everything on; 0: another row
}

// lookup is an outcome of the gateway's cache and the least share of requests
// that must have it.
type lookup struct {
	outcome, tier string // empty: any
	share         float64
}

func localHit() lookup { return lookup{"hit", "local", 0.999} }

// redisHit leaves room for the few lists that the smallest in-process tier holds.
func redisHit() lookup { return lookup{"hit", "redis", 0.93} }

// miss leaves room for callers that happen to wait for the same fill.
func miss() lookup { return lookup{"miss", "", 0.95} }

// state is what is read before and after a load.
type state struct {
	first, last usage // before and after the counters were read, which is no part of a load
	heap        measure.Heap
	series      measure.Series
}

// usage is of the row's server, and of its helper if there is one.
type usage struct{ server, helper measure.Usage }

// usage reads both process groups one after the other, within a millisecond.
func (r *row) usage() (u usage) {
	if r.helper != nil {
		u.helper = must(measure.UsageOf(r.helper.PID()))
	}
	u.server = must(measure.UsageOf(r.server.PID()))
	return u
}

// state reads everything that is counted for a row. It takes milliseconds of the
// server's CPU time, which is why the usage is read twice.
func (b *bench) state(ctx context.Context, r *row) (st state) {
	st.first = r.usage()
	st.heap, st.series = b.counters(ctx, r.server, r.counted != lookup{})
	st.last = r.usage()
	return st
}

// measure loads a row for a time and checks what came of it.
func (b *bench) measure(ctx context.Context, r *row, load measure.Generator, d time.Duration) (s report.Sample) {
	err := catch(func() {
		before := b.state(ctx, r)
		seen := must(load(ctx, d))
		after := b.state(ctx, r)
		check(r.verify(before, after, seen), os.Truncate(r.server.Log(), 0)) // the request log must not fill the disk
		s = r.sample(before, after, seen)
	})
	if err != nil {
		check(fmt.Errorf("%s: %w", r.Name, err))
	}
	return s
}

// verify holds the load against what the gateway has counted meanwhile: that nearly all
// answers had the right size, status and way through the cache.
func (r *row) verify(before, after state, load measure.Load) error {
	if err := load.Check(); err != nil {
		return err
	}
	if mean := float64(load.Bytes) / float64(load.Requests); mean < r.bytes.min || mean > r.bytes.max {
		return fmt.Errorf("an answer has %.0f bytes on average and should have %.0f to %.0f", mean, r.bytes.min, r.bytes.max)
	}
	if r.counted == (lookup{}) {
		return nil
	}
	grown := func(name string, labels map[string]string) float64 {
		return after.series.Sum(name, labels) - before.series.Sum(name, labels)
	}
	const requests, lookups = "inquiry_gateway_http_requests_total", "inquiry_gateway_cache_lookups_total"
	// The load may have ended before answers came that the gateway has counted.
	all := grown(requests, nil)
	if all < float64(load.Requests) {
		return fmt.Errorf("the gateway counted %.0f requests and the load %d", all, load.Requests)
	}
	status, outcome := map[string]string{"code": "200"}, map[string]string{"outcome": r.counted.outcome}
	if r.status != "" {
		status["code"] = r.status
	}
	if r.counted.tier != "" {
		outcome["tier"] = r.counted.tier
	}
	// The load ends by closing its connections, each with a request under way at most.
	if n := grown(requests, status); n < 0.999*all-connections {
		return fmt.Errorf("only %.0f of %.0f answers had status %s", n, all, status["code"])
	}
	if n := grown(lookups, outcome); n < r.counted.share*all-connections {
		return fmt.Errorf("only %.0f of %.0f look-ups were %v", n, all, outcome)
	}
	return nil
}

// sample divides what was used by the number of requests. Times become microseconds,
// sizes MiB.
func (r *row) sample(before, after state, load measure.Load) report.Sample {
	const mib = 1 << 20
	n := float64(load.Requests)
	used := after.first.server
	cpu := used.CPU - before.last.server.CPU
	s := report.Sample{
		Requests: load.Requests, CPU: micros(cpu) / n, Helper: micros(after.first.helper.CPU-before.last.helper.CPU) / n,
		Rate: load.Rate(), P50: micros(load.P50), P99: micros(load.P99), RSS: float64(used.RSS) / mib, Peak: float64(used.Peak) / mib,
	}
	if r.server.ops != "" {
		s.Go = &report.Go{Bytes: (after.heap.TotalAlloc - before.heap.TotalAlloc) / n, Objects: (after.heap.Mallocs - before.heap.Mallocs) / n}
		if cpu > 0 {
			s.Go.GCShare = max(0, float64(after.heap.GC-before.heap.GC)/float64(cpu))
		}
	}
	return s
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measureAll goes through the rows round by round, so that whatever disturbs
// the machine for a while disturbs all rows alike. In a run that is not quick
// each row is loaded once before it counts.
func (b *bench) measureAll(ctx context.Context) {
	loads := map[*row]measure.Generator{} // of the rows that are installed
	for _, r := range b.rows {
		if r.server != nil {
			loads[r] = must(r.generator(r.plan))
		}
	}
	for round := range b.rounds + 1 {
		d := b.duration
		if round == 0 {
			if b.quick {
				continue
			}
			b.progress("loading everything once, uncounted")
			d = time.Second
		}
		for _, r := range b.rows {
			if loads[r] == nil {
				continue
			}
			sample := b.measure(ctx, r, loads[r], d)
			if round > 0 {
				r.Samples = append(r.Samples, sample)
				b.progress("round %d/%d  %-40s %9.1f µs CPU  %9.0f requests/s", round, b.rounds, r.Name, sample.CPU, sample.Rate)
			}
		}
	}
}
