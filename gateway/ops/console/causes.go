package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"inquiry-gateway/gateway/ops/canary"
)

const (
	// over is how long a cause must not have been seen to be over.
	over = 30 * time.Second
	// apart is how long after the last time a cause that is seen again is a new one.
	apart = 5 * time.Minute
	// forgotten is how long what is over is still shown.
	forgotten = 12 * time.Hour
)

// episode is since when a cause is seen, without a pause of more than apart.
type episode struct {
	since, last time.Time
	bad         bool               // when it was last seen
	counts      map[string]float64 // by what the cause tells apart: a kind, an error, a state
}

// cause is one thing that can be wrong. Its texts hold names in braces, see [lines].
type cause struct {
	id, name, chapter string
	// seen counts what has been seen of it in a tick, and tells whether that is bad; empty:
	// nothing has. A state, such as an open breaker, counts 0.
	seen           func(tick) (counts map[string]float64, bad bool)
	text, hits, do string
}

// causes stand in the order in which they are shown: first what harms callers' data, then
// what they notice, then the rest.
var causes = []cause{
	{
		id: "canary", name: "The canary found a failure", chapter: "InquiryGatewayCanaryFailed",
		seen: func(t tick) (map[string]float64, bool) {
			counts := t.grown("canary_checks_total", func(l []string) bool { return l[2] == canary.Failed })
			for _, r := range t.facts.Canary { // the next round may be minutes away
				if r.Result == canary.Failed {
					counts[r.Kind+" "+r.Check+" "+r.Result] += 0
				}
			}
			return counts, true
		},
		text: "Since then: {counts}.", hits: "cross_read: customers may read each other's records. access: strangers may read lists.",
		do: "Ask both lists with the canary's keys. Where they are mixed up or open, take the gateway out of service, then [purge](#purge) both kinds.",
	},
	{
		id: "foreign", name: "Records of another account", chapter: "InquiryGatewayForeignRecords",
		seen: func(t tick) (map[string]float64, bool) {
			counts := map[string]float64{}
			for kind, n := range t.grown("upstream_foreign_records_total", nil) {
				counts["in "+kind+" lists"] = n
			}
			return counts, true
		},
		text: "The legacy system gave records of another account than it was asked for: {counts}.", hits: "No caller got them. Callers of those lists get 502, or an older list.",
		do: "Ask for that list with `inquiry-gateway probe -c {file} --kind {kind} --account {account}`, and tell the owners of the legacy system.",
	},
	{
		id: "legacy", name: "The legacy system fails", chapter: "InquiryGatewayBreakerOpen", seen: seenLegacy,
		text: "Since then: {counts}.", hits: "Callers of lists that are known get them older than their ttl, for `stale_if_error`; others get 502, 503 or 504.",
		do: "Ask it from this node: `inquiry-gateway check -c {file} --live --{kind} {account}`. Call its owners. Nothing has to be reset: the first good probe closes the breaker.",
	},
	{
		id: "keystore", name: "The key store does not answer", chapter: "InquiryGatewayAuthUnavailable",
		seen: func(t tick) (map[string]float64, bool) {
			n := t.grown("auth_requests_total", func(l []string) bool { return l[0] == "unavailable" })
			return renamed(n, "unavailable", "requests"), true
		},
		text: "Not let in because of it: {counts}.", hits: "Callers whose key this node has not seen lately: they get 503. Keys in use stay good for their ttl.",
		do: "Bring Redis, or the authorization server, back: `inquiry-gateway keys -c {file} list` asks it.",
	},
	{
		id: "answers", name: "Answers fail with 5xx", chapter: "InquiryGatewayFailing", seen: seenAnswers,
		text: "Since then: {counts}.", hits: "The callers of these requests.",
		do: "[Explain](#explain) the request of an account that fails, such as {account}; the log's records of 5xx have the `cause`.",
	},
	{
		id: "panics", name: "The program panicked", chapter: "InquiryGatewayPanics",
		seen: func(t tick) (map[string]float64, bool) {
			n := t.grown("panics_total", nil)
			maps.Copy(n, renamed(t.grown("http_panics_total", nil), "", "in a handler"))
			return n, true
		},
		text: "Where: {counts}. Each is a bug.", hits: "The caller of that request got 500; the others noticed nothing.",
		do: "Find the log's record with the stack, and report it. If it began with a new version, go back to the one before.",
	},
	{
		id: "redis", name: "Redis fails", chapter: "InquiryGatewayRedisBreakerOpen", seen: seenRedis,
		text: "Since then: {counts}.", hits: "No caller yet. Lists are kept on this node only, so the legacy system gets more requests, and each node limits rates alone.",
		do: "Ask it from this node: `redis-cli -h {redishost} -p {redisport} ping`. Nothing has to be reset: it is asked again by itself.",
	},
	{
		id: "ceiling", name: "The ceiling is reached", chapter: "InquiryGatewayCeilingReached",
		seen: func(t tick) (map[string]float64, bool) {
			n := t.grown("ceiling_requests_total", func(l []string) bool { return l[0] != "background" && l[1] == "refused" })
			return renamed(n, "", "requests"), false
		},
		text: "Over `upstream.max_requests_per_second`: {counts}.", hits: "Who waited for them got an older list, or 503.",
		do: "See what is fetched in the charts [below](#charts). Raise `max_requests_per_second` in {file} only with the owners of the legacy system.",
	},
	{
		id: "reload", name: "A changed file is not in force", chapter: "InquiryGatewayConfigReloadFailed",
		seen: func(t tick) (map[string]float64, bool) { return uncounted(t.facts.NotInForce), false },
		text: "Not in force: {counts}. The old one runs.", hits: "Nobody now, but a restart would fail; while the keys file has the mistake, a revoked key still works.",
		do: "See file, line and key with `inquiry-gateway check -c {file}`, mend it, and save it: it is read again by itself, or on `SIGHUP`.",
	},
	{
		id: "restart", name: "A change waits for a restart", chapter: "InquiryGatewayConfigReloadFailed",
		seen: func(t tick) (map[string]float64, bool) { return uncounted(t.facts.Waiting), false },
		text: "All of {file} is in force but for: {counts}.", hits: "Nobody. These keys have their old values until this node starts again.",
		do: "Restart the nodes one after the other, or take the change back.",
	},
	{
		id: "limited", name: "Many requests get 429", chapter: "InquiryGatewayRateLimiting", seen: seenLimited,
		text: "Since then: {counts}.", hits: "The accounts over their rate, and addresses that guess keys. Others notice nothing.",
		do: "The log names accounts and addresses. Tell the account's owner, give it a plan, or block the address in front of the gateway.",
	},
}

