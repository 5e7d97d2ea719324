package upstream

import (
	"slices"
	"sync"
)

// maxMarks bounds the marks of one list: 64 KiB.
const maxMarks = 16 << 10

// marks are what is kept of a list's internal ids: what Options.Mark makes of each.
type marks struct {
	of   func(id string) (mark uint32, wanted bool)
	mu   sync.Mutex
	list []uint32
}

// tell is what the mapping tells of ids; nil where no marks are wanted.
func (m *marks) tell() func(id string) {
	if m.of == nil {
		return nil
	}
	if _, wanted := m.of(""); !wanted {
		return nil
	}
	return func(id string) {
		mark, _ := m.of(id)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.list) < maxMarks {
			m.list = append(m.list, mark)
		}
	}
}

// all are the marks without repetitions.
func (m *marks) all() []uint32 {
	slices.Sort(m.list)
	return slices.Clip(slices.Compact(m.list))
}
