package console

import (
	"fmt"
	"strings"
)

// rule finds one kind of trouble. An empty text means that there is none.
type rule struct {
	id, name, target, chapter string
	press                     string // what to do first
	judge                     func(w windows) (level, string)
}

// A single failed call of Redis is nothing to tell: one that is repeated in time
// is a success for the caller.
const (
	redisFailures     = 5
	redisFailureShare = .01
	failureShare      = .01 // of answers; below it they are a notice
	legacyDown        = .5  // of requests to the legacy system: it is down, whatever its breaker says,
	enoughFetches     = 5   // if so many failed; requests are few while lists that fail are backed off from
	enoughLookups     = 50  // for a hit ratio of 0 to mean something
	shownReasons      = 3   // of a failing check of the canary; the panel and the log have all
	enoughRechecks    = 100 // for a share of outdated lists to mean something; as the alert
)

// rules are in the order in which they make the headline: first what harms
// callers' data, then what they notice, then the rest.
func rules() []rule {
	return []rule{
		{"cross-read", "Cross-read", "canary", "InquiryGatewayCanaryCrossRead",
			"Ask both lists with the canary's keys. Where they are mixed up, take the gateway out of service, then [purge](#purge) both kinds.",
			canaryRule(levelBad, "cross_read")},
		{"access", "Open to strangers", "canary", "InquiryGatewayCanaryAccess",
			"Look at the log's record. Where a stranger got 200 or 304, take the gateway out of service now.",
			canaryRule(levelBad, "access")},
		{"foreign", "Foreign records", "refusals", "InquiryGatewayForeignRecords",
			"Ask for that list with `inquiry-gateway probe -c FILE --kind KIND --account ID`, and tell the owners of the legacy system.",
			perKindRule(levelBad, "foreign",
				"The legacy system gave %s %s records of another account %s. No caller got them.")},
		{"legacy", "Legacy system failing", "fetches", "InquiryGatewayBreakerOpen",
			"Ask the legacy system from this node: `inquiry-gateway check -c FILE --live --buyer ID --seller ID`. Call its owners. Nothing has to be reset: the first good probe closes the breaker.",
			judgeLegacy},
		{"keystore", "Key store away", "refusals", "InquiryGatewayAuthUnavailable",
			"Bring Redis, or the authorization server, back: `inquiry-gateway keys -c FILE list` asks it. Keys in use stay good for their ttl.",
			counterRule(levelBad,
				"The key store cannot be reached. %s requests were not let in because of it in the last minute.", "keystore")},
		{"answers", "Answers fail", "traffic", "InquiryGatewayFailingFast",
			"[Explain](#explain) the request of an account that fails; the log's records of 5xx have the cause.",
			judgeAnswers},
		{"panics", "Panics", "answers", "InquiryGatewayPanics",
			"Find the log's record with the stack, and report it. If it began with a deploy, go back to the version before.",
			judgePanics},
		{"redis", "Redis failing", "redis", "InquiryGatewayRedisBreakerOpen",
			"Ask Redis from this node: `redis-cli -h HOST ping`. Nothing has to be reset: the gateway asks it again by itself.",
			judgeRedis},
		{"old", "Old lists", "age", "InquiryGatewayServingStaleOnError",
			"As for the legacy system: `inquiry-gateway check -c FILE --live --buyer ID --seller ID`. A longer `stale_if_error` keeps lists for longer.",
			counterRule(levelWarn,
				"%s answers in the last minute were lists older than their TTL, because the legacy system fails.", perKind("lookups.stale-error")...)},
		{"ceiling", "Ceiling reached", "fetches", "InquiryGatewayCeilingReached",
			"See the ceiling and this node's part of it with `inquiry-gateway explain -c FILE --kind KIND --account ID`. Raise `max_requests_per_second` only with the owners of the legacy system.",
			counterRule(levelWarn,
				"%s requests to the legacy system were over upstream.max_requests_per_second in the last minute. Who waited for them got a stale list, or 503.", "ceiling")},
		{"invalid", "Records refused", "refusals", "InquiryGatewayInvalidReplies",
			"Find the field with `inquiry-gateway probe -c FILE --kind KIND --account ID`, mend the mapping, and save it: it is reloaded by itself.",
			perKindRule(levelWarn, "invalid",
				"The mapping refused %s fields of %s records %s.")},
		{"canary", "Canary failing", "canary", "InquiryGatewayCanaryFailing",
			"Find the log's records by the ids of the requests, and [explain](#explain) the request of that key.",
			canaryRule(levelWarn, "contract", "freshness")},
		{"canary-keys", "Canary keys", "canary", "InquiryGatewayCanaryKeys",
			"Make another key, `inquiry-gateway keys -c FILE new --kind KIND --account ID > FILE`, into the file that the configuration names.",
			canaryRule(levelWarn, "keys")},
		{"canary-blind", "Canary blind", "canary", "InquiryGatewayCanaryBlind",
			"Give each account of the canary at least one inquiry; `inquiry-gateway explain -c FILE --kind KIND --account ID` says why there is no list.",
			eachKind(levelWarn, sayBlind)},
		{"hits", "No cache hits", "hits", "InquiryGatewayHitRatioDropped",
			"[Explain](#explain) a request: the ttl and where it comes from. A deploy or a change of the mapping empties the cache once.",
			judgeHits},
		{"outdated", "Outdated lists", "ttl", "InquiryGatewayServedOutdated",
			"See which ttl meets the goal: `inquiry-gateway ttl -c FILE`, or [below](#ttl).",
			eachKind(levelWarn, sayOutdated)},
		{"reload", "Reload failed", "marks", "InquiryGatewayConfigReloadFailed",
			"See file, line and key with `inquiry-gateway check -c FILE`, mend it, and save it: it is read again by itself, or on `SIGHUP`.",
			gaugeRule("reloaded", 0,
				"The last reload of the configuration failed. The old one runs; the log says why.")},
		{"limited", "Rate limiting", "refusals", "InquiryGatewayRateLimiting",
			"[Explain](#explain) the request of the account that the log names; give it a plan with `inquiry-gateway accounts -c FILE set ID --plan NAME`.",
			counterRule(levelWarn,
				"%s requests were over their account's rate in the last minute. They got 429.", "limited")},
		{"guesses", "Keys are guessed", "refusals", "InquiryGatewayAuthFailures",
			"Block the addresses in the log in front of the gateway. Good keys are served all the while.",
			counterRule(levelWarn,
				"%s requests came from addresses that guess keys in the last minute. They got 429; the log has the addresses.", "guesses")},
		{"fallback", "Rates by node", "refusals", "InquiryGatewayRedisBreakerOpen",
			"As for Redis: `redis-cli -h HOST ping` from this node.",
			gaugeRule("fallback", 1,
				"This node limits rates alone: Redis gives no tokens.")},
	}
}

