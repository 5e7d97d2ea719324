package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/gateway/ops"
)

// legacyCause is whose failure it is that there is no list. What is known of it is the upstream's:
// the console only words it.
type legacyCause struct {
	failure, name, some, chapter string // some: its name where only some accounts fail
	mayBeBad                     bool
	codes                        []string // public codes of the errors that callers get
	hits, do, doSome             string   // doSome: where only some accounts fail
}

// legacyCauses stand in the order in which they are shown.
var legacyCauses = []legacyCause{
	{
		failure: "system", name: "The legacy system fails", some: "The legacy system fails for some accounts", chapter: "InquiryGatewayLegacySystemFails", mayBeBad: true,
		codes:  []string{"upstream_error", "upstream_timeout", "upstream_unavailable"},
		hits:   "Lists that this gateway has are served beyond their ttl, for `stale_if_error`. Callers of all other lists get 502, 503 or 504.",
		do:     "Ask the legacy system from this node: {check}. If that fails too, call its owners. Nothing has to be reset here.",
		doSome: "Ask for one of them from this node: {check}. If that fails too, send the owners of the legacy system what it says.",
	},
	{
		failure: "sign_in", name: "The legacy system refuses our sign-in", some: "The legacy system refuses some accounts to our user", chapter: "InquiryGatewaySignInRefused", mayBeBad: true,
		codes:  []string{"upstream_sign_in_failed"},
		hits:   "Lists that this gateway has are served beyond their ttl, for `stale_if_error`. Callers of all other lists get 502 `upstream_sign_in_failed`.",
		do:     "The cause says how we sign in, as whom, and with the secret of which file. Has the password changed or expired, is the user locked, or does the legacy system want another sign-in now? A new secret in the file is read within a second. Try it: {check}.",
		doSome: "Other accounts are let in, so the password is right. Ask the owners of the legacy system whether our user may read these accounts: {check}.",
	},
	{
		failure: "mapping", name: "Replies do not fit the mapping", some: "Replies do not fit the mapping", chapter: "InquiryGatewayInvalidReplies", mayBeBad: true,
		codes:  []string{"upstream_invalid_response"},
		hits:   "Lists that this gateway has are served beyond their ttl, for `stale_if_error`. Callers of all other lists that fail so get 502 `upstream_invalid_response`. Waiting does not help.",
		doSome: "See which record and field: {probe}. Correct the record in the legacy system, or the mapping in {file}: the gateway reads the changed file by itself.",
	},
	{
		failure: "account", name: "Accounts that cannot be asked for", some: "Accounts that cannot be asked for", chapter: "InquiryGatewayAccountUnsupported",
		hits:   "Callers of these accounts get 501 `account_unsupported`, always; nobody else. The legacy system is not asked. Waiting does not help.",
		doSome: "This is no emergency. See which accounts, and why: `inquiry-gateway check -c {file}`. Change the mapping, or the account's id.",
	},
	{
		failure: "refused", name: "The gateway holds requests back", some: "The gateway holds requests of some accounts back", chapter: "InquiryGatewayHeldBack", mayBeBad: true,
		codes:  []string{"upstream_unavailable"},
		hits:   "Lists that this gateway has are served beyond their ttl, for `stale_if_error`. Callers of all other lists get 503 with `Retry-After`.",
		do:     "{bound}",
		doSome: "{bound} Other accounts are served.",
	},
}

// toldToWait is the name of what is refused because the legacy system asks for that.
const toldToWait = "The legacy system tells us to wait (429)"

// bounds say what to do where the gateway does not ask, by the reason.
var bounds = map[string]string{
	"throttled":             "The legacy system has told us to wait, and is asked again by itself. If that stays so: ask its owners who uses up our quota, and for a higher one; a longer ttl in {file} asks less.",
	"bulkhead_full":         "As many requests as `upstream.max_concurrent` are under way, so the legacy system is slow: see its latency [below](#charts), and ask it: {check}.",
	"account_bulkhead_full": "As many requests as `upstream.max_concurrent_per_account` are under way for one account. Is its program asking for many lists at once?",
	"ceiling":               "`upstream.max_requests_per_second` is reached: see what is fetched [below](#charts). Raise it in {file} only with the owners of the legacy system.",
}

// legacyLines are the causes of the legacy system: one for what is not over, of both kinds, and
// one for each episode that is over. answers is the episode of answers that fail; nil: there is none.
func legacyLines(episodes []ops.Failing, facts Facts, answers *episode, now time.Time) (all []line) {
	for _, c := range legacyCauses {
		for _, some := range []bool{false, true} {
			var open []ops.Failing
			for _, f := range episodes {
				switch {
				case f.Failure != c.failure || f.Some != some:
				case f.Over:
					all = append(all, c.line([]ops.Failing{f}, facts, now, true))
				default:
					open = append(open, f)
				}
			}
			if len(open) > 0 {
				l := c.line(open, facts, now, false)
				l.Text += c.callers(answers, l.Since)
				all = append(all, l)
			}
		}
	}
	return all
}

