package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"inquiry-gateway/gateway/ops"
)

// legacyCause is whose failure it is that there is no list. What is known of it is the upstream's:
// the console only words it.
type legacyCause struct {
	failure, name, some, chapter string // some: its name where only some accounts fail
	mayBeBad                     bool
	hits, do, doSome             string // doSome: where only some accounts fail
}

// legacyCauses stand in the order in which they are shown.
var legacyCauses = []legacyCause{
	{
		failure: "system", name: "The legacy system fails", some: "The legacy system fails for some accounts", chapter: "InquiryGatewayLegacySystemFails", mayBeBad: true,
		hits:   "Callers of lists that are known get them older than their ttl, for `stale_if_error`; others get 502, 503 or 504.",
		do:     "Ask it from this node: {check}. If that fails too, call the owners of the legacy system. Nothing has to be reset here.",
		doSome: "Ask for one of them from this node: {check}. If that fails too, send the owners of the legacy system what it says.",
	},
	{
		failure: "sign_in", name: "The legacy system refuses our sign-in", some: "The legacy system refuses some accounts to our user", chapter: "InquiryGatewaySignInRefused", mayBeBad: true,
		hits:   "Callers of lists that are known get them older than their ttl, for `stale_if_error`; others get 502 `upstream_sign_in_failed`.",
		do:     "Has the password changed or expired, or is the user locked? Write the new one into the file: it is read within a second. Then try it: {check}. The system itself answers.",
		doSome: "Other accounts are let in, so the password is right. Ask the owners of the legacy system whether our user may read these accounts: {check}.",
	},
	{
		failure: "mapping", name: "Replies do not fit the mapping", some: "Replies do not fit the mapping", chapter: "InquiryGatewayInvalidReplies", mayBeBad: true,
		hits:   "Callers of these lists get an older one, for `stale_if_error`; others get 502 `upstream_invalid_response`. Waiting does not help.",
		doSome: "See which record and field: {probe}. Correct the record in the legacy system, or the mapping in {file}. It is read again by itself.",
	},
	{
		failure: "account", name: "Accounts that cannot be asked for", some: "Accounts that cannot be asked for", chapter: "InquiryGatewayAccountUnsupported",
		hits:   "Callers of these accounts get 501 `account_unsupported`, always; nobody else. The legacy system is not asked. Waiting does not help.",
		doSome: "This is no emergency. See which accounts, which character and where: `inquiry-gateway check -c {file}`. Change the mapping, or the account's id.",
	},
	{
		failure: "refused", name: "The gateway holds requests back", some: "The gateway holds requests of some accounts back", chapter: "InquiryGatewayHeldBack", mayBeBad: true,
		hits:   "Callers of lists that are known get them older than their ttl, for `stale_if_error`; others get 503 with `Retry-After`.",
		do:     "The cause says which bound is reached. Where requests wait for a slow legacy system, its latency [below](#charts) has grown: ask it with {check}. Raise a bound in {file} only with the owners of the legacy system.",
		doSome: "The cause says which bound is reached, and for which account. The others are served.",
	},
}

// legacyLines are the causes of the legacy system: one for what is not over, of both kinds, and
// one for each episode that is over.
func legacyLines(facts Facts, now time.Time) (all []line) {
	for _, c := range legacyCauses {
		for _, some := range []bool{false, true} {
			var open []ops.Failing
			for _, f := range facts.Legacy {
				switch {
				case f.Failure != c.failure || f.Some != some:
				case f.Over:
					all = append(all, c.line([]ops.Failing{f}, facts, now, true))
				default:
					open = append(open, f)
				}
			}
			if len(open) > 0 {
				all = append(all, c.line(open, facts, now, false))
			}
		}
	}
	return all
}

// line words episodes of one cause, at most one of a kind.
func (c *legacyCause) line(episodes []ops.Failing, facts Facts, now time.Time, done bool) line {
	first, l := episodes[0], line{Over: done, Chapter: c.chapter, Hits: c.hits, ID: c.failure, Name: c.name}
	do := cmp.Or(c.do, c.doSome)
	if first.Some {
		l.Name, do = c.some, c.doSome
	}
	last, check := first, "`inquiry-gateway check -c {file} --live"
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
	l.Cause = fmt.Sprintf("Last: %s (%s list of %s)", shown(withoutSentence(last.Text)), last.Kind, last.Account)
	if last.UsualFetches < last.Fetches && last.Usual != last.Text {
		l.Cause += fmt.Sprintf(". Most often, %d of %d times: %s", last.UsualFetches, last.Fetches, shown(withoutSentence(last.Usual)))
	}
	probe := "`inquiry-gateway probe -c {file} --kind " + last.Kind + " --account " + quoted(last.Account) + "`"
	do = strings.NewReplacer("{check}", check+"`", "{probe}", probe).Replace(do)
	l.Do = strings.ReplaceAll(do, "{file}", quoted(cmp.Or(facts.File, "FILE")))
	return l
}

// sentence says how one kind's lists fail.
func sentence(f ops.Failing, breaker string, now time.Time) string {
	fetches, accounts := count(f.Fetches, "fetch", "fetches"), fmt.Sprintf("%d of %s", f.Accounts, count(f.Of, "account", "accounts"))
	text := fmt.Sprintf("%s of %s lists failed, for %s that were asked for.", fetches, f.Kind, accounts)
	if f.Failure == "account" {
		text = fmt.Sprintf("%s of %s lists could not be made, for %s that were asked for.", fetches, f.Kind, accounts)
	}
	if f.Held > 0 {
		text += fmt.Sprintf(" %d more were held back while the breaker was open.", f.Held)
	}
	switch {
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

// withoutSentence takes off what the name of the cause says already.
func withoutSentence(text string) string {
	if _, cause, found := strings.Cut(text, "): "); found {
		return cause
	}
	return text
}
