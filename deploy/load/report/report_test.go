package report

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 3}, Spread{3, 1, 5}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestSpreadIsOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 20).Draw(t, "values")
		if s := spreadOf(values); s.Min > s.Median || s.Median > s.Max {
			t.Fatalf("%v: %+v", values, s)
		}
	})
}

func samples(cpu ...float64) []Sample {
	var all []Sample
	for _, us := range cpu {
		all = append(all, Sample{Requests: 10, CPU: us, Rate: 1000, P50: 100, P99: 2000, RSS: 10, Peak: 20, Go: &Go{GCShare: 0.05, Bytes: 2048, Objects: 19}})
	}
	return all
}

func sampleRun() Run {
	peer := samples(30, 30, 30)
	for i := range peer {
		peer[i].Go = nil
	}
	return Run{
		Machine: Machine{CPU: "A CPU", Cores: 2, Memory: 8 << 30, Kernel: "6.1", Go: "go1.26", Date: "2026-01-02"}, Rounds: 3, Seconds: 4, Keys: 1000, Bytes: 10240,
		Rows: []Row{
			{Name: "bare", Group: "Hits", Samples: samples(20, 25, 50)},
			{Name: "hit", Group: "Hits", Base: "bare", Goals: []Goal{{"bare", 1}, {"peer", 0.75}, {"absent", 1}}, Samples: samples(22, 24, 48), Note: "a note", Helper: "Redis"},
			{Name: "peer", Group: "Hits", Base: "bare", Samples: peer},
			{Name: "absent", Group: "Hits", Base: "bare", Missing: "not installed", Goals: []Goal{{"bare", 1}}},
			{Name: "20 records", Group: "Misses", Samples: samples(1500, 1600, 1700)},
		},
		Growth: []Table{{Title: "Growth: keys", Text: "Slope: 1.", Header: []string{"keys", "bytes"}, Rows: [][]string{{"1", "2"}}}},
	}
}

func TestRatioIsTakenRoundByRound(t *testing.T) {
	r := sampleRun()
	// 22/20, 24/25, 48/50: the medians alone would give 24/25 too, the ends would not.
	if got, want := r.Row("hit").Ratio(r.Row("bare")), (Spread{0.96, 0.96, 1.1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := Markdown(&b, sampleRun()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"A CPU, 2 cores, 8 GiB, Linux 6.1, go1.26, 2026-01-02. Interleaved rounds: 3 of 4 s each",
		"| hit | **24.00µs** (22.00µs–48.00µs) + 0.000s Redis | **0.96** (0.96–1.10) × bare | 100.0µs / 2.000ms | 1000 | 10.00MiB (20.00MiB) | 5.0 % | 2.000KiB in 19.0 | " +
			"≤ 1.00 × bare: reached (0.96); ≤ 0.75 × peer: **missed** (0.80) |",
		"| peer | **30.00µs** (30.00µs–30.00µs) | **1.20** (0.60–1.50) × bare | 100.0µs / 2.000ms | 1000 | 10.00MiB (20.00MiB) |  |  |  |",
		"| absent | not installed |", "- hit: a note.", "## Misses", "1.600ms", "## Growth: keys", "| 1 | 2 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	columns := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		if n := strings.Count(line, "|"); columns == 0 {
			columns = n
		} else if n != columns {
			t.Errorf("%d columns instead of %d: %s", n-1, columns-1, line)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestThisMachineIsRead(t *testing.T) {
	m := ThisMachine(time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC))
	if m.CPU == "" || m.Cores < 1 || m.Memory < 1<<20 || strings.ContainsAny(m.Kernel, "-\n") || m.Date != "2026-01-02" {
		t.Errorf("%+v", m)
	}
}
