package rate

import (
	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/series"
)

// metrics counts decisions with counters that are made once.
type metrics struct {
	decisions [2][2]prometheus.Counter // [allowed][by the fleet]
	leases    map[string]prometheus.Counter
	fallback  prometheus.Gauge
}

// newMetrics makes every series at once, so that those which count nothing yet are there,
// too.
func newMetrics(reg prometheus.Registerer) *metrics {
	all := series.In(reg, "rate_limit")
	decisions := all.Counters("decisions_total",
		"Decisions of the rate limit by result, and by who decided: the fleet's tokens or the node alone.", "result", "by")
	m := &metrics{
		leases: series.By(all.Counters("leases_total", "Batches of tokens asked of Redis by result.", "result"),
			leaseFull, leasePartial, leaseDenied, leaseFailed),
		fallback: all.Gauge("fallback", "1 while Redis is away and the node limits on its own."),
	}
	for allowed, result := range []string{"limited", "allowed"} {
		for fleet, by := range []string{"node", "fleet"} {
			m.decisions[allowed][fleet] = decisions.WithLabelValues(result, by)
		}
	}
	return m
}

func (m *metrics) count(v verdict) { m.decisions[index(v.Allowed)][index(v.fleet)].Inc() }

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
