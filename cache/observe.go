package cache

import "time"

// Observer watches what the cache does, for statistics. Its methods are called
// from many goroutines, Looked on the hot path: they must be quick, never block
// and never allocate. The key's strings may belong to a request and must be
// copied to be kept.
type Observer interface {
	// Name gives a list a number that Looked is told, so that the list need not be
	// hashed at every look-up. It is the same for equal keys.
	Name(k Key) uint64
	// Looked tells of a look-up: of a hit when it is served, of any other before
	// the fill that it may begin, so that the order is that of the events.
	Looked(k Key, name uint64, now time.Time)
	// Filled tells of a fill that has ended; e is nil when err is not.
	Filled(k Key, e *Entry, err error)
}

// looked tells the observer.
func (l *Lists) looked(k Key, name uint64, now time.Time) {
	if l.opts.Observer != nil {
		l.opts.Observer.Looked(k, name, now)
	}
}

// nameOf is the observer's name of a list; 0 without one.
func (l *Lists) nameOf(k Key) uint64 {
	if l.opts.Observer == nil {
		return 0
	}
	return l.opts.Observer.Name(k)
}
