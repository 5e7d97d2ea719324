package mapping

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsonwalk"
)

// explainedBytes is how much of a raw value is shown.
const explainedBytes = 120

// publicTime is the notation of the public record.
const publicTime = "2006-01-02T15:04:05.000Z07:00"

// fields shows every public field of one record.
func (x *Explainer) fields(frame *jsonwalk.Frame, taken bool) []ExplainedField {
	var list []ExplainedField
	for _, t := range x.plan.texts() {
		s, _, why := t.from(frame)
		f := t.explained(frame, why)
		f.guarded = t.guarded()
		switch {
		case why == "" && s.Valid:
			f.Mapped = s.String
		case why == "":
			f.Mapped = "null"
		}
		if t.fixed.Set {
			f.Path = "(const)"
		}
		list = append(list, f)
	}
	created := x.plan.created
	at, why := created.from(frame)
	f := created.explained(frame, why)
	if why == "" {
		f.Mapped = at.Format(publicTime)
	}
	list = append(list, f)
	if p := x.plan.responses; p != nil && x.plan.Second == nil {
		list = append(list, x.responses(p, frame, taken))
	}
	return list
}

// explained shows the path that counts, the last if nothing is at any, and
// what is behind it.
func (p *fieldPlan) explained(frame *jsonwalk.Frame, why string) ExplainedField {
	f := ExplainedField{Field: p.name, Problem: why}
	if p.looked {
		f.Path, f.Raw = p.paths[0], shorten(p.sources[0].find(frame).Raw)
		return f
	}
	for _, f.Path = range p.paths {
		v := jsonwalk.Lookup(frame.Element, f.Path)
		if v.Present() {
			f.Raw = shorten(v.Raw)
			break
		}
		if v.Kind == jsonwalk.Null {
			f.Raw = "null"
		}
	}
	return f
}

// responses shows the answers of the current record as one field.
func (x *Explainer) responses(p *responsesPlan, record *jsonwalk.Frame, taken bool) ExplainedField {
	f := (&fieldPlan{name: "responses", paths: []string{p.itemsPath}}).explained(record, "")
	bad := x.whole.broken
	if bad.why == "" && strings.HasPrefix(x.whole.refused.field, "responses") {
		bad = x.whole.refused
	}
	switch {
	case bad.why != "":
		f.Field, f.Problem = bad.field, bad.why
	case taken:
		f.Mapped = summary(x.whole.List[len(x.whole.List)-1].Responses)
	}
	return f
}

// summary shows how many responses there are, and the last of them, since all would
// fill the screen.
func summary(list []Response) string {
	if len(list) == 0 {
		return "0 responses"
	}
	last := list[len(list)-1]
	return fmt.Sprintf("%d responses, the last: %s | %s | %s",
		len(list), shorten(last.Content), last.ResponderType.String, last.CreatedAt.Format(time.RFC3339))
}

// shorten keeps the first bytes of a text, and cuts at a rune's edge.
func shorten(s string) string {
	if len(s) <= explainedBytes {
		return s
	}
	n := explainedBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// unused lists the paths of the records that lie neither on the way to nor below a path
// of the mapping: what a person may have forgotten.
func (x *Explainer) unused(shapes map[string]uint8) {
	used := x.plan.usedPaths()
	for path, kinds := range shapes {
		if slices.ContainsFunc(used, func(u string) bool { return below(path, u) || below(u, path) }) {
			continue
		}
		u := UnusedPath{Path: path}
		for k := jsonwalk.Null; k <= jsonwalk.Array; k++ {
			if kinds&(1<<k) != 0 {
				u.Types = append(u.Types, k.String())
			}
		}
		x.Unused = append(x.Unused, u)
	}
	slices.SortFunc(x.Unused, func(a, b UnusedPath) int { return strings.Compare(a.Path, b.Path) })
}

// below tells whether a path is another one or lies within it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent) && path[len(parent)] == '.'
}

// usedPaths gives the start of every path of the mapping up to the first part
// that is more than a key.
func (p *Plan) usedPaths() (used []string) {
	paths, inner := slices.Clone(p.byPaths), slices.Clone(p.byInner)
	items := "" // of responses, if all on the way is plain
	if r := p.responses; r != nil && p.Second == nil && plainStart(r.itemsPath) == r.itemsPath {
		items = r.itemsPath
	}
	all := p.coverage()
	for _, w := range all.records {
		if w.Path != items {
			paths = append(paths, w.Path)
		}
	}
	for _, w := range all.responses {
		inner = append(inner, w.Path)
	}
	for _, path := range inner {
		if items != "" {
			paths = append(paths, items+".#."+path)
		}
	}
	for _, path := range paths {
		if start := strings.TrimSuffix(plainStart(path), "."); start != "" {
			used = append(used, start)
		}
	}
	return used
}

// plainStart cuts a path before its first query, modifier, index or pipe. What lies
// below it cannot be told, so all of it counts as used.
func plainStart(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if part == jsonwalk.Each && i < len(parts)-1 {
			continue
		}
		if strings.ContainsAny(part, `@|#({[*?!\`) || part != "" && strings.Trim(part, "0123456789") == "" {
			return strings.Join(parts[:i], ".")
		}
	}
	return path
}