// unreadable is the rule about the gathering itself: figures that are missing must
// not look like good ones.
func unreadable(err error) rule {
	return rule{"metrics", "No metrics", "figures", "", "Read `/metrics` of this node, and its log.", func(windows) (level, string) {
		if err == nil {
			return "", ""
		}
		return levelBad, "The metrics cannot be read whole, figures may be missing: " + err.Error()
	}}
}

// counterRule is about the last minute.
func counterRule(l level, text string, counters ...string) func(windows) (level, string) {
	return func(w windows) (level, string) {
		if n := w.minute.sum(counters...); n > 0 {
			return l, fmt.Sprintf(text, count(n))
		}
		return "", ""
	}
}

// gaugeRule is about a state that is shown by one value of a gauge.
func gaugeRule(gauge string, bad float64, text string) func(windows) (level, string) {
	return func(w windows) (level, string) {
		if w.point.gauge(gauge) == bad {
			return levelWarn, text
		}
		return "", ""
	}
}

// eachKind joins what there is to say of each kind of list.
func eachKind(l level, say func(w windows, kind string) string) func(windows) (level, string) {
	return func(w windows) (level, string) {
		var parts []string
		for _, kind := range kinds {
			if text := say(w, kind); text != "" {
				parts = append(parts, text)
			}
		}
		return l, strings.Join(parts, " ")
	}
}

// perKindRule is about what must not happen at all. The text takes a count, the
// kind and the time.
func perKindRule(l level, counter, text string) func(windows) (level, string) {
	return eachKind(l, func(w windows, kind string) string {
		n := w.rare.sum(counter + "." + kind)
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(text, count(n), kind, w.rare.span())
	})
}

// canaryRule names each check that failed, its kind, and what the canary said of it
// last: which key, and which record. Rounds may be minutes apart.
func canaryRule(l level, checks ...string) func(windows) (level, string) {
	return func(w windows) (level, string) {
		var parts []string
		for _, check := range checks {
			for _, kind := range kinds {
				n := w.rare.sum("canary." + check + ".failed." + kind)
				if n == 0 {
					continue
				}
				why := "The log names the requests."
				if reasons := w.canary(kind, check); len(reasons) > 0 {
					why = "Last: " + strings.Join(reasons[:min(len(reasons), shownReasons)], "; ") + "."
				}
				parts = append(parts, fmt.Sprintf("The canary's check %s failed for %s lists, %s %s. %s", check, kind, times(n), w.rare.span(), why))
			}
		}
		return l, strings.Join(parts, " ")
	}
}

// times is as in "once" and "3 times".
func times(n float64) string {
	if n == 1 {
		return "once"
	}
	return count(n) + " times"
}

