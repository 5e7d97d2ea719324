package ttllab

import "time"

// Candidates returns the TTLs that are simulated, ascending.
func Candidates() []time.Duration { return append([]time.Duration(nil), candidates[:]...) }
