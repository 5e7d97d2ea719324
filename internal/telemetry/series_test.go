package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/testkit"
)

func TestASeriesThatIsThereIsCountedOn(t *testing.T) {
	reg := prometheus.NewRegistry()
	for range 2 { // as after a reload
		Resolve(Series(reg, "x").Counters("things_total", "Things.", "result"), "ok", "failed")["ok"].Inc()
		Series(reg, "").With(prometheus.Labels{"store": "s"}).NativeHistograms("seconds", "Time.", []float64{1}).WithLabelValues().Observe(2)
		Series(reg, "x").GaugeFunc("size", "Size.", func() float64 { return 7 })
	}
	for name, want := range map[string]map[string]float64{
		"inquiry_gateway_x_things_total": {"ok": 2, "failed": 0},
		"inquiry_gateway_x_size":         {"": 7},
	} {
		values, err := testkit.Values(reg, name)
		if err != nil || len(values) != len(want) {
			t.Fatalf("%s: %v, %v", name, values, err)
		}
		for labels, n := range want {
			if values[labels] != n {
				t.Errorf("%s: %v, want %v", name, values, want)
			}
		}
	}
}

func TestWithoutARegistererSeriesCount(t *testing.T) {
	Series(nil, "x").Counter("things_total", "Things.").Inc()
}

func TestAnotherSeriesOfTheSameNameIsABug(t *testing.T) {
	reg := prometheus.NewRegistry()
	Series(reg, "x").Gauge("size", "Size.")
	defer func() {
		if recover() == nil {
			t.Error("it was accepted")
		}
	}()
	Series(reg, "x").Counter("size", "Another.")
}
