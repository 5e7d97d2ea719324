package console

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"
)

// steps is a sampler with a feed and a clock that moves with each sample.
type steps struct {
	*feed
	*sampler
	at time.Time
}

func newSteps() *steps {
	s := &steps{feed: newFeed(), at: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	s.sampler = newSampler(s.options(Options{Now: func() time.Time { return s.at }}))
	s.take()
	return s
}

func (s *steps) next() {
	s.at = s.at.Add(sampleEvery)
	s.take()
}

func TestRates(t *testing.T) {
	s := newSteps()
	for range 15 {
		s.count("cache_lookups_total", 6, "buyer", "hit", "local")
		s.count("cache_lookups_total", 2, "buyer", "hit", "redis")
		s.count("cache_lookups_total", 1, "buyer", "stale-revalidate", "local")
		s.count("cache_lookups_total", 1, "seller", "miss", "")
		s.count("http_requests_total", 1, "buyer_inquiries", "503")
		s.count("auth_requests_total", 3, "ok")
		s.count("auth_requests_total", 2, "expired")
		s.next()
	}
	over := s.window(pointSpan)
	for name, c := range map[string]struct{ got, want float64 }{
		"seconds":       {over.seconds, 10},
		"hits":          {over.rate("lookups.hit.buyer"), 4},
		"ratio":         {over.hitRatio(kinds[:]...), .9},
		"of sellers":    {over.hitRatio("seller"), 0},
		"5xx":           {over.rate("answers.failed"), .5},
		"refused":       {over.rate("refused"), 1},
		"not used":      {over.rate("foreign.buyer"), 0},
		"over a minute": {s.window(minuteSpan).seconds, 30},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if v := over.gauge("breaker.redis"); !math.IsNaN(v) {
		t.Errorf("a breaker that is not there is %v", v)
	}
}

// A reload replaces the series of the legacy's client, which begin at 0 again.
func TestCountersThatBeginAgain(t *testing.T) {
	var parts []prometheus.Gatherer
	var s *sampler
	at := time.Unix(1e9, 0)
	generation := func(fetches int) {
		f := newFeed()
		f.count("upstream_requests_total", fetches, "buyer", "ok")
		for range fetches {
			f.observe("upstream_request_duration_seconds", .5, "buyer")
		}
		parts = []prometheus.Gatherer{f.registry}
		s.take()
		at = at.Add(time.Second)
	}
	opts := newFeed().options(Options{Now: func() time.Time { return at }})
	opts.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return prometheus.Gatherers(parts).Gather() })
	s = newSampler(opts)
	for _, fetches := range []int{100, 110, 3, 5} {
		generation(fetches)
	}
	all := s.window(kept)
	if n := all.sum("fetches.ok.buyer"); n != 15 {
		t.Errorf("%v fetches, want 10 + 3 + 2", n)
	}
	total := 0.0
	for _, sample := range all.samples {
		total += sample.histograms[s.readings.index["fetch.buyer"]].total()
	}
	if total != 15 {
		t.Errorf("%v durations, want 15", total)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := newSteps()
	for range maxSamples + 10 {
		s.next()
	}
	if len(s.samples) != maxSamples || s.window(kept).seconds != kept.Seconds() {
		t.Errorf("%d samples, over %v s", len(s.samples), s.window(kept).seconds)
	}
	if s.samples[0].histograms != nil || s.window(figureSpan).samples[0].histograms == nil {
		t.Error("histograms are kept for another time than figures are of")
	}
	times := s.history()["t"].([]int64)
	if !slices.IsSorted(times) || times[len(times)-1] != s.at.Unix() {
		t.Error("the history is not in order")
	}
}

// The estimate lies in the bucket that holds the quantile of what was observed,
// and the ends are exact.
func TestQuantiles(t *testing.T) {
	bounds := []float64{.1, .5, 1, 5}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 5), 1, 50).Draw(t, "values")
		q := rapid.Float64Range(.01, 1).Draw(t, "q")
		h := histogram{bounds: bounds, counts: make([]float64, len(bounds)+1)}
		for _, v := range values {
			for i, b := range bounds {
				if v <= b {
					h.counts[i]++
				}
			}
			h.counts[len(bounds)]++
		}
		slices.Sort(values)
		rank := max(int(math.Ceil(q*float64(len(values))-1e-9)), 1)
		exact := values[rank-1]
		i := slices.IndexFunc(bounds, func(b float64) bool { return exact <= b })
		lower := 0.0
		if i > 0 {
			lower = bounds[i-1]
		}
		if got := h.quantile(q); got < lower-1e-9 || got > bounds[i]+1e-9 {
			t.Fatalf("quantile %v of %v is %v, outside of %v to %v", q, values, got, lower, bounds[i])
		}
	})
	for name, c := range map[string]struct {
		counts []float64
		want   float64
	}{
		"in the middle":   {[]float64{0, 10, 10, 10, 10}, .3},
		"beyond the last": {[]float64{0, 0, 0, 0, 3}, 5},
		"nothing":         {[]float64{0, 0, 0, 0, 0}, math.NaN()},
		"no series":       {nil, math.NaN()},
	} {
		h := histogram{counts: c.counts}
		if c.counts != nil {
			h.bounds = bounds
		}
		if got := h.quantile(.5); math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
