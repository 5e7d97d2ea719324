package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"inquiry-gateway/deploy/load/report"
)

// growth is how costs follow the work: each table doubles as the answer to
// "what if we have ten times as many".
func (s *stand) growth(ctx context.Context, o options) ([]report.Table, error) {
	var tables []report.Table
	for _, t := range []struct {
		what string
		make func(context.Context, options) (report.Table, error)
	}{
		{"keys", s.keysTable}, {"keys in Redis", s.redisKeysTable}, {"cached lists", s.listsTable}, {"list sizes", s.sizesTable},
		{"nodes", s.nodesTable}, {"callers on one cold list", s.stampedeTable},
	} {
		o.progress("growth: %s", t.what)
		table, err := t.make(ctx, o)
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, nil
}

// heapNow is what this process holds after everything unused is gone.
func heapNow() float64 {
	runtime.GC()
	debug.FreeOSMemory() // collects again: what the first run only marked for finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// timePer is the CPU time of this process that one of n calls takes, in
// nanoseconds. The wall clock would count what other programs do meanwhile.
func timePer(n int, call func(i int)) float64 {
	start := cpuTime()
	for i := range n {
		call(i)
	}
	return float64(cpuTime()-start) / float64(n)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // fails for bad arguments only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// missTable shows how the rows of misses grow with the list.
func missTable(rows []*row) report.Table {
	t := report.Table{Title: "Growth: records in a missed list", Header: []string{"records", "CPU per request", "CPU per record"}}
	var x, y []float64
	for _, r := range rows {
		if r.records == 0 || len(r.Samples) == 0 {
			continue
		}
		cpu := r.CPU().Median
		x, y = append(x, float64(r.records)), append(y, cpu)
		t.Rows = append(t.Rows, []string{report.Count(r.records), report.Number(cpu) + " µs", report.Number(cpu/float64(r.records)) + " µs"})
	}
	t.Text = fmt.Sprintf("From the table of misses. Slope: %s µs per record.", report.Number(report.Slope(x, y)))
	return t
}
