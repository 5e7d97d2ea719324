package auth

import (
	"context"
	"errors"

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

// results counts the outcomes of Authenticate. Its counters are made once:
// looking one up by label costs more than the rest of a hit.
type results struct {
	byName map[string]prometheus.Counter
	ok     prometheus.Counter
}

func newResults(reg prometheus.Registerer) (*results, error) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_auth_requests_total",
		Help: "Authentications by result: ok, or why the request was refused.",
	}, []string{"result"})
	if err := register(reg, vec); err != nil {
		return nil, err
	}
	r := &results{byName: make(map[string]prometheus.Counter)}
	for _, name := range []string{
		resultOK, resultMissing, resultMultiple, resultUnavailable, resultCanceled, resultLimited,
		ReasonMalformed, ReasonChecksum, ReasonUnknown, ReasonExpired, ReasonRevoked,
	} {
		r.byName[name] = vec.WithLabelValues(name)
	}
	r.ok = r.byName[resultOK]
	return r, nil
}

func (r *results) count(err error) {
	if err == nil {
		r.ok.Inc()
		return
	}
	r.byName[resultOf(err)].Inc()
}

// resultOf names an error of Authenticate with a bounded label.
func resultOf(err error) string {
	var denial *Denial
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

// register registers every collector, or says which could not be. Without a
// Registerer the collectors just count.
func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	var errs []error
	for _, c := range collectors {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}
