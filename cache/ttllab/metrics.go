package ttllab

import (
	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
)

var (
	rechecksDesc = prometheus.NewDesc("inquiry_gateway_cache_rechecks_total", "Lists compared with the legacy after they were served from the cache, by kind and by whether they had changed. Absent while re-checks are off.", []string{"kind", "result"}, nil)
	answersDesc  = prometheus.NewDesc("inquiry_gateway_cache_rechecked_answers_total", "Answers out of the cache that the re-checks stand for, estimated, by kind and by whether they were outdated. Absent while re-checks are off.", []string{"kind", "result"}, nil)
	nodesDesc    = prometheus.NewDesc("inquiry_gateway_cache_lab_nodes", "Nodes whose look-ups the TTL lab of this node has: itself and those that share its Redis.", nil, nil)
	lostDesc     = prometheus.NewDesc("inquiry_gateway_cache_lab_lost_lookups_total", "Look-ups of watched lists that were too many to be noted, and all that were noted while Redis did not answer, of all nodes; the TTL lab's figures lack them.", nil, nil)
	goalDesc     = prometheus.NewDesc("inquiry_gateway_cache_goal_outdated_ratio", "Share of answers that may be outdated, by cache.goals.max_outdated. Absent without that goal.", nil, nil)
)

// Describe sends the series' descriptions.
func (l *Lab) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{rechecksDesc, answersDesc, nodesDesc, lostDesc, goalDesc} {
		ch <- d
	}
}

// Collect sends what was counted; lists of a status count with their kind, so that
// the labels stay bounded whatever is configured. What is off is left out: a zero
// would look like a gateway that serves nothing outdated.
func (l *Lab) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	l.mu.Lock()
	goal, nodes, lost := l.goals.MaxOutdated, l.state.nodes, l.state.lost+l.unsent
	l.mu.Unlock()
	send(nodesDesc, prometheus.GaugeValue, float64(nodes))
	send(lostDesc, prometheus.CounterValue, float64(lost))
	if goal > 0 {
		send(goalDesc, prometheus.GaugeValue, goal)
	}
	if l.rechecks.budget.Limit() == 0 {
		return
	}
	l.rechecks.mu.Lock()
	counts := l.rechecks.counts
	l.rechecks.mu.Unlock()
	for i, kind := range [...]string{cache.KindBuyer, cache.KindSeller} {
		for j, result := range [...]string{"same", "outdated"} {
			send(rechecksDesc, prometheus.CounterValue, counts[i][j].checked, kind, result)
			send(answersDesc, prometheus.CounterValue, counts[i][j].answers, kind, result)
		}
	}
}
