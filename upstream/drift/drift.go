// Package drift tells when the shape of the legacy's records changes.
package drift

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/upstream/jsonwalk"
)

// Change is one change in the shape of the records since the start.
type Change struct {
	Path   string // within a record; # for the elements of an array
	Change string // appeared, disappeared or type
	Type   string // of the value: the new one after a change
	At     time.Time
}

// The changes.
const (
	Appeared    = "appeared"
	Disappeared = "disappeared"
	Type        = "type"
)

// Records is how many records of one reply are worth comparing.
const Records = 20

// Bounds of the memory and the time that a Watcher takes.
const (
	maxPaths     = 500
	maxChanges   = 100
	maxLogged    = 20               // paths in one line of the log
	costShare    = 100              // one part in so many of one processor
	compareAfter = 10 * time.Second // the next caller's turn, if this one never compares
)

// Watcher knows the paths in an endpoint's records. The first reply with records
// says what is usual; what comes later is told once. It is safe for concurrent
// use.
type Watcher struct {
	kind     string
	counters map[string]prometheus.Counter
	log      *slog.Logger
	now      func() time.Time

	mu      sync.Mutex
	due     time.Time
	records int // compared
	paths   map[string]*shape
	changes []Change
}

// New makes the watcher of a kind's records. counters has one counter for each of
// the changes.
func New(kind string, counters map[string]prometheus.Counter, log *slog.Logger, now func() time.Time) *Watcher {
	return &Watcher{kind: kind, counters: counters, log: log, now: now, paths: map[string]*shape{}}
}

// shape is what is known of one path.
type shape struct {
	kinds   uint8 // bit per kind, null left out
	records int   // that had it
	last    int   // the number of the last record that had it
	gone    bool
}

// Due tells whether the caller should compare the next reply. It is one caller
// at a time, which keeps the cost small however many replies there are.
func (w *Watcher) Due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if now.Before(w.due) {
		return false
	}
	w.due = now.Add(compareAfter)
	return true
}

// Compare compares records with what is known. Without any the next caller has its
// turn.
func (w *Watcher) Compare(records []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(records) == 0 {
		w.due = w.now()
		return
	}
	start := time.Now()
	learning := w.records == 0
	before := w.records
	found := map[string][]string{}
	for _, record := range records {
		w.records++
		jsonwalk.WalkShape(record, func(path []byte, k jsonwalk.Kind) {
			if change := w.see(path, k, learning); change != "" {
				found[change] = append(found[change], w.note(string(path), change, k))
			}
		})
	}
	for path, s := range w.paths {
		if s.last <= before && s.records == before && !s.gone && !w.emptied(path, before) {
			s.gone = true
			found[Disappeared] = append(found[Disappeared], w.note(path, Disappeared, jsonwalk.Missing))
		}
	}
	w.report(found)
	w.due = w.now().Add(costShare * time.Since(start))
}

// emptied tells whether a path within an array is missing because the array had no
// elements in a record since then.
func (w *Watcher) emptied(path string, before int) bool {
	array, _, within := strings.Cut(path, ".#")
	s := w.paths[array]
	return within && s != nil && s.last > before
}

// within tells whether paths below this one are known: then a null, or an array or object
// without anything in it, is no news.
func (w *Watcher) within(path string) bool {
	for known := range w.paths {
		if strings.HasPrefix(known, path+".") {
			return true
		}
	}
	return false
}

// see notes a value and gives the change that it means, if any.
func (w *Watcher) see(path []byte, k jsonwalk.Kind, learning bool) (change string) {
	s := w.paths[string(path)]
	if s == nil {
		if len(w.paths) >= maxPaths {
			return ""
		}
		if !learning && (k != jsonwalk.Null && k != jsonwalk.Array && k != jsonwalk.Object || !w.within(string(path))) {
			change = Appeared
		}
		s = &shape{}
		w.paths[string(path)] = s
	}
	if bit := uint8(1) << k; k > jsonwalk.Null && s.kinds&bit == 0 {
		if s.kinds != 0 && !learning && change == "" {
			change = Type
		}
		s.kinds |= bit
	}
	if s.gone {
		s.gone, change = false, Appeared
	}
	if s.last < w.records {
		s.last = w.records
		s.records++
	}
	return change
}

// note keeps a change, at the cost of the oldest one, and gives the path
// back.
func (w *Watcher) note(path, change string, k jsonwalk.Kind) string {
	if len(w.changes) == maxChanges {
		w.changes = slices.Delete(w.changes, 0, 1)
	}
	w.changes = append(w.changes, Change{Path: path, Change: change, Type: k.String(), At: w.now()})
	return path
}

// report counts each change and writes one line for each sort of it.
func (w *Watcher) report(found map[string][]string) {
	for change, paths := range found {
		w.counters[change].Add(float64(len(paths)))
		slices.Sort(paths)
		more := len(paths)
		paths = paths[:min(len(paths), maxLogged)]
		w.log.Warn("the shape of the legacy's records changed", "kind", w.kind, "change", change, "fields", more, "paths", strings.Join(paths, " "))
	}
}

// Changes are those that were seen since the start, the oldest first; at most the
// last hundred.
func (w *Watcher) Changes() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changes)
}
