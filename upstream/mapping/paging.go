package mapping

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
)

// End is where paging ended a list, or the only reply of one without paging.
type End struct {
	Header     http.Header // of the last reply
	Next       string      // target of its Link header with relation next; empty: none
	Records    int         // read in all, those that were skipped or filtered included
	Duplicates int         // of these, records that came on a page before
	Pages      int         // read in all
}

const defaultPagesConcurrency = 4

// noID stands in the place of the path of a record's id where records have none.
const noID = "none"

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

// Numbers reports whether the requests for pages can be computed.
func (c PagingConfig) Numbers() bool { return c.Style == PageNumber || c.Style == PageOffset }

// TellsLength reports whether each reply says how long the list is.
func (c PagingConfig) TellsLength() bool {
	return c.Total != "" || c.TotalHeader != "" || c.TotalPages != ""
}

// paging adds contradictions to the problems, completes the request by the parameters of
// pages, and returns the section with its defaults. Keys that the style needs and lacks, or
// would ignore, are found by their tags.
func (s scope) paging(field string, p PagingConfig) PagingConfig {
	request := &s.replies.request
	s.AddIf(p.Style == "", field, "missing: say how the list comes in pages, such as {style: page, total: meta.total}; {style: none} where it is always one reply")
	p.Style = cmp.Or(p.Style, PageNone)
	variable, sized := p.Variable(), request.Has(address.Size)
	named := variable != "" && request.Has(variable)
	s.AddIf(named && p.Param != "", field+".param", "the request holds {%s} already; remove one of the two", variable)
	s.AddIf(sized && p.SizeParam != "", field+".size_param", "the request holds {size} already; remove one of the two")
	s.AddIf(variable != "" && !named && p.Param == "", field+".param", "missing: style %s needs it, or {%s} in query or body", p.Style, variable)
	for _, key := range []struct{ name, path string }{{"total", p.Total}, {"total_pages", p.TotalPages}} {
		if key.path != "" {
			s.use(field+"."+key.name, key.path, "", false)
		}
	}
	for _, at := range s.locateAll(field+".next", field+".next", p.Next) {
		s.notePaths(field+".next", "", false, at.String()) // no next page and a wrong path look the same; probe tells them apart
	}
	if setting.IsSet(p.Last) {
		s.replies.last = s.condition(field+".last", p.Last, "")
		s.notePaths(field+".last", "", false, p.Last.Path)
	}
	for i, hint := range p.IgnoreMarks {
		s.AddIf(hint == "", index(field+".ignore_marks", i), "empty: name a path as the log and probe do, such as meta.next, or a header, such as Link")
	}
	ends := 0
	for _, set := range []bool{p.Total != "", p.TotalHeader != "", p.TotalPages != "", p.Last.Path != "", p.UntilEmpty} {
		if set {
			ends++
		}
	}
	s.AddIf(p.Numbers() && ends == 0, field, "nothing tells the end: name total, total_header, total_pages or last, or say until_empty: true")
	s.AddIf(p.UntilEmpty && ends > 1, field+".until_empty", "another key tells the end already; remove the one or the other")
	s.AddIf(p.Size > 0 && p.SizeParam == "" && !sized, field+".size_param",
		"missing: size has to be sent in some parameter, or as {size} in query or body")
	s.AddIf((p.SizeParam != "" || sized) && p.Size == 0, field+".size", "missing: the value of parameter size_param, or of {size}")
	if p.SizeParam != "" {
		request.AddParam(p.SizeParam, address.Size)
	}
	if p.Param != "" && variable != "" {
		request.AddParam(p.Param, variable)
	}
	p.Concurrency = cmp.Or(p.Concurrency, defaultPagesConcurrency)
	return p
}

