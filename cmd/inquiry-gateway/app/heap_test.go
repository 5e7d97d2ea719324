package app

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestCollectAt(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ live, percent int }{
		{0, 1600}, {1, 1600}, {4, 1600}, {5, 1600}, {8, 800}, {20, 400}, {33, 200}, {64, 100}, {1000, 100},
	} {
		got := collectAt(uint64(c.live) * mib)
		if got != c.percent {
			t.Errorf("with %d MiB: %d %%, want %d", c.live, got, c.percent)
		}
		if garbage := c.live * got / 100; c.live >= 4 && (garbage < 64 || c.live < 64 && garbage > 128) {
			t.Errorf("with %d MiB: %d MiB of garbage", c.live, garbage)
		}
	}
}

// A heap that grows is collected at Go's own goal again.
func TestSpareCollections(t *testing.T) {
	old := debug.SetGCPercent(100)
	defer debug.SetGCPercent(old)
	t.Setenv("GOGC", "")
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	settles := func(want func(int) bool) int {
		for range 100 {
			runtime.GC()
			if want(percent()) {
				break
			}
			runtime.Gosched()
		}
		return percent()
	}
	SpareCollections()
	if p := settles(func(p int) bool { return p > 100 }); p <= 100 {
		t.Errorf("a small heap is collected at %d %%", p)
	}
	large := make([]byte, 2*minGarbage)
	if p := settles(func(p int) bool { return p == 100 }); p != 100 {
		t.Errorf("a large heap is collected at %d %%", p)
	}
	runtime.KeepAlive(large)
}
