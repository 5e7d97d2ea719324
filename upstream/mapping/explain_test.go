package mapping

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What an operator is told of a list. What is wanted has bars between its lines; a line that
// must not be there has "-" before it.
func TestExplain(t *testing.T) {
	eachLine(t, "testdata/explain.txt", func(at string, settings map[string]string, given, want string) {
		c := newCase(t, at, settings, given)
		x := c.plan.Explainer(c.want, 100)
		_, _ = x.Take(c.body)
		x.Finish()
		compare(t, at, explained(x), want)
	})
}

// compare looks for what is wanted in the lines of an explanation.
func compare(t *testing.T, at string, all []string, want string) {
	t.Helper()
	for line := range strings.SplitSeq(want, " | ") {
		line, not := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, line) }) == not {
			t.Errorf("%s:\ngot\n%s\nwant %v %s", at, strings.Join(all, "\n"), !not, line)
		}
	}
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

// What came by second requests is explained with its record, and is no member of it.
func TestExplainSecondRequests(t *testing.T) {
	plan := planOf(t, `fields.responses.fetch: {path: "/n/{id}", id: uuid}`, "fields.responses.items: n", "fields.responses.internal_ids: [author]")
	for replies, want := range map[string]string{
		"":                                  "- doubt | - unused uuid | served 1 | - 1 responses",
		`{"n":[]}`:                          "doubt no response came for any of 1 records | - unused | served 1 | 1 responses <- uuid = 4711:  -> 0 responses",
		`{"n":[{"text":"x","author":"B"}]}`: "! 1 responses.created_at: missing | - doubt no | path internal_ids[0]: uuid found in 1 of 1 records | path fields.responses.internal_ids[0]: author found in 1 of 1 responses | served 0",
		`{"n":[7]}`:                         "! 1 responses: not an object | served 0",
	} {
		x := plan.Explainer(acme, 1)
		body := `{"result":{"items":[{"uuid":4711,"customer":{"id":"acme"},"subject":"s","body":{"text":"c"},"state":"N","category":"d","opened":"2026-03-01 09:30:00"}]}}`
		if _, err := x.Take(body); err != nil || x.CheckEnd(End{Records: 1, Pages: 1}) != nil {
			t.Fatal(err)
		}
		s, ids := x.Next()
		if replies != "" {
			_, a := s.Request("acme", ids[0])
			if _, err := a.Take(replies); err != nil {
				t.Fatal(err)
			}
			if err := x.Attach([]*Attachment{a}); err != nil {
				t.Fatal(err)
			}
		}
		x.Finish()
		compare(t, replies, explained(x), want)
	}
}
