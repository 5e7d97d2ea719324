package console

// mark is a moment that charts show by a line: a reload, a purge, or a breaker
// that opened or closed.
type mark struct {
	At   int64  `json:"t"`    // seconds since 1970
	Kind string `json:"kind"` // reload, purge or breaker
	Text string `json:"text"`
}

// note keeps what a sample tells of such moments, and forgets those that charts
// do not show any more. A breaker is open from the first failure to the first
// good probe: the probes between are no marks. The caller holds mu.
func (s *sampler) note(next *sample) {
	add := func(when bool, kind, text string) {
		if when {
			s.marks = append(s.marks, mark{next.at.Unix(), kind, text})
		}
	}
	value := func(of *sample, name string) float64 { return of.values[s.readings.index[name]] }
	add(value(next, "reloads.ok") > 0, "reload", "configuration reloaded")
	add(value(next, "reloads.failed") > 0, "reload", "reload failed")
	add(value(next, "purges") > 0, "purge", "purge on this node")
	if n := len(s.samples); n > 1 {
		for _, name := range append(perKind("breaker"), "breaker.redis") {
			before, after := value(s.samples[n-2], name), value(next, name)
			add(after > 0 && before == 0, "breaker", name[len("breaker."):]+" breaker opened")
			add(after == 0 && before > 0, "breaker", name[len("breaker."):]+" breaker closed")
		}
	}
	for len(s.marks) > 0 && s.marks[0].At < s.samples[0].at.Unix() {
		s.marks = s.marks[1:]
	}
	s.noteCanary(next)
}
