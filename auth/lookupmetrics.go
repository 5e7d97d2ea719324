package auth

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of asking a remote store.
const (
	lookupFound   = "found"
	lookupUnknown = "unknown"
	lookupFailed  = "failed"  // not reached, too slow, or an error
	lookupGarbage = "garbage" // an answer that makes no sense
	lookupBusy    = "busy"    // not asked: maxLookups were under way
	lookupLimited = "limited" // not asked: the client sends too many unknown keys
)

// errGarbage marks answers of a store that make no sense. They let nobody in
// and say nothing about the key.
var errGarbage = errors.New("the key store's answer makes no sense")

// lookupMetrics counts the questions to a remote store. What is remembered
// costs no question: requests less questions are the hits.
type lookupMetrics struct {
	byResult map[string]prometheus.Counter
	duration prometheus.Histogram
}

func newLookupMetrics(store string, reg prometheus.Registerer) (*lookupMetrics, error) {
	labels := prometheus.Labels{"store": store}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        "inquiry_gateway_auth_lookups_total",
		Help:        "Questions to the key store by result; remembered keys need none.",
		ConstLabels: labels,
	}, []string{"result"})
	m := &lookupMetrics{
		byResult: make(map[string]prometheus.Counter),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                            "inquiry_gateway_auth_lookup_duration_seconds",
			Help:                            "How long the key store took to answer or fail.",
			ConstLabels:                     labels,
			Buckets:                         []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}),
	}
	for _, name := range []string{lookupFound, lookupUnknown, lookupFailed, lookupGarbage, lookupBusy, lookupLimited} {
		m.byResult[name] = vec.WithLabelValues(name)
	}
	return m, register(reg, vec, m.duration)
}

func (m *lookupMetrics) count(result string) { m.byResult[result].Inc() }

func (m *lookupMetrics) time(start time.Time) { m.duration.Observe(time.Since(start).Seconds()) }

func lookupResult(err error) string {
	switch {
	case err == nil:
		return lookupFound
	case errors.Is(err, ErrUnknownKey):
		return lookupUnknown
	case errors.Is(err, errGarbage):
		return lookupGarbage
	}
	return lookupFailed
}