// identify compiles what tells the items of a list in pages apart.
func (s scope) identify(field, id string) {
	r := s.replies
	switch {
	case id == "":
		s.AddIf(r.Paging.Numbers(), field, "missing: the path of what no two records share, so that a list that changes while its pages are read is noticed; or none, with a total")
	case id == noID:
		s.AddIf(r.Paging.Numbers() && !r.Paging.TellsLength(), field, "records without an id need a declared total: nothing else tells that one is lost while pages are read")
	case id == keyPath:
		r.itemID = &compiledPath{key: true}
	default:
		if at, ok := s.use(field, id, "", true); ok {
			r.itemID = &at
		}
	}
}

// HasID reports whether records tell which of them are the same.
func (r *Replies) HasID() bool { return r.itemID != nil }

// OwnCursor reports whether the cursor is taken out of the last record, so that it names no
// page: the legacy has not said that there is one.
func (r *Replies) OwnCursor() bool {
	list := r.items.at.String()
	return r.Paging.Style == PageCursor && (list == "@this" || slices.ContainsFunc(r.Paging.Next, func(path string) bool { return below(path, list) }))
}

// TellsLast reports whether each reply says whether a page follows.
func (r *Replies) TellsLast() bool { return len(r.last) > 0 }

// IsLast reports whether paging.last says of a reply that no page follows. A condition on a truth value
// reads it as systems write one. problem: the reply does not say it.
func (r *Replies) IsLast(reply jsontree.Value) (last bool, problem string) {
	c := &r.last[0]
	v := c.at.find(&element{Value: reply})
	want := len(c.values) == 1 && (c.values[0] == "true" || c.values[0] == "false")
	is, truth := v.Truth()
	switch {
	case !v.Present() && !c.null && !(c.negated && len(c.values) == 0):
		return false, "the reply does not tell whether another page follows"
	case want && truth:
		return (is == (c.values[0] == "true")) != c.negated, ""
	case want && v.Present():
		return false, "what tells whether another page follows is neither true nor false, Y nor N, 1 nor 0"
	}
	return c.holds(&element{Value: reply}), ""
}

// pageItem is an item of a list in pages.
type pageItem struct {
	page, number int
	text         string // as it came
}

// double reports whether an item came on a page before, with the same content: records that are
// inserted while pages are read push others to a later page. With another content the list has
// changed in another way.
func (r *reader) double(e *element) (double bool, err *Error) {
	if r.itemID == nil || r.Paging.Style == PageNone {
		return false, nil
	}
	id, _ := scalarID(r.itemID.find(e))
	if r.itemID.key {
		id = e.key
	}
	switch {
	case id == "" && r.skipsInvalid:
		return false, nil // it is left out, as one that breaks a rule, or is told apart by nothing
	case id == "":
		return false, newError("items", "%s %d has nothing at the path of id", r.itemName, r.Seen)
	}
	before, known := r.pageItems[id]
	switch {
	case !known:
		if r.pageItems == nil {
			r.pageItems = map[string]pageItem{}
		}
		r.pageItems[id] = pageItem{r.pages, r.Seen, e.Raw()}
	case before.page == r.pages:
	case before.text != e.Raw():
		return false, newError(ReasonChanged, "%s %d came before as number %d, on another page and with another content: the list changed while it was read, or id is no id", r.itemName, r.Seen, before.number)
	default:
		r.Duplicates++
		return true, nil
	}
	return false, nil
}

// nextNames are the names by which systems say that a list goes on, in small letters.
var nextNames = map[string]bool{
	"next": true, "nextlink": true, "nexturl": true, "nextpage": true, "nextpageurl": true, "nextpagetoken": true, "nexttoken": true, "nextcursor": true,
	"nextmarker": true, "nextrecordsurl": true, "hasmore": true, "hasnext": true, "hasnextpage": true, "morerecords": true, "moreitemsincollection": true, "istruncated": true,
}

// isNextMark reports whether a name is one of these, without regard to case, _ and -, and to what OData
// writes before it.
func isNextMark(name string) bool {
	name = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	return nextNames[strings.TrimPrefix(strings.TrimPrefix(name, "@"), "odata.")]
}

