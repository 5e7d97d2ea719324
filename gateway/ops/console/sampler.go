package console

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	sampleEvery = time.Second
	kept        = 15 * time.Minute // how far back the console looks
	chartSpan   = 10 * time.Second // what one point of a chart covers
	tileSpan    = time.Minute      // what the figures at the top cover
	maxSamples  = int(kept/sampleEvery) + 1
)

// sample is the state at one moment. Counters and histograms have grown since
// the first sample: a counter that starts again, as a reload makes those of the
// legacy's client do, is added to what it had before.
type sample struct {
	at         time.Time
	counters   []float64
	gauges     []float64
	histograms []histogram
}

// sampler reads the metrics and remembers the last quarter of an hour. It has no
// goroutine of its own; take is called by one, the rest by many.
type sampler struct {
	gatherer prometheus.Gatherer
	now      func() time.Time
	schema   *schema
	columns  []column

	mu      sync.RWMutex
	last    sums // as gathered
	samples ring[sample]
	points  ring[point]
	totals  []totalGroup
	err     error // of the last gathering
}

func newSampler(gatherer prometheus.Gatherer, now func() time.Time) *sampler {
	return &sampler{gatherer: gatherer, now: now, schema: newSchema(), columns: columns()}
}

// take gathers once. Whatever could be gathered is used, also beside an error.
func (s *sampler) take() {
	families, err := s.gatherer.Gather()
	read, totals := s.schema.read(families), totalsOf(families)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	next := sample{at: s.now(), gauges: read.gauges}
	if s.samples.len() == 0 {
		next.counters = make([]float64, len(read.counters))
		next.histograms = make([]histogram, len(read.histograms))
	} else {
		next.grow(s.samples.at(s.samples.len()-1), s.last, read)
	}
	s.last, s.totals = read, totals
	s.samples.push(next)
	s.points.push(s.point())
}

// grow sets the counters of n to those of before plus what came since.
func (n *sample) grow(before sample, then, now sums) {
	n.counters = make([]float64, len(now.counters))
	for i, value := range now.counters {
		n.counters[i] = before.counters[i] + value
		if value >= then.counters[i] {
			n.counters[i] -= then.counters[i]
		}
	}
	n.histograms = make([]histogram, len(now.histograms))
	for i, value := range now.histograms {
		increase := value
		if value.total() >= then.histograms[i].total() {
			increase = value.minus(then.histograms[i])
		}
		n.histograms[i] = before.histograms[i].plus(increase)
	}
}

// span is what happened in the last d, or since the first sample where that is
// less. The caller holds mu and has made sure of a sample.
func (s *sampler) span(d time.Duration) span {
	newest := s.samples.at(s.samples.len() - 1)
	oldest := newest
	for i := s.samples.len() - 1; i >= 0; i-- {
		if oldest = s.samples.at(i); newest.at.Sub(oldest.at) >= d {
			break
		}
	}
	return span{schema: s.schema, from: oldest, to: newest}
}

// span is the time between two samples.
type span struct {
	schema   *schema
	from, to sample
}

func (s span) seconds() float64 { return s.to.at.Sub(s.from.at).Seconds() }

// increase is by how much counters grew, together.
func (s span) increase(names ...string) float64 {
	sum := 0.0
	for _, name := range names {
		i := s.schema.index[name]
		sum += s.to.counters[i] - s.from.counters[i]
	}
	return sum
}

// rate is the increase per second; NaN before there are two samples.
func (s span) rate(names ...string) float64 { return ratio(s.increase(names...), s.seconds()) }

// quantile is over histograms of one family together.
func (s span) quantile(q float64, names ...string) float64 {
	var all histogram
	for _, name := range names {
		i := s.schema.index[name]
		all = all.plus(s.to.histograms[i].minus(s.from.histograms[i]))
	}
	return all.quantile(q)
}

// gauge is the value at the end; NaN where there is no such series.
func (s span) gauge(name string) float64 { return s.to.gauges[s.schema.index[name]] }

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return math.NaN()
	}
	return part / whole
}

// ring keeps the last maxSamples values. Its zero value is empty.
type ring[T any] struct {
	values []T
	start  int
}

func (r *ring[T]) push(v T) {
	if len(r.values) < maxSamples {
		r.values = append(r.values, v)
		return
	}
	r.values[r.start] = v
	r.start = (r.start + 1) % maxSamples
}

func (r *ring[T]) len() int { return len(r.values) }

// at counts from the oldest.
func (r *ring[T]) at(i int) T { return r.values[(r.start+i)%len(r.values)] }
