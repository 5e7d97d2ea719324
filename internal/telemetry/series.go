// Package telemetry makes what the parts of the program show of themselves: Prometheus
// series, the spans of traces, and the log record and count of a panic.
package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Factory makes series and registers them. If a series is registered already, as after a reload, the
// registered one is returned. Two series of one name that differ otherwise are a bug: Factory panics.
type Factory struct {
	reg    prometheus.Registerer
	prefix string
	labels prometheus.Labels
}

// Series returns the factory of a subsystem's series; their names begin with inquiry_gateway_ and the
// subsystem, which may be empty. With a nil reg they count and are not exported.
func Series(reg prometheus.Registerer, subsystem string) Factory {
	if subsystem != "" {
		subsystem += "_"
	}
	return Factory{reg: reg, prefix: "inquiry_gateway_" + subsystem}
}

// With returns a factory whose series all have these labels, too.
func (f Factory) With(labels prometheus.Labels) Factory {
	f.labels = labels
	return f
}

func (f Factory) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Name: f.prefix + name, Help: help, ConstLabels: f.labels}
}

// Counter makes a counter.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return register(f.reg, prometheus.NewCounter(prometheus.CounterOpts(f.opts(name, help))))
}

// Counters makes a counter for each value of the labels.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f.reg, prometheus.NewCounterVec(prometheus.CounterOpts(f.opts(name, help)), labels))
}

// Gauge makes a gauge.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return register(f.reg, prometheus.NewGauge(prometheus.GaugeOpts(f.opts(name, help))))
}

// Gauges makes a gauge for each value of the labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f.reg, prometheus.NewGaugeVec(prometheus.GaugeOpts(f.opts(name, help)), labels))
}

// GaugeFunc makes a gauge that calls value, which must be safe for concurrent use. If a gauge of this
// name is registered already, it stays and goes on calling its own function; value is not used.
func (f Factory) GaugeFunc(name, help string, value func() float64) {
	register(f.reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts(f.opts(name, help)), value))
}

// Histograms makes a histogram for each value of the labels, with buckets that end at the
// given values.
func (f Factory) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.histograms(prometheus.HistogramOpts{Buckets: buckets}, f.opts(name, help), labels)
}

// NativeHistograms is Histograms with native buckets beside them, which grow by a tenth.
// To observe costs 100 ns more.
func (f Factory) NativeHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.histograms(prometheus.HistogramOpts{
		Buckets:                         buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, f.opts(name, help), labels)
}

func (f Factory) histograms(o prometheus.HistogramOpts, named prometheus.Opts, labels []string) *prometheus.HistogramVec {
	o.Name, o.Help, o.ConstLabels = named.Name, named.Help, named.ConstLabels
	return register(f.reg, prometheus.NewHistogramVec(o, labels))
}

// Resolve resolves the one label of a counter, as looking it up costs more than counting. The
// series of all values exist from then on, so that a rate sees the first event.
func Resolve(counters *prometheus.CounterVec, values ...string) map[string]prometheus.Counter {
	resolved := make(map[string]prometheus.Counter, len(values))
	for _, value := range values {
		resolved[value] = counters.WithLabelValues(value)
	}
	return resolved
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	err := reg.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err)
	}
	return c
}
