package console

import (
	"encoding/json"
	"testing"
)

// What the console costs a gateway that nobody looks at: one sample every 2 seconds.
// It decides that the sampler may run always.
func BenchmarkSample(b *testing.B) {
	f := newFeed()
	for n := range 10 {
		f.step(n)
	}
	c, err := New(f.options(Options{}))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.sampler.take()
	}
}

// What an open page costs on top of it, each time.
func BenchmarkState(b *testing.B) {
	f := newFeed()
	c, err := New(f.options(Options{}))
	if err != nil {
		b.Fatal(err)
	}
	fillHistory(c, f, &clock{}, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(c.state()); err != nil {
			b.Fatal(err)
		}
	}
}
