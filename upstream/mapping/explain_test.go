package mapping

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What an operator is told of a list. What is wanted has bars between its lines; a line that
// must not be there has "not" before it.
func TestExplain(t *testing.T) {
	cases(t, "testdata/explain.txt", func(at string, settings map[string]string, given, want string) {
		c := newCase(t, at, settings, given)
		x := c.plan.Explainer(c.want, 100)
		_, _ = x.Take(c.body)
		x.Finish()
		all := explained(x)
		for line := range strings.SplitSeq(want, " | ") {
			line, not := strings.CutPrefix(strings.TrimSpace(line), "not ")
			if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, line) }) == not {
				t.Errorf("%s:\ngot\n%s\nwant %v %s", at, strings.Join(all, "\n"), !not, line)
			}
		}
	})
}

// explained writes an explanation in lines.
func explained(x *Explainer) (all []string) {
	say := func(format string, args ...any) {
		all = append(all, strings.ReplaceAll(fmt.Sprintf(format, args...), " | ", " / "))
	}
	say("items %d, excluded %d", x.Items, x.Excluded)
	say("served %d", len(x.List))
	for _, r := range x.Records {
		for _, f := range r.Fields {
			say("%d %s <- %s: %s -> %s", r.Number, f.Field, f.Path, f.Raw, f.Mapped)
		}
	}
	for _, v := range x.Violations {
		say("! %d %s: %s", v.Record, v.Field, v.Problem)
	}
	o := x.Owner
	say("owner %s: %d, missing %v, foreign %v, of another case %d, such as %s", o.Path, o.Matches, o.Missing, o.Foreign, o.Case, strings.Join(o.Others, " "))
	for _, u := range x.Unused {
		say("unused %s %s", u.Path, strings.Join(u.Types, ","))
	}
	for _, p := range x.Paths {
		say("path %s", p)
	}
	for _, d := range x.Doubts {
		say("doubt %s", d.Text)
	}
	r := x.Explanation.Removed
	say("removed %d: id %d, pattern %d, UUID %d", r.Texts, r.ID, r.Pattern, r.UUID)
	for _, c := range r.Cuts {
		say("cut %d %s: %s -> %s", c.Record, c.Field, c.Before, c.After)
	}
	for _, u := range x.Suspects {
		say("stays %d %s: %s, %s, %s", u.Record, u.Field, u.Value, u.Why, u.Key)
	}
	return all
}
