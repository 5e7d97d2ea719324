package drift

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// settled is how long a path must not be missing before it is said to be back, so
// that one account's odd records do not fill the log.
const settled = 10 * time.Minute

// Always watches paths that every record has. It is safe for concurrent use. Nil
// watches nothing.
type Always struct {
	kind    string
	paths   []string
	counter prometheus.Counter
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	missing []time.Time // when each path was last missing; zero: it is not
}

// NewAlways makes the watcher of a kind's paths; nil if there are none. counter counts
// each path of each list that lacks it.
func NewAlways(kind string, paths []string, counter prometheus.Counter, log *slog.Logger, now func() time.Time) *Always {
	if len(paths) == 0 {
		return nil
	}
	return &Always{kind: kind, paths: paths, counter: counter, log: log, now: now, missing: make([]time.Time, len(paths))}
}

// See takes what one list tells: how many of its records were looked at, and how many
// lack each path. Each path is logged once when it begins to be missing, and once
// when it was not for ten minutes.
func (a *Always) See(records int, lacking []int) {
	if a == nil || records == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for i, n := range lacking {
		last := &a.missing[i]
		switch {
		case n > 0:
			a.counter.Inc()
			if last.IsZero() {
				a.log.Warn("a path that every record should have is missing", "kind", a.kind, "path", a.paths[i], "records", n, "of", records)
			}
			*last = now
		case !last.IsZero() && now.Sub(*last) >= settled:
			a.log.Info("a path that was missing is back", "kind", a.kind, "path", a.paths[i])
			*last = time.Time{}
		}
	}
}
