package console

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"inquiry-gateway/gateway/ops"
)

const (
	// over is how long a cause that comes and goes must not have been seen to be over, once
	// what had failed works.
	over = 30 * time.Second
	// overUnknown is how long a cause must not have been seen that no success ends: an event.
	overUnknown = 5 * time.Minute
	// forgotten is how long what is over is still shown.
	forgotten = 12 * time.Hour
	// foreignReason is that of an episode of lists that have records of another account.
	foreignReason = "owner"
	// maxText bounds the text of an error.
	maxText = 300
)

// episode is since when a cause is seen, until it is over.
type episode struct {
	since, last, worked time.Time          // worked: what had failed has worked since last; zero: not
	bad                 bool               // when it was last seen
	counts              map[string]float64 // by what the cause tells apart: a kind, an error, a state
}

// cause is one thing that can be wrong on this node. Those of the legacy system are [legacyCauses].
// Its texts hold names in braces, see [names].
type cause struct {
	id, name, chapter string
	// seen counts what has been seen of it in a tick, and tells whether that is bad; empty:
	// nothing has. A state, such as an open breaker, counts 0.
	seen func(tick) (counts map[string]float64, bad bool)
	// works tells whether what may fail has worked in a tick; nil: nothing tells that.
	works          func(tick) bool
	after          string // what is left to do when it is over
	state          bool   // it is over as soon as it is not seen and works
	text, hits, do string
}

// Bounds from which on a cause is shown, or is bad. docs/observing.md has them beside those of
// the alerts.
const (
	legacyShare  = .5  // of the accounts that were asked for: bad
	keysShare    = .01 // of the requests: bad
	keysLeast    = 2   // in a tick: bad
	failedShare  = .01 // of the answers: bad
	redisLeast   = 5   // failed calls in a tick: shown
	limitedShare = .1  // of the answers: shown
	limitedLeast = 5   // in a tick: shown
)

