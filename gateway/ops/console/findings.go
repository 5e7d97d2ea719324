package console

import "fmt"

// finding is one thing that is not as it should be, with where to look.
type finding struct {
	Level  level
	Text   string
	Target string // id of a part of the page
}

// findings judges the last minute and, for what must never happen, everything
// that is remembered. The worst come first. None: all is well.
func findings(minute, all span, gathering error) []finding {
	var bad, warn []finding
	add := func(when bool, l level, target, format string, args ...any) {
		switch {
		case when && l == levelBad:
			bad = append(bad, finding{l, fmt.Sprintf(format, args...), target})
		case when:
			warn = append(warn, finding{l, fmt.Sprintf(format, args...), target})
		}
	}
	if gathering != nil {
		add(true, levelBad, "totals", "The metrics cannot be read whole, figures may be missing: %v", gathering)
	}
	for _, kind := range kinds {
		state, failed := minute.gauge("breaker."+kind), minute.failedFetches(kind)
		add(state == 2, levelBad, "chart-breakers", "The breaker of the %s lists is open: the legacy system is not asked, callers get older lists or 503.", kind)
		add(state == 1, levelWarn, "chart-breakers", "The breaker of the %s lists is half-open: it tries the legacy system again.", kind)
		share := ratio(failed, failed+minute.increase("fetches.ok."+kind))
		add(failed > 0 && state != 2, levelWarn, "chart-fetches", "%s of the fetches of %s lists failed within a minute.", percent(share), kind)
		stale := minute.rate("lookups.stale-error." + kind)
		add(stale > 0, levelWarn, "chart-traffic", "Callers get older %s lists because the legacy system fails: %s.", kind, format(stale, unitRate))
		add(all.increase("foreign."+kind) > 0, levelBad, "chart-records", "The legacy system gave %s records of another account within a quarter of an hour: %s. No caller got them.", kind, digits(all.increase("foreign."+kind)))
		add(all.increase("drift."+kind) > 0, levelWarn, "chart-records", "The legacy system's %s records changed their shape within a quarter of an hour. Changes: %s. Run probe.", kind, digits(all.increase("drift."+kind)))
		canaryFindings(all, kind, add)
		add(minute.increase("invalid."+kind) > 0, levelWarn, "chart-records", "The mapping refuses %s records. Fields refused within a minute: %s. Run probe.", kind, digits(minute.increase("invalid."+kind)))
	}
	processFindings(minute, all, add)
	return append(bad, warn...)
}

// canaryFindings are of all that is remembered: rounds may be minutes apart.
func canaryFindings(all span, kind string, add func(when bool, l level, target, format string, args ...any)) {
	add(all.increase("canary.cross_read."+kind) > 0, levelBad, "canary", "The canary's %s accounts got each other's records within a quarter of an hour. The log names the requests.", kind)
	add(all.increase("canary.access."+kind) > 0, levelBad, "canary", "A request for %s lists was not refused as it has to be within a quarter of an hour. The log names the requests.", kind)
	for _, check := range canaryChecks[2:] {
		add(all.increase("canary."+check+"."+kind) > 0, levelWarn, "canary", "The canary's check %s of %s lists failed within a quarter of an hour. The log says why.", check, kind)
	}
}

func processFindings(minute, all span, add func(when bool, l level, target, format string, args ...any)) {
	redis := minute.gauge("breaker.redis")
	add(redis == 2, levelBad, "chart-redis", "Redis is down: its breaker is open. Lists are kept in this process only.")
	add(redis == 1, levelWarn, "chart-redis", "Redis is being tried again.")
	add(redis != 2 && minute.failedRedis() > 0, levelWarn, "chart-redis", "Calls of Redis that failed within a minute: %s.", digits(minute.failedRedis()))
	add(minute.increase("answers.5") > 0, levelBad, "totals", "Callers got answers 5xx within a minute: %s.", digits(minute.increase("answers.5")))
	add(minute.increase("keystore") > 0, levelBad, "chart-refusals", "The key store could not be reached. Requests that got 503 for it within a minute: %s.", digits(minute.increase("keystore")))
	add(minute.increase("limited") > 0, levelWarn, "chart-refusals", "Requests over their account's rate within a minute: %s.", digits(minute.increase("limited")))
	add(minute.gauge("fallback") == 1, levelWarn, "chart-refusals", "Rates are limited by this node alone: Redis gives no tokens.")
	add(minute.gauge("reloaded") == 0, levelWarn, "totals", "The last reload of the configuration failed; the old one runs. See the log.")
	add(all.increase("panics") > 0, levelBad, "totals", "Handlers panicked within a quarter of an hour: %s. Each is a bug; see the log.", digits(all.increase("panics")))
}
