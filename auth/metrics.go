package auth

import (
	"context"
	"errors"

	"inquiry-gateway/internal/telemetry"

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

// newResults makes the counters of the outcomes of AuthenticateFrom.
func newResults(reg prometheus.Registerer) map[string]prometheus.Counter {
	return telemetry.By(telemetry.Series(reg, "auth").Counters("requests_total", "Authentications by result: ok, or why the request was refused.", "result"),
		resultOK, resultMissing, resultMultiple, resultUnavailable, resultCanceled, resultLimited,
		ReasonMalformed, ReasonChecksum, ReasonUnknown, ReasonExpired, ReasonRevoked)
}

// resultOf names the outcome of AuthenticateFrom with a bounded label.
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
	results  map[string]prometheus.Counter
	duration prometheus.Observer
}

func newLookupMetrics(store string, reg prometheus.Registerer) *lookupMetrics {
	all := telemetry.Series(reg, "auth").With(prometheus.Labels{"store": store})
	return &lookupMetrics{
		results: telemetry.By(all.Counters("lookups_total", "Lookups in the key store by result; keys that are stored on the node need none.", "result"),
			lookupFound, lookupUnknown, lookupFailed, lookupGarbage, lookupBusy, lookupLimited),
		duration: all.NativeHistograms("lookup_duration_seconds", "How long the key store took to answer or fail.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}).WithLabelValues(),
	}
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
