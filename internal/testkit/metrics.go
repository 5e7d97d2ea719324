package testkit

import "github.com/prometheus/client_golang/prometheus"

// Values reads the counters and gauges of one name, by the values of their labels
// put together. The map is empty when there are none.
func Values(from prometheus.Gatherer, name string) (map[string]float64, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, err
	}
	values := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetValue()
			}
			values[labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values, nil
}
