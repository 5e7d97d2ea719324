package canary

import (
	"log/slog"
	"slices"
	"time"

	"inquiry-gateway/internal/series"
)

// newMetrics makes the series of the kinds that are asked for, so that one that
// is off has none.
func (c *Canary) newMetrics() {
	all := series.In(c.opts.Registerer, "canary")
	c.checks = all.Counters("checks_total", "Checks of the canary callers by result; unavailable and empty have found nothing out.", "kind", "check", "result")
	c.ended = all.Gauges("last_round_timestamp_seconds",
		"When the canary callers last finished a round, whatever came of it; 0: not yet.", "kind")
	for _, k := range c.opts.Kinds {
		c.ended.WithLabelValues(k.Name)
		for i, check := range checkNames {
			for r, result := range resultNames {
				if r != int(empty) || i == int(crossRead) { // only there it can be
					c.checks.WithLabelValues(k.Name, check, result)
				}
			}
		}
	}
}

// settle counts a round and logs what is wrong with it: a failure each time, all
// else when it comes and when it is over.
func (c *Canary) settle(r *round) {
	kind := r.kind.Name
	before := c.last[kind]
	c.last[kind] = r.tally
	var blind, good, reasons, requests []string
	for i := range checkCount {
		n := r.tally[i]
		c.checks.WithLabelValues(kind, checkNames[i], resultNames[n.result]).Inc()
		switch {
		case n.result == failed:
			c.logFailure(r, i)
		case n.result == before[i].result:
		case n.result == ok:
			good = append(good, checkNames[i])
		default:
			blind = append(blind, checkNames[i]+" "+resultNames[n.result])
			reasons, requests = append(reasons, n.reasons...), append(requests, n.requests...)
		}
	}
	if len(blind) > 0 {
		c.opts.Logger.Warn("the canary finds nothing out", "kind", kind, "checks", blind, "reasons", unique(reasons), "request_ids", unique(requests))
	}
	if len(good) > 0 {
		c.opts.Logger.Info("the canary finds it good again", "kind", kind, "checks", good)
	}
	c.ended.WithLabelValues(kind).Set(float64(time.Now().UnixMilli()) / 1000)
}

// unique sorts, too.
func unique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// logFailure names the requests by which the records of the log are found. What
// concerns who may read what is an event of security.
func (c *Canary) logFailure(r *round, i check) {
	n := r.tally[i]
	c.mu.Lock()
	c.failed[r.kind.Name+" "+checkNames[i]] = n.reasons
	c.mu.Unlock()
	// Reasons hold no key and nothing of a record, so all of them may be logged.
	attrs := []any{"kind", r.kind.Name, "check", checkNames[i], "reasons", n.reasons, "request_ids", n.requests}
	if n.more > 0 {
		attrs = append(attrs, "more_reasons", n.more)
	}
	if event := map[check]string{crossRead: "canary_cross_read", access: "canary_access"}[i]; event != "" {
		attrs = append(attrs, slog.Group("security", "event", event, "kind", r.kind.Name, "accounts", r.accounts()))
	}
	c.opts.Logger.Error("the canary found a failure", attrs...)
}
