package console

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"inquiry-gateway/upstream"
)

// maxText bounds the text of an error.
const maxText = 300

// condition is one thing that can be wrong on this node, judged by the last minute. The failures of the legacy system
// are [incidentTexts]. Its texts hold names in braces, see [names].
type condition struct {
	id, name, chapter string
	// check counts what has been seen of it, and tells whether that is bad. It is empty if nothing has. A state, such as
	// an open breaker, counts 0.
	check          func(window) (counts map[string]float64, bad bool)
	text, hits, do string
}

// Bounds from which on a condition is shown, or is bad. docs/observing.md has them beside those of the alerts.
const (
	failingShare = .5  // of the accounts that were asked for: bad
	keysShare    = .01 // of the requests: bad
	keysLeast    = 5   // in a minute: bad
	failedShare  = .01 // of the answers: bad
	redisLeast   = 10  // failed calls in a minute: shown
	limitedShare = .1  // of the answers: shown
	limitedLeast = 20  // in a minute: shown
)

// conditions stand in the order in which they are shown.
var conditions = []condition{
	{
		id: "keystore", name: "The key store is unavailable", chapter: "InquiryGatewayAuthUnavailable",
		check: func(w window) (map[string]float64, bool) {
			n, all := w.increase("auth_requests_total"), 0.0
			for _, more := range n {
				all += more
			}
			failed := n["unavailable"]
			return positive("requests", failed), failed >= max(keysLeast, keysShare*all)
		},
		text: "Refused with 503: {counts}.", hits: "Callers whose key this node has not cached. Cached keys stay valid for `auth.cache_ttl`.",
		do: "Restore Redis. Test it with `inquiry-gateway keys -c {file} list`.",
	},
	{
		id: "tokens", name: "Valid tokens are refused", chapter: "InquiryGatewayAuthFailures",
		check: func(w window) (map[string]float64, bool) {
			return positive("requests", w.increase("auth_requests_total")["unusable"]), false
		},
		text: "The authorization server says that they are active, but they are no API keys of this gateway: {counts}.", hits: "Their callers get 401.",
		do: "A claim is missing: have the authorization server put it into access tokens, or name the right one under auth.introspection.claims in {file}. A refresh, ID or bound token: tell the caller to send a bearer access token.",
	},
	{
		id: "answers", name: "Answers fail with 5xx", chapter: "InquiryGatewayFailing", check: checkAnswers,
		text: "{counts}.", hits: "The callers of these requests.",
		do: "The log's records of 5xx have the `account` and the `cause`. [Explain](#explain) the request of one of these accounts.",
	},
	{
		id: "panics", name: "The program panicked", chapter: "InquiryGatewayPanics",
		check: func(w window) (map[string]float64, bool) { return w.increase("panics_total"), true },
		text:  "Where: {counts}. Each is a bug.", hits: "The caller of that request got 500; the others noticed nothing.",
		do: "Find the log's record with the stack, and report it. If it began with a new version, go back to the one before.",
	},
	{
		id: "redis", name: "Redis fails", chapter: "InquiryGatewayRedisBreakerOpen", check: checkRedis,
		text: "{counts}.", hits: "No caller yet. Lists are kept on this node only, so the legacy system gets more requests, and each node limits rates alone.",
		do: "Ask it from this node: `redis-cli -h {redishost} -p {redisport} ping`. The gateway reconnects by itself.",
	},
	{
		id: "reload", name: "A changed file is not in force", chapter: "InquiryGatewayConfigReloadFailed",
		check: func(w window) (map[string]float64, bool) { return uncounted(w.facts.NotInForce), false },
		text:  "Not in force: {counts}. The old one runs.", hits: "Nobody now, but a mistake in a file would make a restart fail, and while the keys file has one, a revoked key still works.",
		do: "See file, line and key with `inquiry-gateway check -c {file}`, correct it, and save it: it is read again by itself, or on `SIGHUP`. If a key cannot change while the gateway runs, restart the nodes one after the other, or undo the change.",
	},
	{
		id: "limited", name: "Many requests get 429", chapter: "InquiryGatewayRateLimiting", check: checkLimited,
		text: "{counts}.", hits: "The accounts over their rate, and addresses that guess keys. Others notice nothing.",
		do: "The log names accounts and addresses. Tell the account's owner, give it a plan, or block the address in front of the gateway.",
	},
}

// checkAnswers counts by error code; a 502 may be a legacy system that fails or one that cannot be understood.
func checkAnswers(w window) (map[string]float64, bool) {
	all, failed, counts := 0.0, 0.0, map[string]float64{}
	w.eachResponse(func(status, code string, n float64) {
		if all += n; strings.HasPrefix(status, "5") && status != "501" { // which says that the account cannot be asked for
			failed += n
			counts[code] += n
		}
	})
	return counts, failed >= failedShare*all
}

