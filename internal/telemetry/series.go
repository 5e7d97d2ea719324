// Package telemetry makes what the parts of the program show of themselves: Prometheus
// series, the spans of traces, and the log record and count of a panic.
package telemetry

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Maker makes series and registers them. A series that is registered already, by one
// that was there before a reload or for another kind, is counted on. A Maker panics for
// two series of one name that differ in more: that is a bug.
type Maker struct {
	reg    prometheus.Registerer
	prefix string
	labels prometheus.Labels
}

// Series gives the maker of a subsystem's series; their names begin with inquiry_gateway_ and
// the subsystem. An empty subsystem: with inquiry_gateway_ alone. A nil reg: they count,
// and nobody sees it.
func Series(reg prometheus.Registerer, subsystem string) Maker {
	if subsystem != "" {
		subsystem += "_"
	}
	return Maker{reg: reg, prefix: "inquiry_gateway_" + subsystem}
}

// With gives a maker whose series all have these labels, too.
func (m Maker) With(labels prometheus.Labels) Maker {
	m.labels = labels
	return m
}

func (m Maker) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Name: m.prefix + name, Help: help, ConstLabels: m.labels}
}

// Counter makes a counter.
func (m Maker) Counter(name, help string) prometheus.Counter {
	return register(m.reg, prometheus.NewCounter(prometheus.CounterOpts(m.opts(name, help))))
}

// Counters makes a counter for each value of the labels.
func (m Maker) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m.reg, prometheus.NewCounterVec(prometheus.CounterOpts(m.opts(name, help)), labels))
}

// Gauge makes a gauge.
func (m Maker) Gauge(name, help string) prometheus.Gauge {
	return register(m.reg, prometheus.NewGauge(prometheus.GaugeOpts(m.opts(name, help))))
}

// Gauges makes a gauge for each value of the labels.
func (m Maker) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(m.reg, prometheus.NewGaugeVec(prometheus.GaugeOpts(m.opts(name, help)), labels))
}

// GaugeFunc makes a gauge that asks value, which must be safe for concurrent use. Where
// one of its name is registered already, that one is asked on.
func (m Maker) GaugeFunc(name, help string, value func() float64) {
	register(m.reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts(m.opts(name, help)), value))
}

// Histograms makes a histogram for each value of the labels, with buckets that end at the
// given values.
func (m Maker) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return m.histograms(prometheus.HistogramOpts{Buckets: buckets}, m.opts(name, help), labels)
}

// NativeHistograms is Histograms with native buckets beside them, which grow by a tenth.
// To observe costs 100 ns more.
func (m Maker) NativeHistograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return m.histograms(prometheus.HistogramOpts{
		Buckets:                         buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, m.opts(name, help), labels)
}

func (m Maker) histograms(o prometheus.HistogramOpts, named prometheus.Opts, labels []string) *prometheus.HistogramVec {
	o.Name, o.Help, o.ConstLabels = named.Name, named.Help, named.ConstLabels
	return register(m.reg, prometheus.NewHistogramVec(o, labels))
}

// By resolves the one label of a counter: to look it up costs more than to count. The
// series of all values exist from then on, so that a rate sees the first event.
func By(counters *prometheus.CounterVec, values ...string) map[string]prometheus.Counter {
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