// callers says how many requests got an error in an outage since a moment.
func (c *legacyCause) callers(answers *episode, since int64) string {
	if answers == nil || answers.last.Unix() < since {
		return ""
	}
	n := 0
	for _, code := range c.codes {
		n += int(answers.counts[code])
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" Callers got an error for %s since %s UTC.", count(n, "request", "requests"), answers.since.UTC().Format(time.TimeOnly))
}

// line words episodes of one cause, at most one of a kind.
func (c *legacyCause) line(episodes []ops.Failing, facts Facts, now time.Time, done bool) line {
	first, l := episodes[0], line{Over: done, Chapter: c.chapter, Hits: c.hits, ID: c.failure, Name: c.name}
	do := cmp.Or(c.do, c.doSome)
	switch {
	case first.Some:
		l.Name, do = c.some, c.doSome
	case c.failure == "system" && !slices.ContainsFunc(episodes, func(f ops.Failing) bool { return f.Of > 1 }):
		do += " No other account was asked for, so it may be this one alone: try another one, too."
	}
	if first.Reason == "throttled" || first.Reason == "overloaded" {
		l.Name = toldToWait
	}
	if done {
		l.Name += " (" + first.Kind + " lists)"
	}
	last, check := first, "`inquiry-gateway probe -c {file} --records 0"
	var texts []string
	for _, f := range episodes {
		texts = append(texts, sentence(f, facts.Breakers[f.Kind], now))
		check += " --" + f.Kind + " " + quoted(f.Account)
		l.Bad = l.Bad || c.mayBeBad && float64(f.Accounts) >= legacyShare*float64(f.Of)
		if f.Since.Before(first.Since) {
			first = f
		}
		if f.Last.After(last.Last) {
			last = f
		}
	}
	l.Text, l.Since, l.Last = strings.Join(texts, " "), first.Since.Unix(), last.Last.Unix()
	l.Cause = lastOf(last)
	if last.UsualFetches < last.Fetches && last.Usual != last.Text {
		l.Cause += fmt.Sprintf(". Most often, %d of %d times: %s", last.UsualFetches, last.Fetches, shown(last.UsualCause))
	}
	probe := "`inquiry-gateway probe -c {file} --" + last.Kind + " " + quoted(last.Account) + "`"
	do = strings.ReplaceAll(do, "{bound}", cmp.Or(bounds[last.Reason], bounds["throttled"]))
	do = strings.NewReplacer("{check}", check+"`", "{probe}", probe).Replace(do)
	if l.Do = strings.ReplaceAll(do, "{file}", quoted(cmp.Or(facts.File, "FILE"))); done { // until it worked again: with little traffic the last failure is long before
		l.Do, l.Last = "", first.Ended.Unix()
	}
	return l
}

// lastOf says why the last list of an episode failed, and whose it is.
func lastOf(f ops.Failing) string {
	return fmt.Sprintf("Last: %s (%s list of %s)", shown(f.Cause), f.Kind, f.Account)
}

// sentence says how one kind's lists fail.
func sentence(f ops.Failing, breaker string, now time.Time) string {
	failed, that := "failed", "that were asked for"
	if f.Failure == "account" {
		failed, that = "could not be made", "whose callers wanted one"
	}
	accounts := fmt.Sprintf("%d of the %d accounts %s", f.Accounts, f.Of, that)
	switch {
	case f.Of == 1:
		accounts = "one account, and no other one was asked for"
	case f.Accounts == f.Of:
		accounts = fmt.Sprintf("all %d accounts %s", f.Of, that)
	}
	text := fmt.Sprintf("%s of %s lists %s, for %s.", count(f.Fetches, "fetch", "fetches"), f.Kind, failed, accounts)
	if f.Held > 0 {
		text += fmt.Sprintf(" %d more were held back while the breaker was open.", f.Held)
	}
	switch {
	case f.Over && f.Remapped:
		text += " It is over since " + f.Ended.Format(time.TimeOnly) + " UTC, when another mapping was taken over."
	case f.Over:
		text += " It works again since " + f.Ended.Format(time.TimeOnly) + " UTC, when a list came."
	case f.Ended != nil:
		text += " Some lists came meanwhile, the last failure is of " + f.Last.Format(time.TimeOnly) + " UTC."
	case breaker != "closed" && breaker != "" && f.Failure == "system":
		text += " The breaker is " + breaker + " now."
	case f.Some && now.Sub(f.Last) > over:
		text += " These accounts have not been asked for since " + f.Last.Format(time.TimeOnly) + " UTC."
	case now.Sub(f.Last) > over:
		text += " Nothing has been asked since " + f.Last.Format(time.TimeOnly) + " UTC, so nobody knows whether it works again."
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
