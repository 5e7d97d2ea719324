package draft

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Paging is what the samples say about further pages.
type Paging struct {
	Style  string
	Keys   []string // further keys with their values, as YAML
	Doubts []string
}

// mark is a value beside the list that may tell of pages.
type mark struct {
	column
	text string
}

// paging looks for marks of further pages among the values around the records.
func paging(trees []any, list *found, records int) (p Paging) {
	var all []mark
	var visit func(keys []string, v any)
	visit = func(keys []string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if pathOf(keys)+".@values" == list.path {
				return
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				visit(append(slices.Clone(keys), key), v[key])
			}
		case []any, nil:
		default:
			kind := "t"
			switch v.(type) {
			case bool:
				kind = "b"
			case string:
			default:
				kind = "n"
			}
			all = append(all, mark{column{path: pathOf(keys), words: nameOf(keys), kinds: kind}, fmt.Sprint(v)})
		}
	}
	for _, tree := range trees {
		visit(nil, tree)
	}
	find := func(words string, fits func(mark) bool) (m mark) {
		for _, m := range all {
			if m.called(words) && m.text != "" && !m.called("prev previous before csrf access") && fits(m) {
				return m
			}
		}
		return m
	}
	number := func(m mark) int {
		n, err := strconv.Atoi(m.text)
		if err != nil || m.kinds == "b" {
			return -1
		}
		return n
	}
	isBool := func(m mark) bool { return m.text == "true" || m.text == "false" }
	isURL := func(m mark) bool { return addrForm.MatchString(m.text) || strings.HasPrefix(m.text, "?") }
	next := find("next nextlink more following continuation", func(m mark) bool { return isURL(m) && !m.called("self last") })
	cursor := find("cursor token after marker continuation scroll bookmark next", func(m mark) bool { return m.kinds == "t" && !isURL(m) && !isBool(m) && number(m) < 0 })
	more := find("more next hasmore hasnext", isBool)
	last := find("last done islast", isBool)
	pages := find("pages totalpages pagecount", func(m mark) bool { return number(m) > 0 && m.called("total pages count totalpages pagecount") })
	total := find("total count totalcount totalsize hits totalelements cnt totcnt tot size", func(m mark) bool { return number(m) > records && !m.called("page per limit pages") })
	size := find("size limit per perpage pagesize rows maxresults", func(m mark) bool { return number(m) > 1 && !m.called("total count") })
	offset := find("offset start startat skip from", func(m mark) bool { return number(m) >= 0 })
	current := find("page number current pagenumber currentpage", func(m mark) bool { return number(m) == 0 || number(m) == 1 })
	switch {
	case next.path != "" && cursor.path == "":
		p.Style = "next_url"
		p.Keys = []string{"next: " + quote(next.path)}
		if u, err := url.Parse(next.text); err == nil && u.Host != "" {
			p.doubt("its URL names the host %s: base_url must be that, or add rewrite_host: true", u.Host)
		}
	case cursor.path != "":
		p.Style = "cursor"
		p.Keys = []string{"param: " + ToComplete, "cursor: " + quote(cursor.path)}
		p.doubt("the name of the parameter that takes the cursor")
		if next.path != "" {
			p.doubt("or style next_url by %s?", next.path)
		}
		if more.path != "" {
			p.Keys = append(p.Keys, "more: "+quote(more.path))
			p.doubt("is it %s that tells the end, or a cursor that is missing?", more.path)
		}
	case pages.path != "" && number(pages) > 1 || total.path != "" || more.path != "" || last.path != "":
		p.Style = "page"
		p.Keys = []string{"param: " + ToComplete}
		p.doubt("the names of the parameters")
		switch {
		case offset.path != "":
			p.Style = "offset"
		case current.path != "":
			p.Keys = append(p.Keys, "first: "+current.text)
			p.doubt("the first page is number %s if the first sample is that", current.text)
		default:
			p.Keys = append(p.Keys, "first: 1")
			p.doubt("the number of the first page: 0 or 1")
		}
		if size.path != "" {
			p.Keys = append(p.Keys, "size: "+size.text, "size_param: "+ToComplete)
		}
		switch {
		case total.path != "":
			p.Keys = append(p.Keys, "total: "+quote(total.path))
		case pages.path != "" && p.Style == "page":
			p.Keys = append(p.Keys, "total_pages: "+quote(pages.path))
		case more.path != "":
			p.Keys = append(p.Keys, "more: "+quote(more.path))
		case last.path != "":
			p.Keys = append(p.Keys, "last: "+quote(last.path))
		}
	default:
		p.Style = "none"
		p.doubt("no mark of further pages is in these samples; a list that comes in pages would be cut short")
	}
	return p
}

func (p *Paging) doubt(format string, args ...any) {
	p.Doubts = append(p.Doubts, fmt.Sprintf(format, args...))
}
