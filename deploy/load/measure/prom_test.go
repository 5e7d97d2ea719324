package measure

import (
	"testing"
	"time"
)

const metricsText = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",endpoint="a"} 10
requests_total{code="304",endpoint="a"} 2.5e1
requests_total{code="200",endpoint="b c"} 100
requests_total_other{code="200"} 1000
up 1
broken
`

const heapText = `heap profile: 1: 2 [3: 4] @ heap/1048576
1: 2 [3: 4] @ 0x1 0x2
# runtime.MemStats
# Alloc = 439608
# TotalAlloc = 67377888
# Mallocs = 733643
# LastGC = 1795263281808016357
# GCCPUFraction = 0.25
# DebugGC = false
`

func TestSeriesSum(t *testing.T) {
	s := ParseSeries([]byte(metricsText))
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"requests_total", nil, 135},
		{"requests_total", []string{`code="200"`}, 110},
		{"requests_total", []string{`code="200"`, `endpoint="b c"`}, 100},
		{"requests_total", []string{`endpoint="b"`}, 0},
		{"requests_total", []string{`ode="200"`}, 0},
		{"up", nil, 1},
		{"down", nil, 0},
	} {
		if got := s.Sum(c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

func TestSeriesMinus(t *testing.T) {
	grown := Series{"a": 5, "b": 2}.Minus(Series{"a": 3, "c": 9})
	if grown["a"] != 2 || grown["b"] != 2 || len(grown) != 2 {
		t.Errorf("grown by %v", grown)
	}
}

func TestParseHeap(t *testing.T) {
	h, err := ParseHeap([]byte(heapText))
	if err != nil {
		t.Fatal(err)
	}
	want := Heap{TotalAlloc: 67377888, Mallocs: 733643, LastGC: time.Unix(0, 1795263281808016357), GCShare: 0.25}
	if h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
	if _, err := ParseHeap([]byte("heap profile: 0: 0\n")); err == nil {
		t.Error("a profile without statistics was taken")
	}
}

func TestGCTime(t *testing.T) {
	start := time.Unix(1000, 0)
	h := Heap{LastGC: start.Add(10 * time.Second), GCShare: 0.25}
	if got := h.GCTime(start, 2); got != 5*time.Second {
		t.Errorf("a quarter of two processors for 10 s is %s", got)
	}
	if got := (Heap{GCShare: 0.5}).GCTime(start, 2); got != 0 {
		t.Errorf("without any collection it is %s", got)
	}
}
