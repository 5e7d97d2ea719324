package ttllab

import "time"

// Candidates returns the TTLs that are simulated, ascending.
func Candidates() []time.Duration { return append([]time.Duration(nil), candidates[:]...) }

// Watcher is what a Lab tells the look-ups of one group of lists, with a sample of any size.
type Watcher struct{ *estimator }

// NewWatcher watches so many keys, and forgets nothing.
func NewWatcher(p Policy, keys int) Watcher {
	return Watcher{newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: p}}, keys: keys})}
}

// Looked tells of a look-up.
func (w Watcher) Looked(hash uint64, now time.Time) { w.kinds[0].looked(hash, now) }

// Filled tells of a fill.
func (w Watcher) Filled(a Answer, size int) { w.kinds[0].filled(fill{Answer: a, bytes: size}) }

// Report is that of the group.
func (w Watcher) Report(now time.Time) KindReport { return w.report(now).Kinds[0] }
