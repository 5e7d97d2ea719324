package cache

// Observer watches what the cache does, for statistics. Its methods are called
// from many goroutines, Looked on the hot path: they must be quick, never block
// and never allocate. The key's strings may belong to a request and must be
// copied to be kept.
type Observer interface {
	// Looked tells of a look-up: of a hit when it is served, of any other before
	// the fill that it may begin, so that the order is that of the events.
	Looked(k Key)
	// Filled tells of a fill that has ended; e is nil when err is not.
	Filled(k Key, e *Entry, err error)
}

// Size is what the entry takes in Redis, in bytes, before sealing.
func (e *Entry) Size() int { return len(e.raw) }

// looked tells the observer.
func (l *Lists) looked(k Key) {
	if l.opts.Observer != nil {
		l.opts.Observer.Looked(k)
	}
}
