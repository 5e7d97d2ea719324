package rate

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts decisions with counters that are made once.
type metrics struct {
	decisions [2][2]prometheus.Counter // [allowed][by the fleet]
	leases    map[string]prometheus.Counter
	fallback  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_rate_limit_decisions_total",
		Help: "Decisions of the rate limit by result, and by who decided: the fleet's tokens or the node alone.",
	}, []string{"result", "by"})
	leases := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_rate_limit_leases_total",
		Help: "Batches of tokens asked of Redis by result.",
	}, []string{"result"})
	m := &metrics{
		leases: make(map[string]prometheus.Counter),
		fallback: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "inquiry_gateway_rate_limit_fallback",
			Help: "1 while Redis is away and the node limits on its own.",
		}),
	}
	for allowed, result := range []string{"limited", "allowed"} {
		for fleet, by := range []string{"node", "fleet"} {
			m.decisions[allowed][fleet] = decisions.WithLabelValues(result, by)
		}
	}
	for _, result := range []string{leaseFull, leasePartial, leaseDenied, leaseFailed} {
		m.leases[result] = leases.WithLabelValues(result)
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(decisions), reg.Register(leases), reg.Register(m.fallback))
}

func (m *metrics) count(v verdict) { m.decisions[index(v.Allowed)][index(v.fleet)].Inc() }

func (m *metrics) leased(result string) { m.leases[result].Inc() }

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
