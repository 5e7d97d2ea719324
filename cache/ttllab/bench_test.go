package ttllab

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// The lab sits on the hit path: a look-up must cost at most 1 us and allocate
// nothing, on average and in parallel too.

func full(b *testing.B, keys int) *estimator {
	b.Helper()
	e := newLab(b, 0, Policy{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second, Jitter: 0.1})
	for range 2 {
		for key := range uint64(keys) {
			e.kinds[0].looked(mix(key), start)
		}
	}
	return e
}

func bench(b *testing.B, keys int) {
	e := full(b, keys)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(keys-1))
	trace := make([]uint64, 1<<16)
	for i := range trace {
		trace[i] = mix(zipf.Uint64())
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			e.kinds[0].looked(trace[i&(1<<16-1)], start.Add(time.Duration(i)*time.Millisecond))
			i++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.ResetTimer()
		var offset atomic.Uint64
		b.RunParallel(func(pb *testing.PB) {
			i := offset.Add(7919)
			for pb.Next() {
				e.kinds[0].looked(trace[i&(1<<16-1)], start.Add(time.Duration(i)*time.Millisecond))
				i++
			}
		})
	})
}

// Every key is watched: the dearest case.
func BenchmarkLookupFewKeys(b *testing.B) { bench(b, 2500) }

// One key in twenty is watched.
func BenchmarkLookupManyKeys(b *testing.B) { bench(b, 100_000) }

// Keys that are not watched: what nearly every look-up costs on a large system.
func BenchmarkLookupUnwatched(b *testing.B) {
	e := full(b, 1_000_000)
	var keys []uint64
	for key := uint64(0); len(keys) < 1<<12; key++ {
		if h := mix(key); !e.kinds[0].shards[h%shardCount].wants(h) {
			keys = append(keys, key)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			e.kinds[0].looked(keys[i&(1<<12-1)], start)
		}
	})
}

func BenchmarkReport(b *testing.B) {
	e := full(b, 100_000)
	for i := range uint64(100_000) {
		e.kinds[0].filled(fill{Answer: Answer{Hash: mix(i), At: start.UnixNano(), Source: 1}})
		e.kinds[0].filled(fill{Answer: Answer{Hash: mix(i), At: start.Add(time.Minute).UnixNano(), Source: i % 3}})
	}
	for b.Loop() {
		e.report(start.Add(time.Hour))
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	e := newLab(t, 0, Policy{TTL: time.Second, Jitter: 0.1})
	for key := range uint64(20_000) {
		e.kinds[0].looked(key, start)
	}
	n := uint64(0)
	if got := testing.AllocsPerRun(20_000, func() {
		e.kinds[0].looked(n%20_000, at(time.Duration(n)*time.Millisecond))
		n++
	}); got != 0 {
		t.Errorf("%g allocations per look-up", got)
	}
}