// seenLegacy is one cause for the breakers, for fetches that fail and for old lists that
// are served because of that, so that "since" does not start again with each probe.
func seenLegacy(t tick) (map[string]float64, bool) {
	counts := map[string]float64{}
	failing, failed, all := map[string]bool{}, map[string]float64{}, map[string]float64{} // by kind
	for _, kind := range t.now.at("upstream_breaker_state", func(v float64) bool { return v > 0 }) {
		failing[kind] = true
		counts["the breaker of "+kind+" lists is open"] = 0
	}
	for key, n := range t.grown("upstream_requests_total", nil) {
		switch kind, result, _ := strings.Cut(key, " "); result {
		case "timeout", "upstream", "invalid":
			counts["requests for "+kind+" lists "+map[string]string{"timeout": "timed out", "upstream": "failed", "invalid": "got what the mapping refuses"}[result]] += n
			failed[kind], all[kind], failing[kind] = failed[kind]+n, all[kind]+n, true
		case "ok":
			all[kind] += n
		}
	}
	bad := false
	for kind := range failing { // the other kind may be well
		bad = bad || failed[kind] >= all[kind]/2 // also where all it has is a breaker
	}
	for key, n := range t.grown("cache_lookups_total", func(l []string) bool { return l[1] == "stale-error" }) {
		counts["old "+strings.Fields(key)[0]+" lists were served"] += n
	}
	return counts, bad
}