// checkRedis ignores single failed calls: one that is repeated in time is a success for the caller.
func checkRedis(w window) (map[string]float64, bool) {
	counts, calls := map[string]float64{}, w.increase("redis_operations_total")
	if calls["timeout"]+calls["error"] >= redisLeast {
		maps.Copy(counts, positive("timeouts", calls["timeout"]))
		maps.Copy(counts, positive("errors", calls["error"]))
	}
	state := w.now["redis_breaker_state"][""]
	open := state != nil && state.Value > 0
	if open {
		counts["its breaker is open"] = 0
	}
	return counts, open
}

// checkLimited counts requests over a rate, from a tenth of the answers on, as the alert does, and guessed keys.
func checkLimited(w window) (map[string]float64, bool) {
	all := 0.0
	w.eachResponse(func(_, _ string, n float64) { all += n })
	counts := positive("from addresses that guess keys", w.increase("auth_requests_total")["limited"])
	if n := w.increase("rate_limit_decisions_total")["limited"]; n >= max(limitedLeast, limitedShare*all) {
		counts["over their account's rate"] = n
	}
	return counts, false
}

// positive is one count, or none if it is 0.
func positive(what string, n float64) map[string]float64 {
	if n <= 0 {
		return map[string]float64{}
	}
	return map[string]float64{what: n}
}

// uncounted are states that have names and no figures.
func uncounted(names []string) map[string]float64 {
	counts := map[string]float64{}
	for _, name := range names {
		counts[name] = 0
	}
	return counts
}

// window is what the conditions are judged by: the sums now and those of a minute ago.
type window struct {
	now, before sums
	facts       Facts
}

// Facts are the names and errors that the lines say beside the counts, and what is known of
// the legacy system.
type Facts struct {
	Kinds []string           // of the lists that there are
	File  string             // the configuration
	Redis string             // host:port; empty: none
	Last  map[string]Failure // the last error of "redis", "keystore", "tokens" and "reload"

	Introspection string // URL of the authorization server that knows the keys; empty: none does

	Incidents []upstream.Incident
	Breakers  map[string]string // closed, half-open or open, by kind

	NotInForce []string // files whose newest content was refused: "configuration", "keys file"
}

// Failure is an error that has happened, in words that hold no secret.
type Failure struct {
	Text string
	At   time.Time
}

// line is an incident or a condition as the page shows it.
type line struct {
	ID      string `json:"id"`
	Bad     bool   `json:"bad"`
	Name    string `json:"name"`
	Text    string `json:"text"`  // a sentence, with figures
	Hits    string `json:"hits"`  // whom
	Cause   string `json:"cause"` // the last error; empty: none is known
	Do      string `json:"do"`    // commands between backticks, and [links](#id) to parts of the page
	Chapter string `json:"chapter"`
	Since   int64  `json:"since"` // of an incident, in seconds since 1970; 0: a condition of the last minute
	Last    int64  `json:"last"`  // failure of an incident
}

// lines are what fails, what is bad first, then incidents before conditions.
func lines(w window, now time.Time) []line {
	all := incidentLines(w, now)
	for _, c := range conditions {
		counts, bad := c.check(w)
		if len(counts) == 0 {
			continue
		}
		names := names(w.facts, counts)
		l := line{ID: c.id, Name: c.name, Chapter: c.chapter, Hits: c.hits, Bad: bad, Text: names.Replace(c.text), Do: names.Replace(c.do)}
		if f := w.facts.Last[c.id]; f.Text != "" && now.Sub(f.At) <= windowSize+tickEvery {
			l.Cause = "Last: " + shown(f.Text)
		}
		if c.id == "keystore" && w.facts.Introspection != "" {
			l.Do = "Correct what the last error names: the authorization server at " + w.facts.Introspection + ", the way there, or the gateway's own client (auth.introspection.client_id and client_secret_file in " + w.facts.File + "; a change is read by itself)."
		}
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b line) int {
		if a.Bad == b.Bad {
			return 0
		}
		return map[bool]int{true: -1, false: 1}[a.Bad]
	})
	return all
}

// names puts the names of this gateway in: whoever is on call can enter a command as it
// stands. A name that is not known stays in capitals, as manuals have it.
func names(facts Facts, seen map[string]float64) *strings.Replacer {
	host, port, found := strings.Cut(facts.Redis, ":")
	if i := strings.LastIndexByte(facts.Redis, ':'); found {
		host, port = strings.Trim(facts.Redis[:i], "[]"), facts.Redis[i+1:]
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		if n := seen[what]; n > 0 {
			what += ": " + strconv.FormatFloat(n, 'f', 0, 64)
		}
		counts = append(counts, what)
	}
	return strings.NewReplacer("{counts}", strings.Join(counts, ", "), "{file}", quoted(cmp.Or(facts.File, "FILE")),
		"{redishost}", cmp.Or(host, "HOST"), "{redisport}", cmp.Or(port, "6379"))
}

// quoted writes a name as one word of a shell: accounts are called as their owners like.
func quoted(name string) string {
	needsQuotes := func(r rune) bool {
		return !(r == '_' || r == '-' || r == '.' || r == '/' || r == '@' || r == ':' || unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	switch {
	case !strings.ContainsFunc(name, needsQuotes):
		return name
	case strings.Contains(name, "`"): // it would end the command on the page
		return "ID"
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// shown is the text of an error on one line, not too long.
func shown(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