// causes stand in the order in which they are shown: first what harms callers' data, then
// what they notice, then the rest.
var causes = []cause{
	{
		id: "foreign", name: "Records of another account", chapter: "InquiryGatewayForeignRecords",
		seen: func(t tick) (map[string]float64, bool) {
			counts := map[string]float64{}
			for kind, n := range t.grown("upstream_foreign_records_total", nil) {
				counts["in "+kind+" lists"] = n
			}
			return counts, true
		},
		works: func(t tick) bool {
			return len(t.grown("upstream_requests_total", func(l []string) bool { return l[1] == "ok" })) > 0
		},
		text: "The legacy system gave records of another account than it was asked for: {counts}.", hits: "No caller got them. Callers of those lists get 502, or an older list.",
		do:    "See them: `inquiry-gateway probe -c {file} --{kind} {account}`. Was the mapping changed, and is `owner` still the right field? If it is, call the owners of the legacy system now: it mixes up accounts.",
		after: "Tell the owners of the legacy system, if nobody has yet.",
	},
	{
		id: "keystore", name: "The key store does not answer", chapter: "InquiryGatewayAuthUnavailable",
		seen: func(t tick) (map[string]float64, bool) {
			n, all := t.grown("auth_requests_total", func(l []string) bool { return l[0] == "unavailable" }), 0.0
			for _, more := range t.grown("auth_requests_total", nil) {
				all += more
			}
			bad := n["unavailable"] >= max(keysLeast, keysShare*all)
			return renamed(n, "unavailable", "requests"), bad
		},
		works: func(t tick) bool { return t.grown("auth_lookups_total", nil)["found"] > 0 },
		text:  "Not let in because of it: {counts}.", hits: "Callers whose key this node has not seen lately: they get 503. Keys in use stay good for their ttl.",
		do: "Bring Redis back: `inquiry-gateway keys -c {file} list` asks it.",
	},
	{
		id: "tokens", name: "Valid tokens are refused", chapter: "InquiryGatewayAuthFailures",
		seen: func(t tick) (map[string]float64, bool) {
			return renamed(t.grown("auth_requests_total", func(l []string) bool { return l[0] == "unusable" }), "unusable", "requests"), false
		},
		text: "The authorization server says that they are active, but they are no API keys of this gateway: {counts}.", hits: "Their callers get 401.",
		do: "A claim is missing: have the authorization server put it into access tokens, or name the right one under auth.introspection.claims in {file}. A refresh, ID or bound token: tell the caller to send a bearer access token.",
	},
	{
		id: "answers", name: "Answers fail with 5xx", chapter: "InquiryGatewayFailing", seen: seenAnswers,
		works: func(t tick) bool {
			return len(t.grown("http_requests_total", func(l []string) bool { return l[0] == "200" || l[0] == "304" })) > 0
		},
		text: "Since then: {counts}.", hits: "The callers of these requests.",
		do: "[Explain](#explain) the request of an account that fails, such as {id}; the log's records of 5xx have the `cause`.",
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
		works: func(t tick) bool { return t.grown("redis_operations_total", nil)["ok"] > 0 },
		text:  "Since then: {counts}.", hits: "No caller yet. Lists are kept on this node only, so the legacy system gets more requests, and each node limits rates alone.",
		do: "Ask it from this node: `redis-cli -h {redishost} -p {redisport} ping`. Nothing has to be reset: it is asked again by itself.",
	},
	{
		id: "reload", name: "A changed file is not in force", chapter: "InquiryGatewayConfigReloadFailed",
		seen:  func(t tick) (map[string]float64, bool) { return uncounted(t.facts.NotInForce), false },
		works: always, state: true,
		text: "Not in force: {counts}. The old one runs.", hits: "Nobody now, but a mistake in a file would make a restart fail, and while the keys file has one, a revoked key still works.",
		do: "See file, line and key with `inquiry-gateway check -c {file}`, correct it, and save it: it is read again by itself, or on `SIGHUP`. If a key cannot change while the gateway runs, restart the nodes one after the other, or undo the change.",
	},
	{
		id: "limited", name: "Many requests get 429", chapter: "InquiryGatewayRateLimiting", seen: seenLimited,
		text: "Since then: {counts}.", hits: "The accounts over their rate, and addresses that guess keys. Others notice nothing.",
		do: "The log names accounts and addresses. Tell the account's owner, give it a plan, or block the address in front of the gateway.",
	},
}

// always works as soon as it is not seen.
func always(tick) bool { return true }

