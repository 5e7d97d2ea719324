package upstream

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/upstream/jsonwalk"
)

// Drift is one change in the shape of the legacy's records since the start.
type Drift struct {
	Path   string    `json:"path"` // within a record; # for the elements of an array
	Change string    `json:"change"`
	Type   string    `json:"type"` // of the value: the new one after a change
	At     time.Time `json:"at"`
}

// The changes.
const (
	driftAppeared    = "appeared"
	driftDisappeared = "disappeared"
	driftType        = "type"
)

// Bounds: of paths that are kept, of changes that are remembered, of records
// that are looked at in one reply, and of the time that it may take.
const (
	driftPaths   = 500
	driftEvents  = 100
	driftRecords = 20
	driftShare   = 100              // one part in so many of one processor
	driftTurn    = 10 * time.Second // for a reply that is to be looked at
)

// drift knows the paths in an endpoint's records. The first reply with records
// says what is usual; what comes later is told once. It is safe for concurrent
// use.
type drift struct {
	kind     string
	counters map[string]prometheus.Counter
	log      *slog.Logger
	now      func() time.Time

	mu      sync.Mutex
	due     time.Time
	records int // looked at
	paths   map[string]*shape
	events  []Drift
}

// shape is what is known of one path.
type shape struct {
	kinds   uint8 // bit per kind, null left out
	records int   // that had it
	last    int   // the number of the last record that had it
	gone    bool
}

// wants tells whether the caller should look at the next reply. It is one caller
// at a time, which keeps the cost small however many replies there are.
func (d *drift) wants() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if now.Before(d.due) {
		return false
	}
	d.due = now.Add(driftTurn)
	return true
}

// look compares records with what is known. Without any the next caller has its
// turn.
func (d *drift) look(records []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(records) == 0 {
		d.due = d.now()
		return
	}
	start := time.Now()
	learning := d.records == 0
	before := d.records
	found := map[string][]string{}
	for _, record := range records {
		d.records++
		jsonwalk.WalkShape(record, func(path []byte, k jsonwalk.Kind) {
			if change := d.see(path, k, learning); change != "" {
				found[change] = append(found[change], d.event(string(path), change, k))
			}
		})
	}
	for path, s := range d.paths {
		if s.last <= before && s.records == before && !s.gone {
			s.gone = true
			found[driftDisappeared] = append(found[driftDisappeared], d.event(path, driftDisappeared, jsonwalk.Missing))
		}
	}
	d.report(found)
	d.due = d.now().Add(driftShare * time.Since(start))
}

// see notes a value and gives the change that it means, if any.
func (d *drift) see(path []byte, k jsonwalk.Kind, learning bool) (change string) {
	s := d.paths[string(path)]
	if s == nil {
		if len(d.paths) >= driftPaths {
			return ""
		}
		s = &shape{}
		d.paths[string(path)] = s
		if !learning {
			change = driftAppeared
		}
	}
	if bit := uint8(1) << k; k > jsonwalk.Null && s.kinds&bit == 0 {
		if s.kinds != 0 && !learning && change == "" {
			change = driftType
		}
		s.kinds |= bit
	}
	if s.gone {
		s.gone, change = false, driftAppeared
	}
	if s.last < d.records {
		s.last = d.records
		s.records++
	}
	return change
}

// event remembers a change, at the cost of the oldest one, and gives the path
// back.
func (d *drift) event(path, change string, k jsonwalk.Kind) string {
	if len(d.events) == driftEvents {
		d.events = slices.Delete(d.events, 0, 1)
	}
	d.events = append(d.events, Drift{Path: path, Change: change, Type: k.String(), At: d.now()})
	return path
}

// report counts each change and writes one line for each sort of it.
func (d *drift) report(found map[string][]string) {
	for change, paths := range found {
		d.counters[change].Add(float64(len(paths)))
		slices.Sort(paths)
		more := len(paths)
		paths = paths[:min(len(paths), 20)]
		d.log.Warn("the shape of the legacy's records changed", "kind", d.kind, "change", change, "fields", more, "paths", strings.Join(paths, " "))
	}
}

// Drift gives the changes in the shape of a kind's records that were seen since
// the start, the oldest first; at most the last hundred.
func (c *Client) Drift(kind string) []Drift {
	e, ok := c.endpoints[kind]
	if !ok {
		return nil
	}
	e.drift.mu.Lock()
	defer e.drift.mu.Unlock()
	return slices.Clone(e.drift.events)
}
