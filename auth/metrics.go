package auth

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of authentication that are not reasons of a Denial.
const (
	resultOK          = "ok"
	resultMissing     = "missing"
	resultMultiple    = "multiple"
	resultUnavailable = "unavailable"
	resultLimited     = "limited"
	resultCanceled    = "canceled" // the caller left while the store was asked
)

// counters are the series of one counter, by the value of its one label. They are
// made once: looking one up by label costs more than the rest of a hit.
type counters map[string]prometheus.Counter

func newCounters(vec *prometheus.CounterVec, results ...string) counters {
	c := make(counters, len(results))
	for _, result := range results {
		c[result] = vec.WithLabelValues(result)
	}
	return c
}

// newResults makes the counters of the outcomes of Authenticate.
func newResults(opts Options) (counters, error) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_auth_requests_total",
		Help: "Authentications by result: ok, or why the request was refused.",
	}, []string{"result"})
	return newCounters(vec, resultOK, resultMissing, resultMultiple, resultUnavailable, resultCanceled, resultLimited,
		ReasonMalformed, ReasonChecksum, ReasonUnknown, ReasonExpired, ReasonRevoked), opts.Register(vec)
}

// resultOf names the outcome of Authenticate with a bounded label.
func resultOf(err error) string {
	if err == nil {
		return resultOK
	}
	var denial *Denial // declared here, as it is allocated
	switch {
	case errors.Is(err, ErrUnavailable): // first: what a store wraps is not ours to trust
		if errors.Is(err, context.Canceled) {
			return resultCanceled
		}
		return resultUnavailable
	case errors.Is(err, ErrMissingKey):
		return resultMissing
	case errors.Is(err, ErrMultipleCredentials):
		return resultMultiple
	case errors.Is(err, ErrTooManyAttempts):
		return resultLimited
	case errors.As(err, &denial):
		return denial.Reason
	}
	return resultUnavailable
}

// Register registers every collector, or says which could not be. Without a
// Registerer the collectors just count.
func (o Options) Register(collectors ...prometheus.Collector) error {
	if o.Registerer == nil {
		return nil
	}
	var errs []error
	for _, c := range collectors {
		errs = append(errs, o.Registerer.Register(c))
	}
	return errors.Join(errs...)
}

// The results of asking a remote store.
const (
	lookupFound   = "found"
	lookupUnknown = "unknown"
	lookupFailed  = "failed"  // not reached, too slow, or an error
	lookupGarbage = "garbage" // an answer that makes no sense
	lookupBusy    = "busy"    // not asked: maxLookups were under way
	lookupLimited = "limited" // not asked: the client sends too many unknown keys
)

// ErrGarbage marks answers of a store that make no sense. They let nobody in
// and say nothing about the key.
var ErrGarbage = errors.New("the key store's answer makes no sense")

// lookupMetrics counts the lookups in a remote store. What is stored on the node
// needs none: requests less lookups are the hits.
type lookupMetrics struct {
	results  counters
	duration prometheus.Histogram
}

func newLookupMetrics(store string, opts Options) (*lookupMetrics, error) {
	labels := prometheus.Labels{"store": store}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        "inquiry_gateway_auth_lookups_total",
		Help:        "Lookups in the key store by result; keys that are stored on the node need none.",
		ConstLabels: labels,
	}, []string{"result"})
	m := &lookupMetrics{
		results: newCounters(vec, lookupFound, lookupUnknown, lookupFailed, lookupGarbage, lookupBusy, lookupLimited),
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
	return m, opts.Register(vec, m.duration)
}

// lookupResult names the outcome of a lookup with a bounded label.
func lookupResult(err error) string {
	switch {
	case err == nil:
		return lookupFound
	case errors.Is(err, ErrUnknownKey):
		return lookupUnknown
	case errors.Is(err, ErrGarbage):
		return lookupGarbage
	}
	return lookupFailed
}
