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

// lookups is how many timed calls make one figure.
const lookups = 200_000

// growth is a table that shows how costs follow the work: what if there were ten times
// as many?
type growth struct {
	report.Table
	sizes []int
	all   bool                                // take all sizes in a quick run, too; else two
	line  func(context.Context, int) []string // without the size
}

// growthTables fills all tables of growth, one line after the other. Each line does its
// work anew, so that no line measures what another has left behind.
func (b *bench) growthTables(ctx context.Context) []report.Table {
	tables := []report.Table{missTable(b.rows)}
	for _, g := range []growth{b.fileKeys(), b.redisKeys(), b.lists(), b.listSizes(), b.nodes()} {
		if b.quick && !g.all {
			g.sizes = g.sizes[:2]
		}
		for _, n := range g.sizes {
			err := catch(func() {
				g.Rows = append(g.Rows, append([]string{fmt.Sprint(n)}, g.line(ctx, n)...))
				check(ctx.Err()) // not every line looks at ctx
			})
			if err != nil {
				check(fmt.Errorf("%s: %w", g.Title, err))
			}
		}
		b.progress("%s: done", g.Title)
		tables = append(tables, g.Table)
	}
	return tables
}

// missTable shows how the rows of misses grow with the list.
func missTable(rows []*row) report.Table {
	t := report.Table{
		Title: "Growth: records in a missed list", Text: "From the table of misses. A further record is one more than in the line above.",
		Header: []string{"records", "CPU per request", "per record", "per further record"},
	}
	var records, before float64
	for _, r := range rows {
		if r.records == 0 || len(r.Samples) == 0 {
			continue
		}
		cpu, n := r.CPU().Median, float64(r.records)
		further := ""
		if records > 0 {
			further = report.Micros((cpu - before) / (n - records))
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(r.records), report.Micros(cpu), report.Micros(cpu / n), further})
		records, before = n, cpu
	}
	return t
}

// heapNow is what this process holds after everything unused is gone.
func heapNow() float64 {
	runtime.GC()
	debug.FreeOSMemory() // collects again: the first run only marks what has a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// timePer is the CPU time of this process for one of n calls, in microseconds.
// The wall clock would count what other programs do meanwhile.
func timePer(n int, call func(i int)) float64 {
	start := cpuTime()
	for i := range n {
		call(i)
	}
	return micros(cpuTime()-start) / float64(n)
}

// cpuTime is the user and system time of this process since its start.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // fails for bad arguments only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