// seenAnswers counts by error code; a 502 may be a legacy system that fails or one that
// cannot be understood. Below one in a hundred they are a notice.
func seenAnswers(t tick) (map[string]float64, bool) {
	all, failed := 0.0, 0.0
	for code, n := range t.grown("http_requests_total", nil) {
		if all += n; strings.HasPrefix(code, "5") {
			failed += n
		}
	}
	if failed == 0 {
		return nil, false
	}
	counts := t.grown("http_errors_total", func(l []string) bool {
		return strings.HasPrefix(l[0], "upstream_") || l[0] == "auth_unavailable" || l[0] == "internal_error"
	})
	if len(counts) == 0 { // none of the known codes
		counts["5xx"] = failed
	}
	return counts, failed >= all/100
}

// seenRedis does not tell of single calls: one that is repeated in time is a success for
// the caller.
func seenRedis(t tick) (map[string]float64, bool) {
	counts := map[string]float64{}
	failed := t.grown("redis_operations_total", func(l []string) bool { return l[0] == "timeout" || l[0] == "error" })
	if failed["timeout"]+failed["error"] >= 5 {
		counts = renamed(renamed(failed, "error", "errors"), "timeout", "timeouts")
	}
	open := len(t.now.at("redis_breaker_state", func(v float64) bool { return v > 0 })) > 0
	if open {
		counts["its breaker is open"] = 0
	}
	return counts, open
}

// seenLimited tells of a tenth of the answers, as the alert does, and of keys that are
// guessed.
func seenLimited(t tick) (map[string]float64, bool) {
	counts, all := map[string]float64{}, 0.0
	for _, n := range t.grown("http_requests_total", nil) {
		all += n
	}
	if n := t.grown("rate_limit_decisions_total", nil)["limited"]; n >= 5 && n >= all/10 {
		counts["over their account's rate"] = n
	}
	if n := t.grown("auth_requests_total", nil)["limited"]; n > 0 {
		counts["from addresses that guess keys"] = n
	}
	return counts, false
}

// renamed gives the sum of the counts of a name, or of all for an empty one, another name.
func renamed(counts map[string]float64, from, to string) map[string]float64 {
	for name, n := range maps.Clone(counts) {
		if from == "" || name == from {
			delete(counts, name)
			counts[to] += n
		}
	}
	return counts
}

// uncounted are states that have names and no figures.
func uncounted(names []string) map[string]float64 {
	counts := map[string]float64{}
	for _, name := range names {
		counts[name] = 0
	}
	return counts
}

// tick is what the causes are judged by: the sums now and those of the tick before.
type tick struct {
	now, before sums
	facts       Facts
}

func (t tick) grown(family string, match func(values []string) bool) map[string]float64 {
	return t.now.grown(t.before, family, match)
}

// judge notes which causes are seen in a tick.
func judge(episodes map[string]*episode, at time.Time, t tick) {
	for _, c := range causes {
		counts, bad := c.seen(t)
		if len(counts) == 0 {
			continue
		}
		e := episodes[c.id]
		if e == nil || at.Sub(e.last) > apart {
			e = &episode{since: at, counts: map[string]float64{}}
			episodes[c.id] = e
		}
		e.last, e.bad = at, bad
		for what, n := range counts {
			e.counts[what] += n
		}
	}
}

// Facts are the names and errors that the lines say beside the counts.
type Facts struct {
	Kinds []string           // of the lists that there are
	File  string             // the configuration
	Redis string             // host:port; empty: none
	Last  map[string]Failure // the last error, by kind of list, and of "redis", "keystore" and "reload"

	NotInForce []string // files whose newest content has a mistake: "configuration", "keys file"
	Waiting    []string // keys of the configuration, else in force, that need a restart

	Canary []canary.Result // set by the console
}

// Failure is an error that has happened, in words that hold no secret.
type Failure struct {
	Text    string
	Account string // whose list it was about; empty: of none
	At      time.Time
}

// line is a cause as the page shows it.
type line struct {
	ID      string `json:"id"`
	Bad     bool   `json:"bad"`
	Over    bool   `json:"over"`
	Name    string `json:"name"`
	Text    string `json:"text"`  // a sentence, with figures
	Hits    string `json:"hits"`  // whom
	Cause   string `json:"cause"` // the last error; empty: none is known
	Do      string `json:"do"`    // commands between backticks, and [links](#id) to parts of the page
	Chapter string `json:"chapter"`
	Since   int64  `json:"since"` // seconds since 1970
	Last    int64  `json:"last"`
}

