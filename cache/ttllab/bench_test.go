package ttllab

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The lab sits on the hit path: what a look-up costs there, by the share of lists that
// are watched.
func BenchmarkLook(b *testing.B) {
	for name, lists := range map[string]int{"few": 2500, "many": 100_000} {
		b.Run(name, func(b *testing.B) {
			n := full(b, lists)
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(lists-1))
			trace := make([]uint64, 1<<16)
			for i := range trace {
				trace[i] = mix(zipf.Uint64())
			}
			g, i := (*n.live.Load())[0], 0
			b.ReportAllocs()
			for b.Loop() {
				if g.look(n.rings.current.Load(), trace[i&(1<<16-1)], int64(i)); i&(1<<13-1) == 0 {
					n.rings.turn(func(uint8, note) {})
				}
				i++
			}
		})
	}
}

func full(b testing.TB, lists int) *node {
	b.Helper()
	n := newNode(b, Policy{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second, Jitter: 0.1}, defaultLists, Config{}, nil)
	for i := range 2 * lists {
		n.ask(mix(uint64(i%lists)), time.Duration(i)*time.Millisecond)
		if i%1000 == 0 {
			n.Step()
		}
	}
	return n
}

func BenchmarkReport(b *testing.B) {
	n := full(b, 100_000)
	for b.Loop() {
		n.Report()
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	n, i := full(t, 20_000), uint64(0)
	g := (*n.live.Load())[0]
	if got := testing.AllocsPerRun(20_000, func() {
		g.look(n.rings.current.Load(), mix(i%20_000), int64(i))
		i++
	}); got != 0 {
		t.Errorf("%g allocations per look-up", got)
	}
}
