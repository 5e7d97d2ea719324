package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
)

const (
	defaultMaxPages         = 500
	defaultPagesConcurrency = 4
)

// pagingKeys are the keys that have a meaning for each style besides style and
// ignore_marks; those with a "!" are needed.
func pagingKeys(style string) (keys []string, known bool) {
	all, known := map[string]string{
		PageNone:   "",
		PageNumber: "size size_param param first total total_header total_pages more last ends_short max_pages concurrency",
		PageOffset: "size size_param param total total_header more last ends_short max_pages concurrency",
		PageCursor: "size size_param param cursor! more last max_pages",
		PageNext:   "size size_param next! rewrite_host max_pages",
		PageLink:   "size size_param rewrite_host max_pages",
	}[style]
	return append(strings.Fields(all), "style", "ignore_marks"), known
}

// Variable is the placeholder that is another one on each page; empty: the style has
// none.
func (c PagingConfig) Variable() string {
	return map[string]string{PageNumber: address.Page, PageOffset: address.Offset, PageCursor: address.Cursor}[c.Style]
}

// placeholders are those that query and body may hold besides.
func (c PagingConfig) placeholders() []string {
	switch {
	case c.Variable() != "":
		return []string{address.Size, c.Variable()}
	case c.Style == PageNext || c.Style == PageLink:
		return []string{address.Size}
	}
	return nil
}

// paths are those within a reply, by their keys.
func (c PagingConfig) paths() map[string]string {
	return map[string]string{"cursor": c.Cursor, "next": c.Next, "total": c.Total, "total_pages": c.TotalPages, "more": c.More, "last": c.Last}
}

// check adds keys that the style needs and lacks, or would ignore, to problems,
// completes the request by their parameters, and returns the section with its defaults.
// A key that has no effect is a mistake: somebody relies on it.
func (c PagingConfig) check(field string, request *address.Plan, problems *invalid.Problems) PagingConfig {
	c.Style = cmp.Or(c.Style, PageNone)
	allowed, ok := pagingKeys(c.Style)
	if !ok {
		return c // which Enums has refused
	}
	variable, sized := c.Variable(), request.Has(address.Size)
	placed := variable != "" && request.Has(variable)
	problems.AddIf(placed && c.Param != "", field+".param", "the request holds {%s} already; remove one of the two", variable)
	problems.AddIf(sized && c.SizeParam != "", field+".size_param", "the request holds {size} already; remove one of the two")
	problems.AddIf(variable != "" && !placed && c.Param == "", field+".param", "missing: style %s needs it, or {%s} in query or body", c.Style, variable)
	problems.Keys(field, c, "style "+c.Style, allowed...)
	for name, path := range c.paths() {
		if path != "" && (slices.Contains(allowed, name) || slices.Contains(allowed, name+"!")) {
			err := jsonwalk.CheckPath(path)
			problems.AddIf(err != nil, field+"."+name, "%v", err)
		}
	}
	for name, n := range map[string]int{"size": c.Size, "first": c.First, "max_pages": c.MaxPages, "concurrency": c.Concurrency} {
		problems.AddIf(n < 0, field+"."+name, "must not be negative")
	}
	for i, mark := range c.IgnoreMarks {
		problems.AddIf(mark == "", index(field+".ignore_marks", i), "empty: name a path as the log and probe do, such as meta.total, or a header, such as Link")
	}
	problems.AddIf(c.More != "" && c.Last != "", field+".last", "more tells the end already; remove the one or the other")
	problems.AddIf(c.EndsShort && c.Size == 0, field+".ends_short", "a page can be short only if size says how many records a full one has")
	problems.AddIf(c.Size > 0 && c.SizeParam == "" && !sized && !c.EndsShort, field+".size_param",
		"missing: size has to be sent in some parameter, or as {size} in query or body")
	problems.AddIf((c.SizeParam != "" || sized) && c.Size == 0, field+".size", "missing: the value of parameter size_param, or of {size}")
	if c.SizeParam != "" {
		request.AddParam(c.SizeParam, address.Size)
	}
	if c.Param != "" && variable != "" {
		request.AddParam(c.Param, variable)
	}
	c.MaxPages = cmp.Or(c.MaxPages, defaultMaxPages)
	c.Concurrency = cmp.Or(c.Concurrency, defaultPagesConcurrency)
	return c
}
