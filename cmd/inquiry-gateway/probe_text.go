package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/upstream/mapping"
	"inquiry-gateway/upstream/probe"
)

const (
	maxShownRunes      = 40 // of one value in a table, which has at most 120 columns
	maxRecordRunes     = 34 // of one value in the table of a record
	maxPathRunes       = 20 // of a path in the same; another table has it whole
	maxShownViolations = 20
	maxShownReply      = 400 // characters of a reply that was refused
)

// writeProbe prints a probe for a person. Everything from the legacy system is made printable, because it must not control the
// terminal.
func writeProbe(out io.Writer, p *probe.Probe) {
	writeExchange(out, p)
	for _, r := range p.Records {
		fmt.Fprintf(out, "\nrecord %d\n", r.Number)
		rows := [][]string{{"FIELD", "PATH", "RAW", "MAPPED"}}
		for _, f := range r.Fields {
			mapped := cmp.Or(truncate(f.Mapped, maxRecordRunes), "(empty)")
			if f.Problem != "" {
				mapped = "! " + f.Problem
			}
			rows = append(rows, []string{f.Field, truncate(f.Path, maxPathRunes), cmp.Or(truncate(f.Raw, maxRecordRunes), "-"), mapped})
		}
		writeTable(out, rows)
	}
	writeFindings(out, p)
	if p.LeftOut > 0 {
		fmt.Fprintf(out, "\n%s dropped by on_owner_mismatch or on_invalid_record\n", plural(p.LeftOut, "record"))
	}
	if p.Unasked {
		fmt.Fprint(out, "\nnote: no record can have these filter values, so the gateway responds with an empty list and sends no request\n")
	}
	if len(p.Beside) > 0 {
		fmt.Fprintf(out, "\nnote: values beside the list that the mapping does not read: %s; check whether one of them is a total or leads to a further page\n", printable(strings.Join(p.Beside, ", ")))
	}
	if p.Open {
		fmt.Fprint(out, "\nnote: the legacy system also responds without credentials: when they expire, every list may look empty; see auth.renew_if\n")
	}
	reason := p.Reason
	if p.Verdict == probe.Doubtful {
		reason = "the gateway would serve this list, but the mapping may be wrong: " + reason
	}
	if p.Verdict == probe.Refused {
		for _, d := range p.Doubts { // with other verdicts they are the reason
			fmt.Fprintf(out, "\nnote: %s\n", printable(d.Text))
		}
	}
	fmt.Fprintf(out, "\n%s: %s\n", p.Verdict, cmp.Or(printable(reason), "the gateway would serve this list"))
}

// writeExchange prints the request and what came back. A saved reply has no request.
func writeExchange(out io.Writer, p *probe.Probe) {
	fmt.Fprintf(out, "%s %s\n", p.Kind, printable(p.Account))
	if p.Request != nil {
		fmt.Fprintf(out, "  request   %s %s\n", p.Request.Method, printable(p.Request.URL))
		for _, name := range slices.Sorted(maps.Keys(p.Request.Headers)) {
			fmt.Fprintf(out, "            %s: %s\n", name, printable(p.Request.Headers[name]))
		}
		writeBody(out, p.Request.Body)
		answered := "no response"
		if p.Status != 0 {
			answered = fmt.Sprintf("status %d, %s,", p.Status, cmp.Or(printable(cut(p.MediaType)), "no media type"))
		}
		fmt.Fprintf(out, "  response  %s in %s\n", answered, p.Took.Round(time.Millisecond))
	}
	fmt.Fprintf(out, "  found     %s in %d bytes%s\n", recordSummary(p), p.Bytes, pageSummary(p))
	for _, f := range p.Further {
		fmt.Fprintf(out, "  %-9s %s such as %s %s\n", f.For, plural(f.Times, "request"), f.Method, printable(f.URL))
		writeBody(out, f.Body)
	}
	if p.Problem != "" {
		fmt.Fprintf(out, "  problem   %s\n", printable(p.Problem))
		if p.Found != "" {
			fmt.Fprintf(out, "  value     %s\n", printable(p.Found))
		}
	}
	if text := strings.Join(strings.Fields(p.RefusedReply), " "); text != "" { // it often says why
		fmt.Fprintf(out, "  reply     %s\n", printable(truncate(text, maxShownReply)))
	}
}

