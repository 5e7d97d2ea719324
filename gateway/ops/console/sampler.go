package console

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	sampleEvery = 2 * time.Second
	kept        = time.Hour        // how far back charts and marks go
	pointSpan   = 10 * time.Second // what one point of a chart covers
	minuteSpan  = time.Minute      // what percentiles, the incident line and most judgements cover
	figureSpan  = 5 * time.Minute  // what figures cover
	rareSpan    = 15 * time.Minute // how long what must never happen is told
	maxSamples  = int(kept/sampleEvery) + 1
)

// sample is what happened since the sample before it: the increases of counters
// and histograms. Gauges are as they are. A counter that is less than before has
// begun again, as a reload makes those of the legacy's client do.
type sample struct {
	at         time.Time
	values     []float64   // by position of the reading; a gauge without a series is NaN
	histograms []histogram // the same; nil when older than figureSpan
	point      []float64   // by position of the column
}

// sampler reads the metrics and keeps the last hour of them. It has no goroutine of
// its own; take is called by one, all else by many.
type sampler struct {
	opts     Options
	readings *readings
	columns  []column

	mu       sync.RWMutex
	last     sums // as gathered
	samples  []*sample
	memory   []float64 // of maxSamples samples, so that what the console takes does not grow
	taken    int       // samples since the start
	marks    []mark
	canary   []canaryRow          // the last results
	since    map[string]time.Time // id of a rule -> since when it has something to say
	incident incident
}

// newSampler makes a sampler without a sample; state says then that there are no
// figures yet.
func newSampler(opts Options) *sampler {
	s := &sampler{opts: opts, readings: newReadings(), columns: columns(), canary: newCanaryRows(), since: map[string]time.Time{}}
	s.memory = make([]float64, maxSamples*(len(s.readings.list)+len(s.columns)))
	return s
}

// newSample is as gathered, in the memory of the oldest one. The caller holds mu.
func (s *sampler) newSample(gathered sums) *sample {
	if len(s.samples) == maxSamples {
		s.samples = slices.Delete(s.samples, 0, 1)
	}
	// The i-th sample lies where the one of an hour before it lay, which has just been
	// dropped.
	n := len(s.memory) / maxSamples
	own := s.memory[s.taken%maxSamples*n:][:n:n]
	s.taken++
	values := own[:copy(own, gathered.values):len(gathered.values)]
	return &sample{at: s.opts.Now(), values: values, histograms: slices.Clone(gathered.histograms), point: own[len(values):len(values)]}
}

// take gathers once. Whatever could be gathered is used, also beside an error.
func (s *sampler) take() {
	families, err := s.opts.Gatherer.Gather()
	gathered := s.readings.read(families)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.increases(gathered)
	s.last = gathered
	s.samples = append(s.samples, next)
	// Percentiles are over a minute at most, and figures over five: older histograms
	// are not needed, and are most of a sample.
	if old := len(s.samples) - 1 - int(figureSpan/sampleEvery); old >= 0 {
		s.samples[old].histograms = nil
	}
	w := s.windows()
	for _, c := range s.columns {
		next.point = append(next.point, c.value(w))
	}
	s.note(next)
	s.judge(w, err)
}

// increases makes the next sample out of what was gathered. The first sample is
// compared with itself. The caller holds mu.
func (s *sampler) increases(gathered sums) *sample {
	if len(s.samples) == 0 {
		s.last = gathered
	}
	next := s.newSample(gathered)
	for i, r := range s.readings.list {
		if !r.counter() {
			continue
		}
		value, before := zeroIfNone(gathered.values[i]), zeroIfNone(s.last.values[i])
		if value >= before {
			value -= before
		}
		next.values[i] = value
	}
	for i, h := range gathered.histograms {
		if before := s.last.histograms[i]; h.total() >= before.total() {
			var increase histogram // the gathered one stays as it is
			increase.accumulate(h, 1)
			increase.accumulate(before, -1)
			next.histograms[i] = increase
		}
	}
	return next
}

// zeroIfNone reads a counter that has no series yet as 0.
func zeroIfNone(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// window is what happened in some time, ending with the newest sample.
type window struct {
	readings *readings
	samples  []*sample // at least one
	seconds  float64
}

// window covers d, or less where there are not as many samples yet. The caller
// holds mu and has made sure of a sample.
func (s *sampler) window(d time.Duration) window {
	newest := len(s.samples) - 1
	from := newest
	for from > 0 && s.samples[newest].at.Sub(s.samples[from].at) < d {
		from--
	}
	// The first sample of a window only tells where it begins.
	begin := min(from+1, newest)
	return window{s.readings, s.samples[begin:], s.samples[newest].at.Sub(s.samples[from].at).Seconds()}
}

// windows are those that figures and judgements are of.
type windows struct {
	point, minute, figure, rare, hour window
	canary                            func(kind, check string) []string
}

// windows needs what window needs.
func (s *sampler) windows() windows {
	return windows{s.window(pointSpan), s.window(minuteSpan), s.window(figureSpan), s.window(rareSpan), s.window(kept), s.opts.Canary}
}

// span is as in "in the last 5 min".
func (w window) span() string { return "in the last " + duration(w.seconds) }

// sum is by how much counters grew, together.
func (w window) sum(names ...string) float64 {
	sum := 0.0
	for _, name := range names {
		i := w.readings.index[name]
		for _, s := range w.samples {
			sum += s.values[i]
		}
	}
	return sum
}

// rate is the increase per second; NaN before there are two samples.
func (w window) rate(names ...string) float64 { return ratio(w.sum(names...), w.seconds) }

// quantile is over histograms of one family together.
func (w window) quantile(q float64, name string) float64 {
	var all histogram
	for _, s := range w.samples {
		if s.histograms != nil {
			all.accumulate(s.histograms[w.readings.index[name]], 1)
		}
	}
	return all.quantile(q)
}

// gauge is the value at the end; NaN where there is no such series.
func (w window) gauge(name string) float64 {
	return w.samples[len(w.samples)-1].values[w.readings.index[name]]
}

// worst is the largest value of a gauge; NaN where there is no such series. A
// breaker that probes is half-open now and then, and open between.
func (w window) worst(name string) float64 {
	worst := math.NaN()
	for _, s := range w.samples {
		if v := s.values[w.readings.index[name]]; math.IsNaN(worst) || v > worst {
			worst = v
		}
	}
	return worst
}

// ratio is NaN where there is nothing to have a share of; JSON then has null, and
// charts a gap.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return part / whole
}
