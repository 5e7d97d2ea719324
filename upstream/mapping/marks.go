package mapping

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsontree"
)

// End is where paging ended a list, or the only reply of one without paging.
type End struct {
	Address string      // of the last reply
	Header  http.Header // of the last reply
	Next    string      // target of its Link header with relation next; empty: none
	Records int         // read in all, those that were skipped or filtered included
	Pages   int         // read in all
}

// checkEnd is the error of a list with a record twice, see checkRepeated, or whose last reply has a
// mark of more: a part must never be shown as the whole. Marks are where real systems put them: in
// the headers; in the reply itself and in the objects on the way to the items; beside these in
// objects that describe pages or have links, up to two of them in each other. [marks.kindOf] knows
// them by the words in their names. Within a record only what wraps its responses is looked at, see
// wrapper. What paging reads, or ignore_marks names, is no mark. An error is an [*Error].
func (r *reader) checkEnd(end End) error {
	if err := r.checkRepeated(); err != nil {
		return err
	}
	m := marks{end: end, what: "records", paging: &r.Paging, list: r.container}
	way, _ := r.items.at.Names(false)
	if len(way) > 0 {
		m.listName = lettersOf(way[len(way)-1])
	}
	if end.Next != "" && m.paging.Style != PageLink && !m.paging.reads("Link") && !m.isThisPage(end.Next) {
		m.found = "the header Link names a next page"
	}
	var named []string
	for name := range end.Header {
		if name == "Content-Range" || m.kindOf(strings.TrimPrefix(name, "X-")) != markNone {
			named = append(named, name)
		}
	}
	slices.Sort(named)
	for _, name := range named {
		kind, value := m.kindOf(strings.TrimPrefix(name, "X-")), end.Header.Get(name)
		if name == "Content-Range" {
			kind = markTotal
			_, value, _ = strings.Cut(value, "/")
		}
		if value != "" {
			m.value(name, kind, jsontree.TextValue(value))
		}
	}
	found := m.found
	if r.reply != r.container {
		found = m.in(r.reply, "", way)
	}
	switch {
	case found == "":
		return nil
	case m.paging.Style == PageNone:
		return newError("paging", "the list goes on: %s; configure paging, or name it in paging.ignore_marks if it means something else", found)
	}
	return newError("paging", "the list goes on after page %d, where paging ended it: %s; mend paging, or name it in paging.ignore_marks if it means something else", end.Pages, found)
}

// reads tells whether paging reads what is at a path, or in a header, or is to ignore it. An object
// with the cursor in it counts only where more or last tells the end: else nothing would show that
// the path of the cursor is wrong.
func (c *PagingConfig) reads(path string) bool {
	switch path {
	case c.Cursor, c.Total, c.TotalPages, c.More, c.Last:
		return true
	}
	if c.More+c.Last != "" && below(c.Cursor, path) {
		return true
	}
	return slices.Contains(c.Next, path) || path != "" && http.CanonicalHeaderKey(c.TotalHeader) == path || c.IgnoresMark(path)
}

// IgnoresMark reports whether ignore_marks has a path or the name of a header.
func (c *PagingConfig) IgnoresMark(path string) bool {
	return slices.ContainsFunc(c.IgnoreMarks, func(name string) bool { return name == path || http.CanonicalHeaderKey(name) == path })
}

// wrapper is the object within a record that has the array of its responses, and no field.
type wrapper struct {
	path     []string // to it
	key      string   // of the responses in it
	listName string   // the letters of that
}

// findWrapper finds that object: marks of more in it can only be about the responses. All fields are
// compiled before.
func (s scope) findWrapper() {
	if s.plan.responseItems == nil {
		return
	}
	way, _ := s.plan.responseItems.at.Names(false)
	if len(way) < 2 {
		return
	}
	way, key := way[:len(way)-1], way[len(way)-1]
	for _, u := range s.plan.usedPaths {
		field := strings.HasPrefix(u.key, "fields.") && !strings.HasPrefix(u.key, "fields.responses.") || u.key == "owner"
		if to := namesOf(u.path, false); field && len(to) > len(way) && slices.Equal(to[:len(way)], way) {
			return
		}
	}
	s.plan.responses.wrapper = &wrapper{way, key, lettersOf(key)}
}

// check looks for marks of more beside the responses of a record.
func (h *wrapper) check(e *element, paging *PagingConfig) Violation {
	all := e.Value
	for _, name := range h.path {
		all = all.Member(name)
	}
	if all.Kind() != jsontree.Object {
		return Violation{}
	}
	m := marks{end: End{Records: len(e.responses), Pages: 1}, what: "responses", listName: h.listName, paging: paging, list: e.container}
	if found := m.in(all, strings.Join(h.path, ".")+".", []string{h.key}); found != "" {
		return Violation{Field: "responses", Problem: "these are not all: " + found + "; get them by fetch, or name the mark in paging.ignore_marks if it means something else"}
	}
	return Violation{}
}

// marks are what stands around a list and says whether it goes on. Their text for a person has names
// that are known, and numbers, and nothing else of the content.
type marks struct {
	end      End
	what     string         // comes
	listName string         // the letters of the key that the list has, which other names have in them
	list     jsontree.Value // which is not looked at
	paging   *PagingConfig
	found    string // the first mark
	next     string // the first that names a next page
	ended    bool   // a truth value says that no page follows: what names one is void
}

// in looks at an object without the list within it, to which way leads, and gives the mark that
// counts, empty if there is none.
func (m *marks) in(v jsontree.Value, prefix string, way []string) string {
	m.object(v, prefix, way, 0)
	if m.found == "" && !m.ended {
		return m.next
	}
	return m.found
}

