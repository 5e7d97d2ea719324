package draft

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsontree"
)

// Paging is what the samples say about further pages.
type Paging struct {
	Style  string
	Keys   []string // further keys with their values, as YAML
	Doubts []string
}

func (p *Paging) doubt(format string, args ...any) {
	p.Doubts = append(p.Doubts, fmt.Sprintf(format, args...))
}

// add adds a key. A path is quoted where that is needed.
func (p *Paging) add(key, value string) { p.Keys = append(p.Keys, key+": "+value) }

// mark is a value beside the list that may tell of pages.
type mark struct{ path, text string }

// number is -1 where it is none.
func (m mark) number() int {
	n, err := strconv.Atoi(m.text)
	if err != nil {
		return -1
	}
	return n
}

func (m mark) isBool() bool { return m.text == "true" || m.text == "false" }
func (m mark) isURL() bool  { return addrForm.MatchString(m.text) || queryForm.MatchString(m.text) }

// queryForm is a link without a host.
var queryForm = regexp.MustCompile(`^[^\s?]*\?[^\s=]+=`)

// paging looks for marks of further pages in headers and among the values around the records. records
// is how many one sample has.
func paging(trees []jsontree.Value, header http.Header, list *list, records int) (p Paging) {
	var beside []*column
	items := strings.TrimSuffix(strings.TrimSuffix(list.path, "@values"), ".")
	for _, c := range tableOf(trees).columns {
		if items != "" && items != "@this" && !strings.HasPrefix(c.path, items+".") {
			beside = append(beside, c)
		}
	}
	inHeader := ""
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if (mark{"", header.Get(name)}).number() >= records && (strings.HasSuffix(name, "Total") || name == "X-Total-Count") {
			inHeader = name
		}
	}
	linked := strings.Contains(header.Get("Link"), `rel="next"`)
	find := func(words string, fits func(mark) bool) mark {
		for _, c := range beside {
			for _, text := range c.texts {
				called := c.called(words) || strings.HasPrefix(c.path, "continue.") && c.path != "continue.continue" && strings.Contains(words, "continuation")
				if m := (mark{c.path, text}); called && text != "" && !c.called("prev previous before csrf access") && fits(m) {
					return m
				}
			}
		}
		return mark{}
	}
	above := func(least int) func(mark) bool { return func(m mark) bool { return m.number() > least } }
	next := find("next nextlink more following continuation", mark.isURL)
	cursor := find("cursor token after marker continuation scroll bookmark next", func(m mark) bool { return !m.isURL() && !m.isBool() && m.number() < 0 })
	more, last := find("more next hasmore hasnext", mark.isBool), find("last done islast", mark.isBool)
	pages, total := find("pages totalpages pagecount", above(1)), find("total count totalcount totalsize hits totalelements cnt totcnt tot size", above(records))
	size, offset := find("size limit per perpage pagesize rows maxresults", above(1)), find("offset start startat skip from", above(-1))
	current := find("page number current pagenumber currentpage", func(m mark) bool { return m.text == "0" || m.text == "1" })
	if size.path == total.path {
		size = mark{}
	}
	if total.path == pages.path {
		total = mark{}
	}
	switch {
	case linked:
		p.Style = "link_header"
		if inHeader != "" {
			p.add("total_header", inHeader)
		}
	case next.path != "" && cursor.path == "":
		p.Style = "next_url"
		p.add("next", quote(next.path))
		if u, err := url.Parse(next.text); err == nil && u.Host != "" {
			p.doubt("its URL names the host %s: base_url must be that, or add rewrite_host: true", u.Host)
		}
	case cursor.path != "":
		p.Style = "cursor"
		p.add("param", ToComplete)
		p.add("next", quote(cursor.path))
		p.doubt("the name of the parameter that takes the cursor")
		if next.path != "" {
			p.doubt("or style next_url by %s?", next.path)
		}
		if more.path != "" {
			p.add("last", fmt.Sprintf("{path: %s, is: false}", quote(more.path)))
			p.doubt("is it %s that tells the end, or a cursor that is missing?", more.path)
		}
	case inHeader != "" || pages.path != "" || total.path != "" || more.path != "" || last.path != "":
		p.Style = "page"
		p.add("param", ToComplete)
		p.doubt("the names of the parameters")
		if offset.path != "" {
			p.Style = "offset"
		} else {
			p.add("first", "1")
			if current.path != "" {
				p.Keys[1] = "first: " + current.text
			}
			p.doubt("the number of the first page: 0 or 1")
		}
		if size.path != "" {
			p.add("size", size.text)
			p.add("size_param", ToComplete)
		}
		switch {
		case inHeader != "":
			p.add("total_header", inHeader)
		case total.path != "":
			p.add("total", quote(total.path))
		case pages.path != "" && p.Style == "page":
			p.add("total_pages", quote(pages.path))
		case more.path != "":
			p.add("last", fmt.Sprintf("{path: %s, is: false}", quote(more.path)))
		case last.path != "":
			p.add("last", fmt.Sprintf("{path: %s, is: true}", quote(last.path)))
		}
	default:
		p.Style = "none"
		p.doubt("no mark of further pages is in these samples; a list that comes in pages would be cut short")
	}
	var numbers []string
	for _, c := range beside {
		if m := (mark{c.path, c.texts[0]}); p.Style == "none" && m.number() >= 0 && len(numbers) < 6 {
			numbers = append(numbers, m.path+" = "+m.text)
		}
	}
	if len(numbers) > 0 {
		p.doubt("or does one of these count records or pages, or name the next: %s?", strings.Join(numbers, ", "))
	}
	return p
}
