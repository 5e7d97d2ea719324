package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"inquiry-gateway/upstream"
)

// quietAfter is how long nothing has failed when a line says so.
const quietAfter = 30 * time.Second

// incidentText words a failure of the legacy system. What is known of it is package upstream's.
type incidentText struct {
	failure             upstream.Failure
	name, some, chapter string   // some: its name where only some accounts fail
	notice, problem     bool     // never a problem; always one
	codes               []string // public codes of the errors that callers get
	hits, do, doSome    string   // doSome: where only some accounts fail
}

const staleOr = "Lists that this gateway has are served beyond their ttl, for `stale_if_error`. Callers of all other lists get "

// incidentTexts stand in the order in which they are shown.
var incidentTexts = []incidentText{
	{
		failure: upstream.FailureForeign, name: "Records of another account", chapter: "InquiryGatewayForeignRecords", problem: true,
		codes: []string{"upstream_invalid_response"},
		hits:  "No caller got these records. " + staleOr + "502 `upstream_invalid_response`.",
		do:    "See them: {probe}. Was the mapping changed, and is `owner` still the right field? If it is, call the owners of the legacy system now: it mixes up accounts.",
	},
	{
		failure: upstream.FailureSystem, name: "The legacy system fails", some: "The legacy system fails for some accounts", chapter: "InquiryGatewayLegacySystemFails",
		codes:  []string{"upstream_error", "upstream_timeout", "upstream_unavailable"},
		hits:   staleOr + "502, 503 or 504.",
		do:     "Ask the legacy system from this node: {check}. If that fails too, call its owners. The gateway recovers by itself.",
		doSome: "Ask for one of them from this node: {check}. If that fails too, send the owners of the legacy system what it says.",
	},
	{
		failure: upstream.FailureSignIn, name: "The legacy system refuses our sign-in", some: "The legacy system refuses some accounts to our user", chapter: "InquiryGatewaySignInRefused",
		codes:  []string{"upstream_sign_in_failed"},
		hits:   staleOr + "502 `upstream_sign_in_failed`.",
		do:     "The cause says how we sign in, as whom, and with the secret of which file. Has the password changed or expired, is the user locked, or does the legacy system want another sign-in now? A new secret in the file is read within a second. Try it: {check}.",
		doSome: "Other accounts are let in, so the password is right. Ask the owners of the legacy system whether our user may read these accounts: {check}.",
	},
	{
		failure: upstream.FailureMapping, name: "Replies do not fit the mapping", chapter: "InquiryGatewayInvalidReplies",
		codes: []string{"upstream_invalid_response"},
		hits:  staleOr + "502 `upstream_invalid_response`. Waiting does not help.",
		do:    "See which record and field: {probe}. Correct the record in the legacy system, or the mapping in {file}: the gateway reads the changed file by itself.",
	},
	{
		failure: upstream.FailureAccount, name: "Accounts that cannot be asked for", chapter: "InquiryGatewayAccountUnsupported", notice: true,
		hits: "Callers of these accounts get 501 `account_unsupported`, always; nobody else. The legacy system is not asked. Waiting does not help.",
		do:   "This is no emergency. See which accounts, and why: `inquiry-gateway check -c {file}`. Change the mapping, or the account's id.",
	},
	{
		failure: upstream.FailureRefused, name: "The gateway holds requests back", some: "The gateway holds requests of some accounts back", chapter: "InquiryGatewayHeldBack",
		codes: []string{"upstream_unavailable"},
		hits:  staleOr + "503 with `Retry-After`.",
		do:    "{bound}", doSome: "{bound} Other accounts are served.",
	},
}

// bounds say what to do where the gateway does not ask, by the reason.
var bounds = map[string]string{
	"throttled":             "The legacy system has told us to wait, and is asked again by itself. If that stays so: ask its owners who uses up our quota, and for a higher one; a longer ttl in {file} asks less.",
	"bulkhead_full":         "As many requests as `upstream.max_concurrent` are under way, so the legacy system is slow: see its latency [below](#charts), and ask it: {check}.",
	"account_bulkhead_full": "As many requests as `upstream.max_concurrent_per_account` are under way for one account. Is its program asking for many lists at once?",
	"replies_full":          "The replies in progress have all bytes of `upstream.max_total_response_bytes`: are there unusually long lists, or is the legacy system slow? With memory to spare raise it in {file}.",
	"ceiling":               "`upstream.max_requests_per_second` is reached: see what is fetched [below](#charts). Raise it in {file} only with the owners of the legacy system.",
}

