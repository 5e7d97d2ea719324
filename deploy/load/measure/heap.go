package measure

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Heap is the part of a Go process's memory statistics that a run compares:
// counters since the start of the process.
type Heap struct {
	TotalAlloc int64     // bytes allocated
	Mallocs    int64     // objects allocated
	LastGC     time.Time // end of the last collection; zero: none yet
	GCShare    float64   // of the CPU time that GOMAXPROCS offered until LastGC
}

// ParseHeap reads the comments at the end of /debug/pprof/heap?debug=1.
func ParseHeap(text []byte) (Heap, error) {
	at := bytes.LastIndex(text, []byte("# runtime.MemStats"))
	if at < 0 {
		return Heap{}, fmt.Errorf("no memory statistics in the heap profile")
	}
	found := make(map[string]string)
	for line := range bytes.Lines(text[at:]) {
		name, value, ok := bytes.Cut(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("# ")), []byte(" = "))
		if ok {
			found[string(name)] = string(value)
		}
	}
	var h Heap
	var err error
	if h.TotalAlloc, err = strconv.ParseInt(found["TotalAlloc"], 10, 64); err != nil {
		return Heap{}, fmt.Errorf("heap profile: TotalAlloc: %w", err)
	}
	if h.Mallocs, err = strconv.ParseInt(found["Mallocs"], 10, 64); err != nil {
		return Heap{}, fmt.Errorf("heap profile: Mallocs: %w", err)
	}
	last, err := strconv.ParseInt(found["LastGC"], 10, 64)
	if err != nil {
		return Heap{}, fmt.Errorf("heap profile: LastGC: %w", err)
	}
	if last > 0 {
		h.LastGC = time.Unix(0, last)
	}
	if h.GCShare, err = strconv.ParseFloat(found["GCCPUFraction"], 64); err != nil {
		return Heap{}, fmt.Errorf("heap profile: GCCPUFraction: %w", err)
	}
	return h, nil
}

// GCTime is the CPU time that collections took since the process started, on a
// number of processors.
func (h Heap) GCTime(started time.Time, processors int) time.Duration {
	if h.LastGC.IsZero() || h.LastGC.Before(started) {
		return 0
	}
	return time.Duration(h.GCShare * float64(processors) * float64(h.LastGC.Sub(started)))
}
