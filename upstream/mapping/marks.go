package mapping

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// End is where paging ended a list, or the only reply of one without paging.
type End struct {
	Address string      // of the last reply
	Header  http.Header // of the last reply
	Next    string      // target of its Link header with relation next; empty: none
	Records int         // read in all, those that were skipped or filtered included
	Pages   int         // read in all
}

// CheckEnd refuses a list whose last reply carries a mark of more: a part must
// never be shown as the whole. Marks are looked for where real systems put them: in the
// header Link and those of markHeaders, in the top level of the reply and in the objects on the way to the items,
// and beside these in links, _links, meta, paging, pagination, page and pageInfo, up to two
// of them in each other. Within items only the object that holds a record's responses is
// looked at, see holder. A mark that paging reads, or that ignore_marks names, is none. An
// error is an [*Error].
func (b *Builder) CheckEnd(paging PagingConfig, end End) error {
	m := marks{end: end, what: "records", paging: &paging}
	if end.Next != "" && paging.Style != PageLink && !paging.knows("Link") && !m.here(end.Next) {
		m.found = "the header Link names a next page"
	}
	m.headers()
	before, after := around(b.body, b.items.Raw) // without the items, which may be most of it
	found := m.in(before, after, "", b.plan.items.way)
	if found != "" && end.Records == 0 && strings.Contains(b.plan.items.path, "#(") {
		found += " (does the query in items leave them out?)"
	}
	switch {
	case found == "":
		return nil
	case paging.Style == PageNone:
		return refusal("paging", "the list goes on: %s; configure paging, or name it in paging.ignore_marks if it means something else", found)
	default:
		return refusal("paging", "the list goes on after page %d, where paging ended it: %s; mend paging, or name it in paging.ignore_marks if it means something else",
			end.Pages, found)
	}
}

// knows tells whether what is at a path, or in a header, is read, or ignored as
// configured.
func (c *PagingConfig) knows(path string) bool {
	switch path {
	case c.Cursor, c.Next, c.Total, c.TotalPages, c.More, c.Last:
		return true
	}
	same := func(name string) bool { return name == path || http.CanonicalHeaderKey(name) == path }
	return same(c.TotalHeader) || slices.ContainsFunc(c.IgnoreMarks, same)
}

// around is what stands before and after a part of a text. If the part is none of it
// nothing stands after it.
func around(text, part string) (before, after string) {
	at := -1
	if part != "" {
		at = strings.Index(text, part) // compared by address first
	}
	if at < 0 {
		return text, "" // nothing is at the part's path, or gjson made it of several parts
	}
	return text[:at], text[at+len(part):]
}

// holder is the object within a record that has the array of its responses.
type holder struct {
	slot   int
	prefix string // of the paths of its members
	key    string // that leads to the responses
}

// aside is what stands beside the responses of a record.
type aside struct {
	before, after string
	responses     int
}

// maxSayings bounds what is remembered of a list.
const maxSayings = 100

// holder finds the object that holds the responses, if nothing else of it is mapped:
// marks of more in it can be about them only. All other fields are compiled before.
func (c *compiler) holder(items string) {
	path, _ := itemsOf(items)
	keys := wayTo(path)
	n := len(keys) - 1
	if n < 1 || c.plan.responses == nil || c.plan.Second != nil {
		return
	}
	if node := c.root.At(keys[:n], frameRecord); node.Branches() <= 1 {
		c.plan.responses.holder = &holder{c.slot(node), strings.Join(keys[:n], ".") + ".", keys[n]}
	}
}

// wayTo are the keys that a path begins with, up to the first array.
func wayTo(path string) []string {
	start, _, _ := strings.Cut(plainStart(path), "."+jsonwalk.Each)
	keys, _ := jsonwalk.SimplePath(start, false)
	return keys
}

// checkEnd looks for marks beside the responses of a record: a part of them must not
// be shown as the whole either.
func (h *holder) checkEnd(b *Builder, f *jsonwalk.Frame, responses jsonwalk.Value) violation {
	all := f.Value(h.slot)
	if all.Kind != jsonwalk.Object {
		return violation{}
	}
	// Most records say the same in the same words, which is read once.
	said := aside{responses: b.came}
	said.before, said.after = around(all.Raw, responses.Raw)
	if b.whole[said] {
		return violation{}
	}
	m := marks{end: End{Records: b.came, Pages: 1}, what: "responses", paging: &b.plan.Paging}
	if found := m.in(said.before, said.after, h.prefix, []string{h.key}); found != "" {
		return violation{"responses", "these are not all: " + found + "; get them by fetch, or name the mark in paging.ignore_marks if it means something else"}
	}
	if b.whole == nil {
		b.whole = map[aside]bool{}
	}
	if len(b.whole) < maxSayings {
		b.whole[said] = true
	}
	return violation{}
}