// isThisPage tells whether an address is that of the reply itself.
func (m *marks) isThisPage(address string) bool {
	return address == m.end.Address || (address[0] == '/' || address[0] == '?') && strings.HasSuffix(m.end.Address, address)
}

// deepest is how many objects beside the way to the items are entered.
const deepest = 2

// object looks at the members of an object. way are the keys that lead from it to the
// items, in which it goes down without a bound; beside the way it goes as deep as
// deepest. A next page that is this page is none: some systems always name one.
func (m *marks) object(v jsontree.Value, prefix string, way []string, depth int) {
	var next, current jsontree.Value
	nextPath := ""
	v.Members(func(key string, value jsontree.Value) {
		path, kind := prefix+key, m.kindOf(key)
		// What is called as lists are describes one only within what describes pages.
		inside := kind == markPage || kind == markObject || kind == markCursor || kind == markThing && depth > 0
		switch {
		case value == m.list:
		case len(way) > 0 && key == way[0]:
			m.object(value, path+".", way[1:], 0)
		case inside && value.Kind() == jsontree.Object && depth < deepest:
			m.link(path, value)
			m.object(value, path+".", nil, depth+1)
		case inside && value.Kind() == jsontree.Array:
			value.Each(func(link jsontree.Value) bool { m.link(path, link); return true })
		case kind == markCurrent || kind == markPage:
			current = value
		case (kind == markNext || kind == markCursor) && m.isNextPage(path, value):
			next, nextPath = value, path
		case kind != markNext && kind != markCursor:
			m.value(path, kind, value)
		}
	})
	if nextPath != "" && next.Raw() != current.Raw() {
		m.noteNext(nextPath, "names a next page")
	}
}

// noteNext notes the first mark that names a next page.
func (m *marks) noteNext(path, how string) {
	if m.next == "" && !m.paging.reads(path) {
		m.next = path + " " + how
	}
}

// link looks at an element of an array of links: one with relation next names a next page.
func (m *marks) link(path string, link jsontree.Value) {
	is := func(key string) bool { return strings.EqualFold(link.Member(key).Plain(), "next") }
	if to := target(link); (is("rel") || is("relation") || is("-rel")) && to.Scalar() && to.Plain() != "" && !m.isThisPage(to.Plain()) {
		m.noteNext(path, "has a link to a next page")
	}
}

// target is where an object such as {"href": "..."} leads; any other value is its own.
func target(v jsontree.Value) jsontree.Value {
	to := v
	v.Members(func(key string, value jsontree.Value) {
		if k := strings.ToLower(strings.TrimPrefix(key, "-")); k == "href" || k == "url" || k == "uri" {
			to = value
		}
	})
	return to
}

// isNextPage tells whether the value at a path names a page other than this one. Zero,
// false and an empty text are how systems say that there is none.
func (m *marks) isNextPage(path string, v jsontree.Value) bool {
	switch v = target(v); {
	case m.paging.reads(path):
		return false
	case v.Kind() == jsontree.Object:
		return !isNothing(v)
	}
	return v.Scalar() && !isNothing(v) && !m.isThisPage(strings.TrimSpace(v.Plain()))
}

// isNothing tells whether a value is how systems say that there is none.
func isNothing(v jsontree.Value) bool {
	none := true
	v.Each(func(item jsontree.Value) bool { none = isNothing(item); return none })
	if !v.Scalar() {
		return none
	}
	text := strings.ToLower(strings.TrimSpace(v.String()))
	n, whole := jsontree.Count(text)
	return text == "" || text == "false" || text == "null" || whole && n <= 0
}

// value looks at one value that may be a mark. Only the first mark is kept; one that
// paging reads, or that is to be ignored, is none.
func (m *marks) value(path string, kind mark, v jsontree.Value) {
	least := ""
	if kind == markTotal && v.Kind() == jsontree.Object { // {"value": 165, "relation": "eq"}
		if v.Member("relation").Plain() == "gte" {
			least = " or more"
		}
		v = v.Member("value")
	}
	if kind == markNone || !v.Scalar() || m.found != "" {
		return
	}
	n, whole := jsontree.Count(v.String())
	is, truth := v.Truth()
	said := truth && !whole // a number may be that of a page or a record
	what := ""
	switch kind {
	case markNext, markCursor:
		if m.isNextPage(path, v) {
			what = "names a next page"
		}
	case markMore, markPart:
		switch {
		case truth && is:
			what = "is true"
		case kind == markMore && truth:
			m.ended = true
		case kind == markMore && m.isNextPage(path, v):
			what = "names a next page"
		}
	case markEnd:
		if m.ended = m.ended || truth && is; truth && !is {
			what = "is false"
		}
	case markLast, markDone:
		switch {
		case said && !is:
			what = "is false"
		case kind == markLast && whole && n > m.end.Pages:
			what = fmt.Sprintf("is %d, but %d were read", n, m.end.Pages)
		}
	case markPages:
		if whole && n > m.end.Pages {
			what = fmt.Sprintf("is %d, but %d were read", n, m.end.Pages)
		}
	case markTotal:
		if whole && (n > m.end.Records || n == m.end.Records && least != "") {
			what = fmt.Sprintf("is %d%s, but %d %s came", n, least, m.end.Records, m.what)
		}
	case markLeft:
		if whole && n > 0 {
			what = fmt.Sprintf("is %d", n)
		}
	case markNone, markCurrent, markPage, markObject, markThing:
	}
	if what != "" && !m.paging.reads(path) { // the rare case, so it is asked last
		m.found = path + " " + what
	}
}
