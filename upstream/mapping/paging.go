package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
)

// Values of paging.style.
const (
	PageNone   = "none"
	PageNumber = "page"
	PageOffset = "offset"
	PageCursor = "cursor"
	PageNext   = "next_url"
	PageLink   = "link_header"
)

// PagingConfig is how a list that comes in several replies is put together. A
// list that cannot be read whole is an error, never a part shown as the whole.
type PagingConfig struct {
	Style string `yaml:"style" enum:",none,page,offset,cursor,next_url,link_header"` // none, page, offset, cursor, next_url or link_header

	// Size is how many records are asked for at a time, by size_param or where query or
	// body hold {size}. A legacy may send fewer.
	Size      int    `yaml:"size"`
	SizeParam string `yaml:"size_param"` // of the query; instead of {size} in query or body
	Param     string `yaml:"param"`      // of the query, for the page's number, the offset or the cursor; instead of {page}, {offset} or {cursor} in query or body
	First     int    `yaml:"first"`      // number of the first page: 0 or 1
	Cursor    string `yaml:"cursor"`     // GJSON path of the next page's cursor; nothing there: the end
	Next      string `yaml:"next"`       // GJSON path of the next page's URL; nothing there: the end

	// Where the end is told, for page and offset; the first that is set counts.
	// If none is, pages are asked for one by one until an empty one.
	Total       string `yaml:"total"`        // GJSON path of the number of records
	TotalHeader string `yaml:"total_header"` // response header with the number of records
	TotalPages  string `yaml:"total_pages"`  // GJSON path of the number of pages
	More        string `yaml:"more"`         // GJSON path of a truth value: another page follows
	Last        string `yaml:"last"`         // GJSON path of a truth value: this page is the last
	EndsShort   bool   `yaml:"ends_short"`   // a page with fewer than size records is the last

	// IgnoreMarks are paths in a reply, names of response headers, or paths in a record
	// beside its responses, that look as if the list went on and mean something else:
	// without paging that reads them they refuse the list.
	IgnoreMarks []string `yaml:"ignore_marks"`

	// RewriteHost asks base_url's host for the next page, whatever host its URL names. It
	// is for a legacy system that does not know the name that it is asked by.
	RewriteHost bool `yaml:"rewrite_host"`

	MaxPages    int `yaml:"max_pages"`   // default 500; more is an error
	Concurrency int `yaml:"concurrency"` // pages at a time once the end is known; default 4
}

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
