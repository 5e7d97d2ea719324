package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/gateway/ops"
)

// explainCommand asks the running gateway, because only that knows what its cache
// holds. Nothing is fetched or counted by it.
func explainCommand() *cli.Command {
	return &cli.Command{
		Name:  "explain",
		Usage: "say what a request for one list would get from the running gateway now, and why",
		Flags: append(opsFlags(),
			&cli.StringFlag{Name: "key-id", Usage: "the request of the key with this `ID` (keys list shows them)"},
			&cli.StringFlag{Name: "account", Usage: "without a key: the account's `ID`"},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller; with --key-id the key's own if left out"},
			&cli.StringFlag{Name: "status", Usage: "the request's filter"},
			&cli.StringFlag{Name: "inquiry-type", Usage: "the request's filter"},
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			query := url.Values{}
			for parameter, flag := range map[string]string{"key_id": "key-id", "account": "account", "kind": "kind", "status": "status", "inquiry_type": "inquiry-type"} {
				if c.IsSet(flag) {
					query.Set(parameter, c.String(flag))
				}
			}
			var x ops.Explanation
			if err := askOps(ctx, c, "/ops/explain?"+query.Encode(), nil, &x); err != nil {
				return err
			}
			return show(c, x, func(out io.Writer) { writeExplanation(out, x) })
		},
	}
}

// writeExplanation prints an explanation for a person, the outcome first: what a caller
// would get. Then comes where that is from, a row for each part.
func writeExplanation(out io.Writer, x ops.Explanation) {
	fmt.Fprintf(out, "%s: %d%s %s\n%s\n\n", x.Prediction.Outcome, x.Prediction.HTTPStatus, spaced(x.Prediction.Code), describeList(x), printable(x.Prediction.Text))
	var rows [][]string
	if x.Access != nil {
		rows = append(rows, accessRows(x.Access, x.RateLimit)...)
	}
	rows = append(rows, cacheRows(x.Cache)...)
	rows = append(rows, []string{"legacy", "breaker " + x.Upstream.Breaker})
	if c := x.Upstream.Ceiling; c.PerSecond > 0 {
		rows = append(rows, []string{"ceiling", fmt.Sprintf("%d requests per second, %.0f%% of it this node's, of %d nodes", c.PerSecond, 100*c.Part, c.Nodes)})
	}
	for _, d := range x.Upstream.Drift {
		rows = append(rows, []string{"drift", fmt.Sprintf("%s %s (%s) at %s", d.Path, d.Change, d.Type, d.At.UTC().Format(time.RFC3339))})
	}
	writeTable(out, rows)
}

// describeList names the list as its caller would: kind, account and filters.
func describeList(x ops.Explanation) string {
	text := "the list of " + x.Kind + " " + printable(x.Account)
	for _, filter := range [][2]string{{"status", x.Status}, {"inquiry_type", x.InquiryType}} {
		if filter[1] != "" {
			text += ", " + filter[0] + "=" + filter[1]
		}
	}
	return text
}

// accessRows say what authorization answers. The rate is shown and not spent.
func accessRows(a *ops.Access, r *ops.RateLimitState) [][]string {
	rows := [][]string{
		{"key", a.KeyID + ": " + a.Verdict + ", " + strconv.Itoa(a.HTTPStatus) + spaced(a.Code)},
		{"", a.KeyKind + " key, scopes " + cmp.Or(strings.Join(a.Scopes, " "), "none") + ", paid access " + yesNo(a.PaidAccess) + ", plan " + cmp.Or(a.Plan, "none")},
	}
	if r != nil && r.PerSecond > 0 {
		rows = append(rows, []string{"rate", fmt.Sprintf("%g per second, burst %d, by %s; not looked at", r.PerSecond, r.Burst, r.From)})
	}
	return rows
}

// cacheRows say where the list is and by which policy it is served. What is as
// usual has no row.
func cacheRows(s ops.CacheState) [][]string {
	entry := "nothing in either tier"
	if s.Tier != "" {
		entry = fmt.Sprintf("%s, age %s, ttl left %s, %d bytes", s.Tier, seconds(s.AgeSeconds), seconds(s.LeftSeconds), s.Bytes)
	}
	rows := [][]string{{"cache", entry}}
	rows = append(rows,
		[]string{"ttl", fmt.Sprintf("%s by %s, less %s jitter; stale while revalidating %s, on errors %s",
			seconds(s.TTLSeconds), s.Policy, seconds(s.JitterSeconds), seconds(s.StaleWhileRevalidateSeconds), seconds(s.StaleIfErrorSeconds))},
		[]string{"key parts", fmt.Sprintf("kind %s (epoch %d), account %s (epoch %d), status %q, inquiry_type %q, mapping %s",
			s.Key.Kind, s.Key.KindEpoch, s.Key.Account, s.Key.AccountEpoch, s.Key.Status, s.Key.InquiryType, s.Key.Mapping)},
		[]string{"redis", s.Redis})
	if s.DerivedFrom != "" {
		rows = append(rows, []string{"", "selected from " + s.DerivedFrom + ", which is what the legacy is asked for"})
	}
	if s.Refused != "" {
		rows = append(rows, []string{"", "its entry was refused: " + s.Refused})
	}
	if s.Unconfirmed {
		rows = append(rows, []string{"", "a purge may have been missed: Redis is asked before anything is served"})
	}
	if s.InFlight {
		rows = append(rows, []string{"fill", "under way on this node"})
	}
	if s.Failing {
		last := "the last one failed"
		if s.RetryAt != nil {
			last += "; not tried again before " + s.RetryAt.Format(time.RFC3339)
		}
		rows = append(rows, []string{"fill", last})
	}
	return rows
}

// seconds prints a number of seconds as configurations write a duration, to the
// millisecond.
func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// spaced puts a space before a word that may be missing.
func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// yesNo prints a condition for a person.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
