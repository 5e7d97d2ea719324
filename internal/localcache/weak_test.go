package localcache

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"inquiry-gateway/internal/testkit/redistest"
)

// Also of values that are so small that the runtime keeps several together.
func TestValuesThatNobodyHoldsAreForgotten(t *testing.T) {
	var w Weak[atomic.Uint64]
	held := w.Of("held")
	held.Store(7)
	for i := range 1000 {
		w.Of(fmt.Sprint("value-", i))
	}
	redistest.Eventually(t, "only the held value is left", func() bool {
		runtime.GC()
		return w.Len() == 1
	})
	if w.Of("held") != held || w.Find("held").Load() != 7 || w.Find("value-1") != nil {
		t.Error("a held value was replaced, or another one kept")
	}
	runtime.KeepAlive(held)
}
