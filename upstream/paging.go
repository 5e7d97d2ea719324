package upstream

import (
	"fmt"
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// Values of paging.style.
const (
	pageNone   = "none"
	pagePage   = "page"
	pageOffset = "offset"
	pageCursor = "cursor"
	pageNext   = "next_url"
	pageLink   = "link_header"
)

// PagingConfig is how a list that comes in several replies is put together. A
// list that cannot be read whole is an error, never a part shown as the whole.
type PagingConfig struct {
	Style string `yaml:"style"` // none, page, offset, cursor, next_url or link_header

	// Size records are asked for at a time, in parameter SizeParam. A legacy may
	// send fewer.
	Size      int    `yaml:"size"`
	SizeParam string `yaml:"size_param"`
	Param     string `yaml:"param"`  // of the page's number, the offset or the cursor
	First     int    `yaml:"first"`  // number of the first page: 0 or 1
	Cursor    string `yaml:"cursor"` // GJSON path of the next page's cursor; nothing there: the end
	Next      string `yaml:"next"`   // GJSON path of the next page's URL; nothing there: the end

	// Where the end is told, for page and offset; the first that is set counts.
	// If none is, pages are asked for one by one until an empty one.
	Total       string `yaml:"total"`        // GJSON path of the number of records
	TotalHeader string `yaml:"total_header"` // response header with the number of records
	TotalPages  string `yaml:"total_pages"`  // GJSON path of the number of pages
	More        string `yaml:"more"`         // GJSON path of a truth value: another page follows
	EndsShort   bool   `yaml:"ends_short"`   // a page with fewer than size records is the last

	MaxPages    int `yaml:"max_pages"`   // default 500; more is an error
	Concurrency int `yaml:"concurrency"` // pages at a time once the end is known; default 4
}

// pagingPlan is the compiled PagingConfig. The zero value asks once.
type pagingPlan struct {
	PagingConfig
	style string
}

const (
	defaultMaxPages    = 500
	defaultConcurrency = 4
)

// compilePaging reports keys that a style needs and lacks, or would ignore.
func compilePaging(field string, cfg PagingConfig, p *problems) pagingPlan {
	plan := pagingPlan{PagingConfig: cfg, style: cfg.Style}
	if plan.style == "" {
		plan.style = pageNone
	}
	if plan.MaxPages == 0 {
		plan.MaxPages = defaultMaxPages
	}
	if plan.Concurrency == 0 {
		plan.Concurrency = defaultConcurrency
	}
	allowed, ok := pagingKeys(plan.style)
	if !ok {
		p.add(field+".style", "%q is none of none, page, offset, cursor, next_url, link_header", cfg.Style)
		return plan
	}
	for _, k := range cfg.keys() {
		switch {
		case k.set && !slices.Contains(allowed, k.name) && !slices.Contains(allowed, k.name+"!"):
			p.add(field+"."+k.name, "has no meaning with style %s; remove it", plan.style)
		case !k.set && slices.Contains(allowed, k.name+"!"):
			p.add(field+"."+k.name, "missing: style %s needs it", plan.style)
		case k.set && k.path != "":
			if err := jsonwalk.CheckPath(k.path); err != nil {
				p.add(field+"."+k.name, "%v", err)
			}
		}
	}
	plan.checkNumbers(field, p)
	return plan
}

// checkNumbers reports sizes that contradict each other.
func (p *pagingPlan) checkNumbers(field string, probs *problems) {
	for _, n := range []struct {
		name  string
		value int
	}{{"size", p.Size}, {"first", p.First}, {"max_pages", p.MaxPages}, {"concurrency", p.Concurrency}} {
		if n.value < 0 {
			probs.add(field+"."+n.name, "must not be negative")
		}
	}
	if p.EndsShort && p.Size == 0 {
		probs.add(field+".ends_short", "a page can be short only if size says how many records a full one has")
	}
	if p.Size > 0 && p.SizeParam == "" && !p.EndsShort {
		probs.add(field+".size_param", "missing: size has to be sent in some parameter")
	}
	if p.SizeParam != "" && p.Size == 0 {
		probs.add(field+".size", "missing: the value of parameter %s", p.SizeParam)
	}
}

// pagingKeys gives the keys that have a meaning for a style; those with a "!"
// are needed.
func pagingKeys(style string) (keys []string, known bool) {
	all := ""
	switch style {
	case pageNone:
	case pagePage:
		all = "size size_param param! first total total_header total_pages more ends_short max_pages concurrency"
	case pageOffset:
		all = "size size_param param! total total_header more ends_short max_pages concurrency"
	case pageCursor:
		all = "size size_param param! cursor! more max_pages"
	case pageNext:
		all = "size size_param next! max_pages"
	case pageLink:
		all = "size size_param max_pages"
	default:
		return nil, false
	}
	return strings.Fields(all), true
}

// pagingKey is one key of the section.
type pagingKey struct {
	name string
	set  bool
	path string // if it is a GJSON path
}

// keys lists what is set.
func (c PagingConfig) keys() []pagingKey {
	return []pagingKey{
		{"size", c.Size != 0, ""}, {"size_param", c.SizeParam != "", ""}, {"param", c.Param != "", ""}, {"first", c.First != 0, ""},
		{"cursor", c.Cursor != "", c.Cursor}, {"next", c.Next != "", c.Next}, {"total", c.Total != "", c.Total},
		{"total_header", c.TotalHeader != "", ""}, {"total_pages", c.TotalPages != "", c.TotalPages}, {"more", c.More != "", c.More},
		{"ends_short", c.EndsShort, ""}, {"max_pages", c.MaxPages != 0, ""}, {"concurrency", c.Concurrency != 0, ""},
	}
}

// pagingError is for a list that cannot be read whole.
func pagingError(format string, args ...any) *Error {
	return &Error{Failure: FailureInvalid, Reason: "paging", Err: fmt.Errorf(format, args...)}
}