// writeBody prints the body of a request.
func writeBody(out io.Writer, body string) {
	for line := range strings.Lines(body) {
		fmt.Fprintf(out, "            %s\n", printable(line))
	}
}

// writeSection prints a line, a heading and a row for each value of a list; nothing if the list is empty.
func writeSection[T any](out io.Writer, line string, list []T, heading []string, row func(T) []string) {
	if len(list) == 0 {
		return
	}
	rows := [][]string{heading}
	for _, value := range list {
		rows = append(rows, row(value))
	}
	fmt.Fprint(out, "\n", line)
	writeTable(out, rows)
}

// writeFindings prints what concerns all records: first the problems, last the values that are not mapped.
func writeFindings(out io.Writer, p *probe.Probe) {
	writeViolations(out, p.Violations)
	switch o := p.Owner; {
	case p.Items == 0:
	case o.Path == "":
		fmt.Fprint(out, "\nowner: not checked; set owner to the path of the account within a record\n")
	default:
		foreign := numbers(o.Foreign)
		if len(o.Others) > 0 {
			foreign += " (" + printable(strings.Join(o.Others, ", ")) + ")"
		}
		fmt.Fprintf(out, "\nowner: %s: %d of this account, foreign %s, without one %s\n", printable(o.Path), o.Matches, foreign, numbers(o.Missing))
	}
	r := p.Removed
	removed := fmt.Sprintf("internal ids are removed in %s\n", plural(r.Texts, "text"))
	writeSection(out, removed, r.Cuts, []string{"RECORD", "FIELD", "BEFORE", "AFTER"}, func(c mapping.Cut) []string {
		return []string{strconv.Itoa(c.Record), c.Field, cut(c.Before), cut(c.After)}
	})
	const suspects = "! not removed, but may be an internal id; if it is one, add it to the key\n"
	writeSection(out, suspects, p.Suspects, []string{"RECORD", "FIELD", "VALUE", "IT IS", "KEY"}, func(u mapping.Suspect) []string {
		return []string{strconv.Itoa(u.Record), u.Field, cut(u.Value), u.Why, u.Key}
	})
	writeSection(out, "", p.Paths, []string{"CONFIGURED", "PATH", "FOUND IN"}, func(f mapping.PathFound) []string {
		share := f.Share()
		if f.Doubt != "" {
			share = "! " + share + ": " + f.Doubt
		}
		return []string{f.Key, f.Path, share}
	})
	writeSection(out, "", p.Unused, []string{"NOT MAPPED", "TYPES"}, func(u mapping.UnusedPath) []string {
		return []string{u.Path, strings.Join(u.Types, ", ")}
	})
}

// writeViolations prints the first violations; a wrong path breaks every record in the same way.
func writeViolations(out io.Writer, list []mapping.RawViolation) {
	shown := list[:min(len(list), maxShownViolations)]
	writeSection(out, "", shown, []string{"RECORD", "FIELD", "RAW", "PROBLEM"}, func(v mapping.RawViolation) []string {
		return []string{strconv.Itoa(v.Record), v.Field, cmp.Or(cut(v.Raw), "-"), v.Problem}
	})
	if more := len(list) - len(shown); more > 0 {
		fmt.Fprintf(out, "and %d more; --json shows all\n", more)
	}
}

// cut shortens a value for a table, in characters.
func cut(s string) string { return truncate(s, maxShownRunes) }

// numbers lists the first ten records of a list for a person.
func numbers(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	shown := fmt.Sprint("in ", strings.Trim(fmt.Sprint(list[:min(len(list), 10)]), "[]"))
	if more := len(list) - 10; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}