// seenAnswers counts by error code; a 502 may be a legacy system that fails or one that
// cannot be understood. Below one in a hundred they are a notice.
func seenAnswers(t tick) (map[string]float64, bool) {
	all, failed := 0.0, 0.0
	for code, n := range t.grown("http_requests_total", nil) {
		if all += n; strings.HasPrefix(code, "5") && code != "501" { // which says that the account cannot be asked for
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
	return counts, failed >= failedShare*all
}

// seenRedis does not tell of single calls: one that is repeated in time is a success for
// the caller.
func seenRedis(t tick) (map[string]float64, bool) {
	counts := map[string]float64{}
	failed := t.grown("redis_operations_total", func(l []string) bool { return l[0] == "timeout" || l[0] == "error" })
	if failed["timeout"]+failed["error"] >= redisLeast {
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
	if n := t.grown("rate_limit_decisions_total", nil)["limited"]; n >= max(limitedLeast, limitedShare*all) {
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
		e := episodes[c.id]
		if len(counts) == 0 {
			if e != nil && e.worked.IsZero() && c.works != nil && c.works(t) {
				e.worked = at
			}
			continue
		}
		if e == nil || c.over(e, at) {
			e = &episode{since: at, counts: map[string]float64{}}
			episodes[c.id] = e
		}
		e.last, e.worked, e.bad = at, time.Time{}, bad
		for what, n := range counts {
			e.counts[what] += n
		}
	}
}

// over tells whether what had failed works. That nothing is seen for a while does not, as
// nobody may have asked.
func (c *cause) over(e *episode, now time.Time) bool {
	switch {
	case c.works == nil:
		return now.Sub(e.last) > overUnknown
	case c.state:
		return !e.worked.IsZero()
	}
	return !e.worked.IsZero() && now.Sub(e.last) > over
}

// Facts are the names and errors that the lines say beside the counts, and what is known of
// the legacy system.
type Facts struct {
	Kinds []string           // of the lists that there are
	File  string             // the configuration
	Redis string             // host:port; empty: none
	Last  map[string]Failure // the last error of "redis", "keystore", "tokens" and "reload"

	Introspection string // URL of the authorization server that knows the keys; empty: none does

	Legacy   []ops.Failing     // episodes of failures of the legacy system, also those that are over
	Breakers map[string]string // closed, half-open or open, by kind

	NotInForce []string // files whose newest content was refused: "configuration", "keys file"
}

// Failure is an error that has happened, in words that hold no secret.
type Failure struct {
	Text string
	At   time.Time
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

// lines are what fails now, what is bad first, then in the order of causes, those of the legacy
// system where records of another account stand; and below it what is over, the newest first.
func lines(episodes map[string]*episode, now time.Time, facts Facts) []line {
	all := []line{}
	legacy := facts.Legacy
	for _, c := range causes {
		if c.id == "keystore" {
			all = append(all, legacyLines(legacy, facts, episodes["answers"], now)...)
		}
		e := episodes[c.id]
		if e == nil || now.Sub(e.last) > forgotten {
			continue
		}
		names := names(facts, e.counts)
		l := line{
			ID: c.id, Name: c.name, Chapter: c.chapter, Hits: c.hits, Bad: e.bad, Over: c.over(e, now),
			Since: e.since.Unix(), Last: e.last.Unix(), Cause: lastError(c.id, e, facts), Text: names.Replace(c.text), Do: names.Replace(c.do),
		}
		if c.id == "keystore" && facts.Introspection != "" {
			l.Do = "Mend what the last error names: the authorization server at " + facts.Introspection + ", the way there, or the gateway's own client (auth.introspection.client_id and client_secret_file in " + facts.File + "; a change is read by itself)."
		}
		if c.id == "foreign" { // whose lists fail by it is no second line
			legacy = slices.DeleteFunc(slices.Clone(legacy), func(f ops.Failing) bool {
				told := f.Reason == foreignReason && (f.Over || !l.Over)
				if told && !f.Over {
					l.Text, l.Cause = l.Text+" "+sentence(f, "", now), lastOf(f)
				}
				return told
			})
		}
		if l.Over {
			l.Do = c.after
			if !e.worked.IsZero() {
				l.Text += " Over since " + e.worked.UTC().Format(time.TimeOnly) + " UTC."
			}
		}
		if c.works != nil && e.worked.IsZero() && now.Sub(e.last) > over {
			l.Text += " Nothing has been asked since."
		}
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
	// Of the kind that the counts name, or of any where they name none.
	var last ops.Failing
	for _, f := range facts.Legacy {
		if kinds := strings.Join(counts, " "); f.Last.After(last.Last) && (strings.Contains(kinds, f.Kind) || !strings.Contains(kinds, " lists")) {
			last = f
		}
	}
	return strings.NewReplacer("{counts}", strings.Join(counts, ", "), "{file}", quoted(cmp.Or(facts.File, "FILE")), "{kind}", cmp.Or(last.Kind, "KIND"),
		"{account}", quoted(cmp.Or(last.Account, "ID")), "{id}", strings.ReplaceAll(cmp.Or(last.Account, "ID"), "`", "'"),
		"{redishost}", cmp.Or(host, "HOST"), "{redisport}", cmp.Or(port, "6379"))
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

// lastError says why, as far as an error of the time of the episode is known.
func lastError(id string, e *episode, facts Facts) string {
	f := facts.Last[id]
	if f.Text == "" || f.At.Before(e.since.Add(-2*tickEvery)) {
		return ""
	}
	return "Last: " + shown(f.Text)
}

// shown is the text of an error on one line, not too long.
func shown(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