// marks are what the surroundings of a list say of its end.
type marks struct {
	end    End
	what   string // comes
	paging *PagingConfig
	found  string // the first mark, for a person
	next   string // the first that names a next page, for a person
	whole  bool   // a truth value says that no page follows: what names one is void
}

// in looks at the object that a text is when the list within it, to which way leads, is
// left out, and gives the mark that counts, empty if there is none.
func (m *marks) in(before, after, prefix string, way []string) string {
	if after != "" {
		before += "null" + after
	}
	m.object(jsonwalk.FromJSON(before), prefix, way, 0)
	if m.found == "" && !m.whole {
		return m.next
	}
	return m.found
}

// says describes a mark for a person. It holds nothing but a name that is known.
func says(path, what string, args ...any) string {
	return path + " " + fmt.Sprintf(what, args...)
}

// here tells whether an address is that of the reply itself.
func (m *marks) here(address string) bool {
	return address == m.end.Address || (address[0] == '/' || address[0] == '?') && strings.HasSuffix(m.end.Address, address)
}

// markHeaders are the headers besides Link that tell of more, in the order in which one of
// them is named.
var markHeaders = []struct {
	name string
	kind mark
}{{"X-Total-Count", markTotal}, {"X-Total", markTotal}, {"X-Total-Pages", markPages}, {"X-Has-More", markMore}, {"X-Next-Page", markNext}, {"Content-Range", markTotal}}

// headers looks at the headers of the last reply.
func (m *marks) headers() {
	for _, h := range markHeaders {
		value := m.end.Header.Get(h.name)
		if _, total, ok := strings.Cut(value, "/"); ok && h.name == "Content-Range" {
			value = total
		}
		if h.kind == markNext && value != "" && m.found == "" && !m.paging.knows(h.name) {
			m.found = says("the header "+h.name, "names a next page")
		}
		m.member(h.name, h.kind, jsonwalk.TextValue(value))
	}
}

// deepest is how many objects beside the way to the items are entered.
const deepest = 2

// object looks at the members of an object. way are the keys that lead from it to the
// items, in which it goes down without a bound; beside the way it goes as deep as
// deepest. A next page that is this page is none: some systems always name one.
func (m *marks) object(v jsonwalk.Value, prefix string, way []string, depth int) {
	var next, current jsonwalk.Value
	nextPath := ""
	v.Members(func(key string, value jsonwalk.Value) {
		kind := markOf(key)
		switch {
		case len(way) > 0 && key == way[0]:
			m.object(value, prefix+key+".", way[1:], 0)
		case kind.aside() && value.Kind == jsonwalk.Object && depth < deepest:
			m.object(value, prefix+key+".", nil, depth+1)
		case kind.aside() && value.Kind == jsonwalk.Array:
			m.links(prefix+key, value)
		case kind == markCurrent || kind == markPage:
			current = value
		case kind == markNext && m.follows(prefix+key, value):
			next, nextPath = value, prefix+key
		case kind != markNone:
			m.member(prefix+key, kind, value)
		}
	})
	if nextPath != "" && next.Raw != current.Raw && m.next == "" {
		m.next = says(nextPath, "names a next page")
	}
}

// follows tells whether the value at a path names a page other than this one. Zero,
// false and an empty text are how systems say that there is none.
func (m *marks) follows(path string, v jsonwalk.Value) bool {
	if v.Kind == jsonwalk.Object { // {"href": "..."}
		target := v
		v.Members(func(key string, value jsonwalk.Value) {
			if k := strings.ToLower(key); k == "href" || k == "url" || k == "uri" {
				target = value
			}
		})
		if target.Kind == jsonwalk.Object {
			return !m.paging.knows(path) && strings.Trim(target.Raw, "{} \t\r\n") != ""
		}
		v = target
	}
	if !v.Scalar() || m.paging.knows(path) {
		return false
	}
	text := strings.TrimSpace(v.String())
	switch n, err := strconv.ParseInt(text, 10, 64); {
	case text == "" || text == "false" || text == "null" || err == nil && n <= 0:
		return false
	default:
		return !m.here(text)
	}
}

