package measure

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process group has used so far.
type Usage struct {
	CPU  time.Duration // user and system time of all threads, in steps of 10 ms
	RSS  int64         // resident now, bytes; memory that processes share counts for each
	Peak int64         // sum of the processes' highest resident sizes, bytes
}

// UsageOf sums up a process group. An empty group is an error; a process that
// ends meanwhile is left out.
func UsageOf(group int) (Usage, error) {
	// Varnish and nginx have several processes; each leads none of its own, so all are
	// in the group of the one that was started.
	all, err := procfs.AllProcs()
	if err != nil {
		return Usage{}, err
	}
	var sum Usage
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil || stat.PGRP != group {
			continue
		}
		if status, err := p.NewStatus(); err == nil {
			sum.CPU += time.Duration(stat.CPUTime() * float64(time.Second))
			sum.RSS += int64(status.VmRSS)
			sum.Peak += int64(status.VmHWM)
		}
	}
	if sum.RSS == 0 {
		return sum, fmt.Errorf("no process runs in group %d", group)
	}
	return sum, nil
}

// Heap has counters of a Go process since its start.
type Heap struct {
	TotalAlloc float64       // bytes allocated
	Mallocs    float64       // objects allocated
	GC         time.Duration // CPU time of collections
}

// ParseHeap reads the statistics at the end of /debug/pprof/heap?debug=1 of a
// process that runs on this machine since started.
func ParseHeap(text []byte, started time.Time) (Heap, error) {
	found := make(map[string]float64)
	for line := range bytes.Lines(text) {
		var name string
		var value float64
		if n, _ := fmt.Sscanf(string(line), "# %s = %g", &name, &value); n == 2 {
			found[name] = value
		}
	}
	for _, name := range []string{"TotalAlloc", "Mallocs", "LastGC", "GCCPUFraction"} {
		if _, ok := found[name]; !ok {
			return Heap{}, fmt.Errorf("the heap profile has no %s", name)
		}
	}
	h := Heap{TotalAlloc: found["TotalAlloc"], Mallocs: found["Mallocs"]}
	if last := time.Unix(0, int64(found["LastGC"])); last.After(started) {
		// The share is of the CPU time that all processors had until the last collection.
		h.GC = time.Duration(found["GCCPUFraction"] * float64(runtime.GOMAXPROCS(0)) * float64(last.Sub(started)))
	}
	return h, nil
}
