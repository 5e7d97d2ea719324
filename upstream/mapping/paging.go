package mapping

import (
	"cmp"

	"inquiry-gateway/upstream/address"
)

const (
	defaultMaxPages         = 500
	defaultPagesConcurrency = 4
)

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

// paging adds contradictions to the problems, completes the request by the parameters of
// pages, and returns the section with its defaults. Keys that the style needs and lacks, or
// would ignore, are told by their tags.
func (c *compiler) paging(field string, p PagingConfig, plan *Plan) PagingConfig {
	request := &plan.request
	p.Style = cmp.Or(p.Style, PageNone)
	variable, sized := p.Variable(), request.Has(address.Size)
	placed := variable != "" && request.Has(variable)
	c.AddIf(placed && p.Param != "", field+".param", "the request holds {%s} already; remove one of the two", variable)
	c.AddIf(sized && p.SizeParam != "", field+".size_param", "the request holds {size} already; remove one of the two")
	c.AddIf(variable != "" && !placed && p.Param == "", field+".param", "missing: style %s needs it, or {%s} in query or body", p.Style, variable)
	for _, key := range []struct{ name, path string }{
		{"cursor", p.Cursor}, {"next", p.Next}, {"total", p.Total}, {"total_pages", p.TotalPages}, {"more", p.More}, {"last", p.Last},
	} {
		if key.path != "" && c.path(field+"."+key.name, key.path) && c.frame == frameReply {
			// No next page and a wrong path look the same; the marks of more tell them apart.
			c.use(field+"."+key.name, "", false, key.path)
		}
		plan.Format.place().note(key.path)
	}
	for i, mark := range p.IgnoreMarks {
		c.AddIf(mark == "", index(field+".ignore_marks", i), "empty: name a path as the log and probe do, such as meta.total, or a header, such as Link")
	}
	c.AddIf(p.More != "" && p.Last != "", field+".last", "more tells the end already; remove the one or the other")
	c.AddIf(p.EndsShort && p.Size == 0, field+".ends_short", "a page can be short only if size says how many records a full one has")
	c.AddIf(p.Size > 0 && p.SizeParam == "" && !sized && !p.EndsShort, field+".size_param",
		"missing: size has to be sent in some parameter, or as {size} in query or body")
	c.AddIf((p.SizeParam != "" || sized) && p.Size == 0, field+".size", "missing: the value of parameter size_param, or of {size}")
	if p.SizeParam != "" {
		request.AddParam(p.SizeParam, address.Size)
	}
	if p.Param != "" && variable != "" {
		request.AddParam(p.Param, variable)
	}
	p.MaxPages = cmp.Or(p.MaxPages, defaultMaxPages)
	p.Concurrency = cmp.Or(p.Concurrency, defaultPagesConcurrency)
	return p
}

// OwnCursor tells whether the cursor is taken out of the last record, so that it names no
// page: the legacy has not said that there is one.
func (p *Plan) OwnCursor() bool {
	base, _ := itemsOf(p.items.path)
	return p.Paging.Style == PageCursor && (base == "@this" || below(p.Paging.Cursor, base))
}
