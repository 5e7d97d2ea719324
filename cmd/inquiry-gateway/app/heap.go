package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// minGarbage is what may pile up between two collections at least. Go collects when as
// much garbage has come as there is live data; with few lists in memory that is every
// few misses.
const minGarbage = 64 << 20

// SpareCollections has a process with a small heap collect less often: after each
// collection it sets the goal so that at least 64 MiB of garbage may come before the next
// one. With more live data than that nothing changes, and a memory limit comes first. It
// is called once, at the start of the program. GOGC in the environment switches it off.
func SpareCollections() {
	if os.Getenv("GOGC") == "" {
		tuneCollector(100)
	}
}

// tuneCollector sets the goal, in percent of the live data, and does so again after the
// next collection, which drops what it waits on.
func tuneCollector(set int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := collectAt(live[0].Value.Uint64()); percent != set {
		debug.SetGCPercent(percent) // stops the world for a moment
		set = percent
	}
	runtime.AddCleanup(new([64]byte), tuneCollector, set)
}

// collectAt is the goal for so much live data: in steps, as setting it is not free.
func collectAt(live uint64) int {
	const most = 1600 // a heap of the smallest program: 4 MiB
	for percent := 100; percent < most; percent *= 2 {
		if live*uint64(percent)/100 >= minGarbage {
			return percent
		}
	}
	return most
}
