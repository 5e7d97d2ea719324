package localcache

import (
	"runtime"
	"sync"
	"weak"
)

// Weak finds values by name while somebody else holds them, so that it is never larger than what
// the holders keep. The zero value is empty. It is safe for concurrent use.
type Weak[V any] struct {
	mu sync.Mutex
	by map[string]weak.Pointer[V]
}

// Find gives the value of a name; nil: nobody holds one.
func (w *Weak[V]) Find(name string) *V {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by[name].Value()
}

// Of gives the one value of a name, a new one where nobody holds one.
func (w *Weak[V]) Of(name string) *V {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.by[name].Value(); v != nil {
		return v
	}
	// The name is in it because the runtime keeps small values without pointers together, and then
	// none of these ends before all do.
	named := &struct {
		name  string
		value V
	}{name: name}
	if w.by == nil {
		w.by = map[string]weak.Pointer[V]{}
	}
	w.by[name] = weak.Make(&named.value)
	runtime.AddCleanup(&named.value, w.drop, name)
	return &named.value
}

// Len is how many there are.
func (w *Weak[V]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.by)
}

// drop forgets a value that nobody holds any more.
func (w *Weak[V]) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[name].Value() == nil {
		delete(w.by, name)
	}
}
