package app

import (
	"bytes"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"inquiry-gateway/cache"
)

func TestConnectionsFitIntoOpenFiles(t *testing.T) {
	for _, c := range []struct {
		want  int
		files uint64
		used  int
	}{
		{10_000, 65_536, 10_000}, {10_000, 10_512, 10_000}, {10_000, 10_511, 9_999}, {10_000, 1024, 512}, {10_000, 100, 50}, {10_000, math.MaxUint64, 10_000},
	} {
		var log bytes.Buffer
		used := fitConnections(c.want, c.files, slog.New(slog.NewTextHandler(&log, nil)))
		if used != c.used || strings.Contains(log.String(), "ulimit -n") != (used < c.want) {
			t.Errorf("%+v: %d used, log: %s", c, used, &log)
		}
	}
}

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

func TestTheTierFitsTheMemoryLimit(t *testing.T) {
	for _, tt := range []struct {
		name            string
		limit, max, fit int64
	}{
		{"no limit", math.MaxInt64, 256 << 20, 256 << 20},
		{"room enough", 1 << 30, 256 << 20, 256 << 20},
		{"just room enough", 512 << 20, 256 << 20, 256 << 20},
		{"too little", 200 << 20, 256 << 20, 100 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			m := memory{limit: tt.limit, logger: slog.New(slog.NewTextHandler(&log, nil))}
			c := cache.DefaultConfig()
			c.Local.MaxBytes = tt.max
			if got := m.fit(c).Local.MaxBytes; got != tt.fit {
				t.Errorf("%d bytes, want %d", got, tt.fit)
			}
			if said := strings.Contains(log.String(), "cache.local.max_bytes"); said != (tt.fit < tt.max) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}
