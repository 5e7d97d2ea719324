package upstream

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsonwalk"
)

// probeRawBytes is how much of a raw value is shown.
const probeRawBytes = 120

func itoa(n int) string { return strconv.Itoa(n) }

// fields shows every public field of one record.
func (x *prober) fields(r *reply, raw string) []ProbeField {
	frame := r.walker.Frame(frameRecord)
	var list []ProbeField
	for _, t := range []*textPlan{x.plan.title, x.plan.content, x.plan.status, x.plan.inquiryType, x.plan.company} {
		if t != nil {
			list = append(list, probeText(t, frame))
		}
	}
	list = append(list, probeTime(x.plan.created, frame))
	if p := x.plan.responses; p != nil && p.fetch == nil {
		list = append(list, x.responses(r, p, raw))
	}
	return list
}

// probeText shows the way of a text.
func probeText(t *textPlan, frame *jsonwalk.Frame) ProbeField {
	f := ProbeField{Field: t.name}
	f.Path, f.Raw = whichPath(t.paths, frame.Element)
	s, why := t.from(frame)
	f.Problem = why
	switch {
	case why != "":
	case s.Valid:
		f.Mapped = s.String
	default:
		f.Mapped = "null"
	}
	if t.fixed.Set {
		f.Path = "(const)"
	}
	return f
}

// probeTime shows the way of a time, in the notation of the public record.
func probeTime(t *timePlan, frame *jsonwalk.Frame) ProbeField {
	f := ProbeField{Field: t.name}
	f.Path, f.Raw = whichPath(t.paths, frame.Element)
	at, why := t.from(frame)
	if f.Problem = why; why == "" {
		f.Mapped = at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	return f
}

// responses shows the answers of a record as one field.
func (x *prober) responses(r *reply, p *responsesPlan, raw string) ProbeField {
	f := ProbeField{Field: "responses"}
	f.Path, f.Raw = whichPath([]string{p.itemsPath}, raw)
	bad := r.broken
	if bad.why == "" && strings.HasPrefix(r.refused.field, "responses") {
		bad = r.refused
	}
	switch {
	case bad.why != "":
		f.Field, f.Problem = bad.field, bad.why
	case len(r.list) > 0:
		f.Mapped = summary(r.list[0].Responses)
	}
	return f
}

// summary shows how many responses there are, and the last of them.
func summary(list []Response) string {
	if len(list) == 0 {
		return "0 responses"
	}
	last := list[len(list)-1]
	return itoa(len(list)) + " responses, the last: " + shorten(last.Content) + " | " + last.ResponderType.String + " | " + last.CreatedAt.Format(time.RFC3339)
}

// whichPath gives the path that counts, the last if none is there, and what is
// behind it.
func whichPath(paths []string, record string) (path, raw string) {
	for _, path = range paths {
		if v := jsonwalk.Lookup(record, path); v.Present() {
			return path, shorten(v.Raw)
		} else if v.Kind == jsonwalk.Null {
			raw = "null"
		}
	}
	return path, raw
}

// shorten cuts at a rune's edge.
func shorten(s string) string {
	if len(s) <= probeRawBytes {
		return s
	}
	n := probeRawBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// unused lists the paths of the records that lie neither on the way to nor
// below a path of the mapping.
func (x *prober) unused(shapes map[string]uint8) {
	used := x.plan.usedPaths()
	for path, kinds := range shapes {
		if slices.ContainsFunc(used, func(u string) bool { return below(path, u) || below(u, path) }) {
			continue
		}
		u := ProbeUnused{Path: path}
		for k := jsonwalk.Null; k <= jsonwalk.Array; k++ {
			if kinds&(1<<k) != 0 {
				u.Types = append(u.Types, k.String())
			}
		}
		x.Unused = append(x.Unused, u)
	}
	slices.SortFunc(x.Unused, func(a, b ProbeUnused) int { return strings.Compare(a.Path, b.Path) })
}

// below tells whether a path is another one or lies within it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent) && path[len(parent)] == '.'
}

// usedPaths gives the start of every path of the mapping up to the first part
// that is more than a key.
func (p *endpointPlan) usedPaths() []string {
	var list []string
	add := func(prefix string, paths ...string) {
		for _, path := range paths {
			if prefix+plainStart(path) != "" {
				list = append(list, strings.TrimSuffix(prefix+plainStart(path), "."))
			}
		}
	}
	for _, t := range []*textPlan{p.title, p.content, p.status, p.inquiryType, p.company} {
		if t != nil {
			add("", t.paths...)
		}
	}
	add("", p.created.paths...)
	add("", p.ownerPaths...)
	add("", p.idPaths...)
	r := p.responses
	switch {
	case r == nil:
	case r.fetch != nil:
		add("", r.fetch.idPath)
	case plainStart(r.itemsPath) != r.itemsPath:
		add("", r.itemsPath)
	default:
		inner := r.itemsPath + ".#."
		add(inner, r.content.paths...)
		add(inner, r.role.paths...)
		add(inner, r.created.paths...)
		add(inner, r.idPaths...)
	}
	return list
}

// plainStart cuts a path before its first query, modifier, index or pipe.
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
