package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

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
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestSpreadIsOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 20).Draw(t, "values")
		s := SpreadOf(values)
		if s.Min > s.Median || s.Median > s.Max {
			t.Fatalf("%v: %+v", values, s)
		}
	})
}

func TestSlope(t *testing.T) {
	if got := Slope([]float64{1, 2, 3}, []float64{12, 22, 32}); got != 10 {
		t.Errorf("slope %v", got)
	}
	for _, x := range [][]float64{nil, {1}, {2, 2}} {
		if got := Slope(x, []float64{1, 5}); got != 0 {
			t.Errorf("slope over %v is %v", x, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{number(0), "0"}, {number(0.123), "0.12"}, {number(12.34), "12.3"}, {number(1234.4), "1234"}, {number(1234567), "1,234,567"},
		{micros(26.51), "26.5 µs"}, {micros(1840), "1.8 ms"},
		{Bytes(512), "512 B"}, {Bytes(10_240), "10.0 KiB"}, {Bytes(3 << 30), "3.0 GiB"},
		{Count(1000), "1,000"}, {Count(-12345), "-12,345"}, {Count(999), "999"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
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
		Machine: Machine{CPU: "A <Fast> CPU", Cores: 2, Memory: 8 << 30, Kernel: "6.1", Go: "go1.26"}, Rounds: 3, Seconds: 4, Keys: 1000, Bytes: 10240,
		Rows: []Row{
			{Name: "bare", Group: "Hits", Samples: samples(20, 25, 50)},
			{Name: "hit", Own: true, Group: "Hits", Base: "bare", Goal: Goal{Ratio: 1}, Samples: samples(22, 24, 48), Note: "a note"},
			{Name: "slow", Group: "Hits", Base: "bare", Goal: Goal{Ratio: 0.85}, Samples: samples(40, 50, 100)},
			{Name: "peer", Group: "Hits", Base: "bare", Samples: peer},
			{Name: "absent & gone", Group: "Hits", Base: "bare", Missing: "not installed"},
			{Name: "20 records", Group: "Misses", Goal: Goal{CPU: 170}, Samples: samples(1500, 1600, 1700)},
		},
		Growth: []Table{{Title: "Growth: keys", Text: "Slope: 1.", Header: []string{"keys", "bytes"}, Rows: [][]string{{"1", "2"}}}},
	}
}

func TestRatioIsTakenRoundByRound(t *testing.T) {
	r := sampleRun()
	got := r.row("hit").Ratio(r.row("bare"))
	// 22/20, 24/25, 48/50: the medians alone would give 24/25 too, the ends would not.
	if want := (Spread{0.96, 0.96, 1.1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVerdict(t *testing.T) {
	r := sampleRun()
	for name, want := range map[string][2]bool{
		"hit": {true, true}, "slow": {false, true}, "peer": {false, false}, "absent & gone": {false, false}, "20 records": {false, true},
	} {
		row := r.row(name)
		if reached, ok := row.Verdict(r.row(row.Base)); reached != want[0] || ok != want[1] {
			t.Errorf("%s: %v, %v", name, reached, ok)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := Markdown(&b, sampleRun(), "chart.svg"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"A <Fast> CPU, 2 cores, 8 GiB, Linux 6.1, go1.26", "![CPU time per request](chart.svg)",
		"| hit | **24.0 µs** (22.0 µs–48.0 µs) | **0.96** (0.96–1.10) | 100 µs / 2.0 ms | 1000 | 10.0 MiB (20.0 MiB) | 5.0 % | 2.0 KiB in 19.0 | ≤ 1.00 ×: reached |",
		"≤ 0.85 ×: **missed** |", "| absent & gone | not installed |", "≤ 170 µs: **missed**", "- hit: a note.", "## Growth: keys", "| 1 | 2 |",
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
}

func TestSVGIsWellFormedAndStaysInsideItsFrame(t *testing.T) {
	var b strings.Builder
	if err := SVG(&b, sampleRun()); err != nil {
		t.Fatal(err)
	}
	rects, own := 0, 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "rect" {
			continue
		}
		rects++
		attr := make(map[string]string)
		for _, a := range start.Attr {
			attr[a.Name.Local] = a.Value
		}
		if attr["class"] == "ours" {
			own++
		}
		x, _ := strconv.ParseFloat(attr["x"], 64)
		width, _ := strconv.ParseFloat(attr["width"], 64)
		if width <= 0 || x+width > chartWidth {
			t.Errorf("a rectangle from %v, %v wide, in a chart of %d", x, width, chartWidth)
		}
	}
	// The page and five rows with samples.
	if rects != 6 || own != 1 {
		t.Errorf("%d rectangles, %d of them the gateway's", rects, own)
	}
	for _, want := range []string{"prefers-color-scheme: dark", "A &lt;Fast&gt; CPU", "absent &amp; gone", "not installed", "0.96 × bare"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
}

func TestJSONKeepsTheSamples(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, sampleRun()); err != nil {
		t.Fatal(err)
	}
	var back Run
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	if got := back.row("hit").CPU(); got != sampleRun().row("hit").CPU() {
		t.Errorf("after a round trip: %+v", got)
	}
}

func TestMachine(t *testing.T) {
	if got := cpuModel("processor : 0\nmodel name\t: AMD  EPYC \n"); got != "AMD  EPYC" {
		t.Errorf("model %q", got)
	}
	if got := cpuModel("processor : 0\n"); got != "unknown" {
		t.Errorf("model %q", got)
	}
	if got := memory("MemTotal:       24684032 kB\nMemFree: 1 kB\n"); got != 24684032<<10 {
		t.Errorf("memory %d", got)
	}
	if got := kernelRelease("6.18.44-somebody-v1\n"); got != "6.18.44" {
		t.Errorf("kernel %q", got)
	}
	if got := kernelRelease(""); got != "unknown" {
		t.Errorf("kernel %q", got)
	}
}