// links looks for a link with relation next in an array of links.
func (m *marks) links(path string, list jsonwalk.Value) {
	list.Each(func(link jsonwalk.Value) bool {
		isNext, target := false, ""
		link.Members(func(key string, value jsonwalk.Value) {
			switch key {
			case "rel", "relation":
				isNext = isNext || strings.EqualFold(value.Plain(), "next")
			case "href", "url", "uri":
				target = value.Plain()
			}
		})
		if isNext && target != "" && !m.here(target) && !m.paging.knows(path) && m.next == "" {
			m.next = says(path, "has a link to a next page")
		}
		return true
	})
}

// member looks at one value that may be a mark. Only the first mark is kept; one that
// paging reads, or that is to be ignored, is none.
func (m *marks) member(path string, kind mark, v jsonwalk.Value) {
	if kind == markTotal && v.Kind == jsonwalk.Object { // {"value": 165, "relation": "eq"}
		v.Members(func(key string, value jsonwalk.Value) {
			if key == "value" {
				v = value
			}
		})
	}
	if !v.Scalar() || m.found != "" {
		return
	}
	text := strings.ToLower(v.String())
	n, err := strconv.ParseInt(text, 10, 64)
	number := err == nil
	switch {
	case kind == markMore && text == "true", kind == markPart && text == "true":
		m.found = says(path, "is true")
	case kind == markEnd && text == "false", kind == markLast && text == "false":
		m.found = says(path, "is false")
	case kind == markMore && text == "false", kind == markEnd && text == "true":
		m.whole = true
	case kind == markTotal && number && n > int64(m.end.Records):
		m.found = says(path, "is %d, but %d %s came", n, m.end.Records, m.what)
	case (kind == markPages || kind == markLast) && number && n > int64(m.end.Pages):
		m.found = says(path, "is %d, but %d were read", n, m.end.Pages)
	}
	if m.found != "" && m.paging.knows(path) { // the rare case, so it is asked last
		m.found = ""
	}
}

// mark is what a name outside the items means.
type mark uint8

const (
	markNone    mark = iota
	markNext         // the next page: its address, number or cursor
	markMore         // a truth value: more follows
	markEnd          // a truth value: nothing follows
	markLast         // the same or the number of the last page; "last" and "done" may mean something else, too, if true
	markPart         // a truth value: the reply is cut
	markTotal        // the number of records
	markPages        // the number of pages
	markCurrent      // this page
	markPage         // this page, or an object that describes pages
	markObject       // an object that describes pages, or holds links
)

// aside tells whether an object under the name is looked into.
func (k mark) aside() bool { return k == markPage || k == markObject }

// longestMark bounds the names that are looked at.
const longestMark = 32

// markOf tells what a name means. Its case, and what is no letter, do not count;
// nor does the prefix of OData.
func markOf(name string) mark {
	var buf [longestMark]byte
	n := 0
	if len(name) > longestMark {
		return markNone
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			buf[n] = c | 0x20
			n++
		case c >= 'a' && c <= 'z':
			buf[n] = c
			n++
		}
	}
	name = strings.TrimPrefix(string(buf[:n]), "odata")
	switch name {
	case "next", "nextlink", "nextpage", "nextpageurl", "nexturl", "nextrecordsurl", "nextcursor", "nextpagetoken", "nexttoken", "cursor":
		return markNext
	case "more", "hasmore", "hasnext", "hasnextpage", "morerecords":
		return markMore
	case "islast", "islastpage":
		return markEnd
	case "last", "lastpage", "done":
		return markLast
	case "truncated", "incompleteresults":
		return markPart
	case "total", "count", "totalcount", "totalsize", "totalresults", "totalrecords", "totalelements", "numfound":
		return markTotal
	case "totalpages", "pagecount", "pages":
		return markPages
	case "self", "currentpage", "pagenumber", "number":
		return markCurrent
	case "page":
		return markPage
	case "paging", "pagination", "pageinfo", "meta", "links":
		return markObject
	}
	return markNone
}