// incidentLines words the incidents, in the order of [incidentTexts].
func incidentLines(w window, now time.Time) []line {
	all := []line{}
	errors := map[string]float64{}
	w.eachResponse(func(_, code string, n float64) { errors[code] += n })
	for _, t := range incidentTexts {
		for _, i := range w.facts.Incidents {
			if i.Failure == t.failure {
				all = append(all, t.line(i, w.facts, errors, now))
			}
		}
	}
	return all
}

// line words one incident. errors are those that callers got in the last minute, by code.
func (t *incidentText) line(i upstream.Incident, facts Facts, errors map[string]float64, now time.Time) line {
	name, do := t.name, t.do
	if i.Accounts < i.Asked {
		name, do = cmp.Or(t.some, t.name), cmp.Or(t.doSome, t.do)
	}
	switch {
	case i.Reason == "throttled" || i.Reason == "overloaded":
		name = "The legacy system tells us to wait (429)"
	case i.Failure == upstream.FailureSystem && i.Asked == 1:
		do += " No other account was asked for, so it may be this one alone: try another one, too."
	}
	command := " -c {file} --records 0 --" + i.Kind + " " + quoted(i.Account) + "`"
	do = strings.NewReplacer("{bound}", cmp.Or(bounds[i.Reason], bounds["throttled"])).Replace(do)
	do = strings.NewReplacer("{check}", "`inquiry-gateway probe"+command,
		"{probe}", "`inquiry-gateway probe -c {file} --"+i.Kind+" "+quoted(i.Account)+"`").Replace(do)
	l := line{
		ID: string(i.Failure) + "-" + i.Kind, Name: name + " (" + i.Kind + " lists)", Chapter: t.chapter, Hits: t.hits, Since: i.Since.Unix(), Last: i.Last.Unix(),
		Bad:   t.problem || !t.notice && float64(i.Accounts) >= failingShare*float64(i.Asked),
		Text:  sentence(i, facts.Breakers[i.Kind], now),
		Cause: fmt.Sprintf("Last: %s (%s list of %s)", shown(i.Cause), i.Kind, i.Account),
		Do:    strings.ReplaceAll(do, "{file}", quoted(cmp.Or(facts.File, "FILE"))),
	}
	n := 0
	for _, code := range t.codes {
		n += int(errors[code])
	}
	if n > 0 {
		l.Text += fmt.Sprintf(" In the last minute %s got an error.", count(n, "request", "requests"))
	}
	return l
}

// sentence says how the lists fail.
func sentence(i upstream.Incident, breaker string, now time.Time) string {
	failed, that := "failed", "that were asked for"
	if i.Failure == upstream.FailureAccount {
		failed, that = "could not be made", "whose callers wanted one"
	}
	accounts := fmt.Sprintf("%d of the %d accounts %s", i.Accounts, i.Asked, that)
	switch {
	case i.Asked == 1:
		accounts = "one account, and no other one was asked for"
	case i.Accounts == i.Asked:
		accounts = fmt.Sprintf("all %d accounts %s", i.Asked, that)
	}
	text := fmt.Sprintf("%s of %s lists %s, for %s.", count(i.Fetches, "fetch", "fetches"), i.Kind, failed, accounts)
	if breaker != "closed" && breaker != "" && i.Failure == upstream.FailureSystem {
		text += " The breaker is " + breaker + " now."
	}
	switch {
	case !i.Worked.IsZero():
		text += " A list came at " + i.Worked.Format(time.TimeOnly) + " UTC: if no more fail, it is over within 30 seconds."
	case now.Sub(i.Last) > quietAfter:
		text += " Nothing has been asked since " + i.Last.Format(time.TimeOnly) + " UTC, so nobody knows whether it works again."
	}
	return text
}

// count words a number.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