// checkEnd refuses a list whose last reply says that it goes on, in the Link header or by one of
// nextNames beside the list, where paging does not read it, nor ignore_marks names it: never serve a
// truncated list as complete. An error is an [*Error].
func (r *reader) checkEnd(end End) error {
	found := ""
	if end.Next != "" && r.Paging.Style != PageLink && !r.Paging.IgnoresMark("Link") {
		found = "the header Link names a next page"
	}
	for name, values := range end.Header {
		if isNextMark(strings.TrimPrefix(name, "X-")) && !r.Paging.IgnoresMark(name) && !meansNone(values[0]) {
			found = "the header " + name + " names a next page"
		}
	}
	r.eachBeside(r.reply, func(path, name string, v jsontree.Value) {
		relation := func(key string) bool { return strings.EqualFold(v.Member(key).Plain(), "next") }
		linked := v.Kind() == jsontree.Object && (relation("rel") || relation("-rel") || relation("relation"))
		if found == "" && (isNextMark(name) && !isNothing(v) || linked) && !r.Paging.reads(path) {
			found = path + " says that it does"
		}
	})
	switch {
	case found == "":
		return nil
	case r.Paging.Style == PageNone:
		return newError("paging", "the list goes on: %s; configure paging, or name it in paging.ignore_marks if it means something else", found)
	}
	return newError("paging", "the list goes on after page %d, where paging ended it: %s; mend paging, or name it in paging.ignore_marks if it means something else", end.Pages, found)
}

// maxBeside is how many objects within each other are looked into that do not lead to the list.
const maxBeside = 2

// eachBeside visits what stands around the list in a reply, with its path: in the objects that lead to
// the list, and in those beside. Elements of an array have the array's path and no name.
func (r *reader) eachBeside(reply jsontree.Value, visit func(path, name string, v jsontree.Value)) {
	way := r.items.at.Names(false)
	var object func(v jsontree.Value, prefix string, way []string, depth int)
	object = func(v jsontree.Value, prefix string, way []string, depth int) {
		for name, one := range v.All() {
			path := prefix + name
			switch {
			case one == r.container:
			case len(way) > 0 && name == way[0]:
				object(one, path+".", way[1:], 0)
			default:
				visit(path, name, one)
				if one.Kind() == jsontree.Array {
					for _, element := range one.All() {
						visit(path, "", element)
					}
				} else if depth < maxBeside {
					object(one, path+".", nil, depth+1)
				}
			}
		}
	}
	if reply != r.container && reply.Kind() == jsontree.Object {
		object(reply, "", way, 0)
	}
}

// reads reports whether paging reads what is at a path, or something within it, or is to ignore it.
func (c *PagingConfig) reads(path string) bool {
	used := slices.Concat([]string{c.Total, c.TotalPages, c.Last.Path}, c.Next)
	return c.IgnoresMark(path) || slices.ContainsFunc(used, func(one string) bool {
		one = strings.ReplaceAll(one, `\`, "")
		return one != "" && (below(one, path) || below(path, one))
	})
}

// IgnoresMark reports whether ignore_marks has a path or the name of a header.
func (c *PagingConfig) IgnoresMark(path string) bool {
	return slices.ContainsFunc(c.IgnoreMarks, func(name string) bool { return name == path || http.CanonicalHeaderKey(name) == path })
}

// isNothing reports whether a value is how systems say that there is none: empty, false or zero.
func isNothing(v jsontree.Value) bool {
	if !v.Scalar() {
		for _, item := range v.All() {
			if !isNothing(item) {
				return false
			}
		}
		return true
	}
	return meansNone(v.String())
}

// meansNone is isNothing for a text.
func meansNone(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	n, whole := jsontree.Count(text)
	return text == "" || text == "false" || text == "null" || whole && n <= 0
}
