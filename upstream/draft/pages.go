package draft

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// linkForm is a link, with or without a host.
var linkForm = regexp.MustCompile(`^([a-z]+:)?//|^/\S*/\S*$|^[^\s?]*\?[^\s=]+=`)

// maxBeside bounds what is shown of what stands beside the list.
const maxBeside = 8

// paging writes what headers and the values around the records say about further pages. It reports whether these are
// asked for by their numbers.
func (w *writer) paging(read *samples, l *list) (numbered bool) {
	var beside []*column
	items := strings.TrimSuffix(strings.TrimSuffix(l.path, "@values"), ".")
	for _, c := range tableOf(read.trees).columns {
		if items != "" && items != "@this" && !strings.HasPrefix(c.path, items+".") && !c.called("prev previous before csrf access") {
			beside = append(beside, c)
		}
	}
	find := func(words string, fits func(string) bool) (path, text string) {
		for _, c := range beside {
			if text = c.texts[0]; text != "" && c.called(words) && fits(text) {
				return c.path, text
			}
		}
		return "", ""
	}
	inHeader := ""
	for _, name := range slices.Sorted(maps.Keys(read.header)) {
		if strings.HasSuffix(name, "Total") || name == "X-Total-Count" {
			inHeader = name
		}
	}
	next, link := find("next nextlink more following continuation", linkForm.MatchString)
	cursor, _ := find("cursor token after marker continue continuation scroll bookmark next",
		func(s string) bool { return !linkForm.MatchString(s) && !isNumber(s) && s != "true" && s != "false" })
	total, _ := find("total count totalcount totalsize hits totalelements cnt totcnt tot size",
		func(s string) bool { n, err := strconv.Atoi(s); return err == nil && n > l.table.rows/len(read.trees) })
	style := "none"
	switch {
	case strings.Contains(read.header.Get("Link"), `rel="next"`):
		style = "link_header"
	case cursor != "":
		w.doubt("the name of the parameter that takes the cursor")
		if next != "" {
			w.doubt("or style next_url by %s?", next)
		}
		style = "cursor, param: " + ToComplete + ", next: " + quote(cursor)
	case next != "":
		if u, err := url.Parse(link); err == nil && u.Host != "" {
			w.doubt("its URL names the host %s: base_url must be that, or add rewrite_host: true", u.Host)
		}
		style = "next_url, next: " + quote(next)
	case inHeader != "" || total != "":
		numbered = true
		w.doubt("is it style page or offset, which are its parameters, and is the first page 0 or 1?")
		style = "page, param: " + ToComplete + ", first: 1"
	default:
		w.doubt("no mark of further pages is in these samples; a list that comes in pages would be cut short")
	}
	if inHeader != "" {
		style += ", total_header: " + inHeader
	} else if numbered {
		style += ", total: " + quote(total)
	}
	var shown []string
	for _, c := range beside {
		if c.path != total && (isNumber(c.texts[0]) || c.bools) && len(shown) < maxBeside {
			shown = append(shown, c.path+" = "+c.texts[0])
		}
	}
	if len(shown) > 0 && (numbered || style == "none") {
		w.doubt("does one of these count records or pages, or tell whether another page follows: %s?", strings.Join(shown, ", "))
	}
	w.line("paging: {style: %s}", style)
	return numbered
}
