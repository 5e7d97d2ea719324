package draft

import (
	"slices"
	"strconv"
	"strings"
)

// Paging is what a reply says about further pages. Key and Path are empty if nothing
// tells the end.
type Paging struct {
	Style string // none, page, offset, cursor or next_url
	Key   string // next, cursor, total_pages, total or more
	Path  string
	Size  int
	doubts
}

// mark is a value beside the list.
type mark struct {
	path string
	keys []string
	cell cell
}

// has tells whether the name of a mark has one of the words.
func (m mark) has(list string) bool {
	words := strings.Fields(list)
	return slices.ContainsFunc(m.keys, func(key string) bool {
		parts := append(split(key), strings.ToLower(strings.Trim(key, "@_")))
		return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(words, part) })
	})
}

// whole is the number that a mark is; -1 if it is none.
func (m mark) whole() int {
	n, err := strconv.Atoi(m.cell.text)
	if err != nil {
		return -1
	}
	return n
}

// paging looks for the mark of a next page in the samples, among the values around the
// records.
func paging(samples []any, items string, records int) Paging {
	var all []mark
	for _, sample := range samples {
		visit(nil, sample, func(keys []string, v any) bool {
			if c := cellOf(v); c.kind != missing {
				all = append(all, mark{pathOf(keys), keys, c})
			}
			return pathOf(keys)+".@values" != items
		})
	}
	if p, ok := nextOf(all); ok {
		return p
	}
	return totalOf(all, records, len(samples))
}

// nextOf finds an address of the next page, or else the last value that looks like a
// cursor.
func nextOf(all []mark) (p Paging, ok bool) {
	const next, cursor = "next more after following continuation odata.nextlink nextlink", "cursor token scroll continuation after marker bookmark"
	for _, m := range all {
		address := m.cell.kind == text && urlForm.MatchString(m.cell.text)
		switch {
		case m.has(next) && address && !m.has("self prev previous first last"):
			return Paging{Style: "next_url", Key: "next", Path: m.path}, true
		case (m.has(cursor) || m.has("next") && m.cell.kind == text) && m.cell.filled() && m.cell.text != "" && m.cell.kind == text && !digitForm.MatchString(m.cell.text) && !m.has("prev previous before start first csrf access"):
			ok, p = true, Paging{"cursor", "cursor", m.path, 0, doubts{[]string{"the name of the parameter that takes the cursor"}}}
		}
	}
	return p, ok
}

// totalOf finds what tells the end of the list: a number of pages, which is best, or of
// records, or a truth value. A total counts only if it is more than the samples have:
// else there are no pages, and the mark may mean something else.
func totalOf(all []mark, records, samples int) (p Paging) {
	size := 0
	for _, m := range all {
		if m.has("size limit per perpage pagesize rows results maxresults") && !m.has("total count tot cnt elements") && m.whole() > 1 {
			size = m.whole()
		}
	}
	perPage := (records + samples - 1) / max(samples, 1)
	about := doubts{[]string{"the names of the parameters; the number of the first page"}}
	for _, m := range all {
		n := m.whole()
		switch {
		case m.has("pages totalpages pagecount") && m.has("total pages tot cnt count totalpages pagecount") && n > 0 && n*max(perPage, 1) >= records && n < 100_000:
			return Paging{"page", "total_pages", m.path, size, about}
		case m.has("total tot totalelements totalcount totalsize totalresults count cnt totcnt hits") && n > records && p.Key != "total" && m.cell.kind != boolean && !m.has("page size per"):
			p = Paging{"page", "total", m.path, size, about}
			if slices.ContainsFunc(all, func(m mark) bool { return m.has("offset start startat skip from") && m.whole() >= 0 }) {
				p.Style = "offset"
			}
		case p.Key == "" && m.cell.kind == boolean && (m.has("more next hasmore hasnext") || m.has("last done islast")):
			p = Paging{"page", "more", m.path, size, about}
			if m.has("last done islast") {
				p.Key, p.Path = "", ""
				p.doubt("%s tells the end, which no key reads: pages are read until an empty one", m.path)
			}
		}
	}
	if p.Style == "" {
		p.Style = "none"
		p.doubt("no mark of further pages is in these samples; a list that comes in pages would be cut short")
	}
	return p
}