// lines are what fails now, in the order of causes and what is bad first, and below it
// what is over, the newest first.
func lines(episodes map[string]*episode, now time.Time, facts Facts) []line {
	all := []line{}
	for _, c := range causes {
		e := episodes[c.id]
		if e == nil || now.Sub(e.last) > forgotten {
			continue
		}
		l := line{
			ID: c.id, Name: c.name, Chapter: c.chapter, Hits: c.hits, Bad: e.bad, Over: now.Sub(e.last) > over,
			Since: e.since.Unix(), Last: e.last.Unix(), Cause: lastError(c.id, e, facts),
		}
		names := named(e, facts)
		l.Text, l.Do = names.Replace(c.text), names.Replace(c.do)
		all = append(all, l)
	}
	rank := func(l line) int64 {
		switch {
		case l.Over:
			return math.MaxInt64 - l.Last
		case l.Bad:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// named puts the names of this gateway in: whoever is on call can enter a command as it
// stands. A name that is not known stays in capitals, as manuals have it.
func named(e *episode, facts Facts) *strings.Replacer {
	kind, failure := newest(e, facts)
	host, port, found := strings.Cut(facts.Redis, ":")
	if i := strings.LastIndexByte(facts.Redis, ':'); found {
		host, port = strings.Trim(facts.Redis[:i], "[]"), facts.Redis[i+1:]
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(e.counts)) {
		if n := e.counts[what]; n > 0 {
			what += ": " + strconv.FormatFloat(n, 'f', 0, 64)
		}
		counts = append(counts, what)
	}
	return strings.NewReplacer("{counts}", strings.Join(counts, ", "), "{file}", quoted(cmp.Or(facts.File, "FILE")), "{kind}", cmp.Or(kind, "KIND"),
		"{account}", quoted(cmp.Or(failure.Account, "ID")), "{redishost}", cmp.Or(host, "HOST"), "{redisport}", cmp.Or(port, "6379"))
}

// quoted writes a name as one word of a shell: accounts are called as their owners like.
func quoted(name string) string {
	plain := func(r rune) bool {
		return !(r == '_' || r == '-' || r == '.' || r == '/' || r == '@' || r == ':' || unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	switch {
	case !strings.ContainsFunc(name, plain):
		return name
	case strings.Contains(name, "`"): // it would end the command on the page
		return "ID"
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// newest is the last error of a list of the kinds that an episode names, or of any kind
// where it names none.
func newest(e *episode, facts Facts) (kind string, last Failure) {
	all := strings.Join(slices.Collect(maps.Keys(e.counts)), " ")
	for _, k := range []string{"buyer", "seller"} {
		other := map[string]string{"buyer": "seller", "seller": "buyer"}[k]
		if f := facts.Last[k]; f.At.After(last.At) && (strings.Contains(all, k) || !strings.Contains(all, other)) {
			kind, last = k, f
		}
	}
	return kind, last
}

// lastError says why, as far as an error of the time of the episode is known.
func lastError(id string, e *episode, facts Facts) string {
	if id == "canary" {
		var reasons []string
		for _, r := range facts.Canary {
			if r.Result == canary.Failed {
				reasons = append(reasons, r.Reasons...)
			}
		}
		return strings.Join(reasons, "; ")
	}
	kind, f := newest(e, facts)
	what := map[string]string{"redis": "redis", "keystore": "keystore", "reload": "reload"}[id]
	switch {
	case what != "":
		kind, f = "", facts.Last[what]
	case id != "legacy" && id != "foreign" && id != "answers":
		return ""
	}
	if f.Text == "" || f.At.Before(e.since.Add(-2*tickEvery)) {
		return ""
	}
	text := "Last: " + f.Text
	if f.Account != "" {
		text += fmt.Sprintf(" (%s list of %s)", kind, f.Account)
	}
	return text
}