// sayBlind tells of a canary that would not notice a cross-read.
func sayBlind(w windows, kind string) string {
	in := func(result string) float64 { return w.rare.sum("canary.cross_read." + result + "." + kind) }
	if in("ok")+in("failed") > 0 || in("empty")+in("unavailable") == 0 {
		return ""
	}
	return "The canary compared no " + kind + " lists " + w.rare.span() + ": they are empty or unavailable."
}

// judgeLegacy is one rule for the breakers and for fetches that fail, so that
// "since" does not start again with each probe of the breaker.
func judgeLegacy(w windows) (level, string) {
	with := func(state float64) string {
		var names []string
		for _, kind := range kinds {
			if w.point.worst("breaker."+kind) == state {
				names = append(names, kind)
			}
		}
		return strings.Join(names, " and ")
	}
	failed := w.minute.failedFetches()
	share := failed / (failed + w.minute.sum(perKind("fetches.ok")...))
	text := count(failed) + " requests to the legacy system failed in the last minute, " + percent(share) + " of all."
	if slow := w.minute.sum(perKind("fetches.timeout")...); slow > 0 {
		text += " " + count(slow) + " were too slow."
	}
	switch open, half := with(2), with(1); {
	case open != "":
		return levelBad, "The breaker of the " + open + " lists is open: the legacy system fails and is not asked, but for a probe every few seconds."
	case failed >= enoughFetches && share >= legacyDown:
		return levelBad, text
	case half != "":
		return levelWarn, "The breaker of the " + half + " lists is half-open: the gateway tries the legacy system again."
	case failed > 0:
		return levelWarn, text
	}
	return "", ""
}

// judgeAnswers warns of single failures, and is bad from a share on that callers
// notice.
func judgeAnswers(w windows) (level, string) {
	failed := w.minute.sum("answers.failed")
	if failed == 0 {
		return "", ""
	}
	share, l := failed/w.minute.sum("answers"), levelBad
	if share < failureShare {
		l = levelWarn
	}
	return l, count(failed) + " answers failed with 5xx in the last minute, " + percent(share) + " of all."
}

// judgePanics is about handlers and background work alike.
func judgePanics(w windows) (level, string) {
	if n := w.rare.sum("panics") + w.rare.sum("panics.background"); n > 0 {
		return levelBad, "The program panicked " + times(n) + " " + w.rare.span() + ". Each is a bug; see the log."
	}
	return "", ""
}

// judgeRedis puts the breaker before failed calls: while it is open there are none.
func judgeRedis(w windows) (level, string) {
	failed := w.minute.failedRedis()
	share := failed / (failed + w.minute.sum("redis.ok"))
	switch state := w.point.worst("breaker.redis"); {
	case state == 2:
		return levelBad, "Redis is down: its breaker is open. Lists are kept in this process only; the legacy system gets more requests."
	case state == 1:
		return levelWarn, "Redis is being tried again: its breaker is half-open."
	case failed >= redisFailures && share >= redisFailureShare:
		return levelWarn, count(failed) + " calls of Redis failed in the last minute, " + percent(share) + " of all."
	}
	return "", ""
}

// judgeHits tells of a cache that does nothing, as after a wrong TTL.
func judgeHits(w windows) (level, string) {
	n := 0.0
	for _, outcome := range lookupOutcomes {
		n += w.figure.sum(perKind("lookups." + outcome)...)
	}
	if n >= enoughLookups && w.figure.hitRatio(kinds[:]...) == 0 {
		return levelWarn, "No list came from the cache " + w.figure.span() + ": 0 of " + count(n) + " look-ups."
	}
	return "", ""
}

// outdated is the share of all answers that were outdated: of those out of the cache,
// as the re-checks say, times their share of all, as in the recording rule. NaN
// without re-checks.
func (w window) outdated(kind string) float64 {
	answers := w.sum("lookups.hit."+kind, "lookups.stale-revalidate."+kind, "lookups.stale-error."+kind)
	all := answers + w.sum("lookups.miss."+kind, "lookups.collapsed."+kind)
	return w.sum("outdated."+kind) / w.sum("rechecked."+kind) * answers / all
}

// sayOutdated compares the re-checks of an hour with the configured goal. Without
// a goal the comparison with NaN is never true.
func sayOutdated(w windows, kind string) string {
	checked, share, goal := w.hour.sum("rechecks."+kind), w.hour.outdated(kind), w.point.gauge("outdated.goal")
	if checked >= enoughRechecks && share > goal {
		return percent(share) + " of the answers with " + kind + " lists were outdated in the last hour, by " + count(checked) +
			" re-checks; the goal is at most " + percent(goal) + "."
	}
	return ""
}
