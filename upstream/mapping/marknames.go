package mapping

import "strings"

// mark is what a name outside the items means.
type mark uint8

const (
	markNone    mark = iota
	markNext         // the next page: its address, number or cursor
	markCursor       // the same, or an object that has cursors
	markMore         // a truth value: more follows
	markEnd          // a truth value: nothing follows
	markLast         // the same or the number of the last page; true may mean something else, too
	markDone         // the same without a number
	markPart         // a truth value: the reply is cut
	markTotal        // the number of records
	markLeft         // the number of records that do not come
	markPages        // the number of pages
	markCurrent      // this page
	markPage         // this page, or an object that describes pages
	markObject       // an object that describes pages, or holds links
	markThing        // the name of a list
)

// role is what a word in a name says of lists and pages.
type role uint32

const (
	thing role = 1 << iota // what lists consist of, or a word that says nothing
	number
	total
	page
	pages
	pager // describes pages
	link
	cursor
	where // an address of a page within the list
	next
	more
	left
	last
	end
	done
	part
	self
	has
)

// word is one that names consist of, or several between blanks.
type word struct {
	text string
	role role
}

// words are those that the names of marks consist of, by their first letter. A name that has
// another one is about something else: totalPrice, unreadCount, nextUpdate.
var words = func() (all [26][]word) {
	for _, one := range []word{
		{"list lists result results resultset set record records item items row rows element elements entry entries hit hits object objects", thing},
		{"data response responses search query of the all any overall available exist exists api wp ms odata opensearch hydra", thing},
		{"number num no nb", number},
		{"total tot count cnt found matched", total},
		{"page", page},
		{"pages", pages},
		{"paging pagination pager paginator meta metadata info", pager},
		{"link links", link},
		{"cursor cursors", cursor},
		{"url uri href token key id marker offset start index from after", where},
		{"next continue continuation resumption evaluated", next},
		{"more", more},
		{"remaining left", left},
		{"last", last},
		{"end eof", end},
		{"done complete completed finished", done},
		{"truncated incomplete partial timedout limitexceeded limitreached exceededtransferlimit", part},
		{"self current this", self},
		{"has have is are was yn flag", has},
	} {
		for text := range strings.FieldsSeq(one.text) {
			all[text[0]-'a'] = append(all[text[0]-'a'], word{text, one.role})
		}
	}
	return all
}()

// letters writes those of a name, in lower case: neither its case counts nor what is no
// letter. Names of marks are not longer than lower.
func letters(lower *[40]byte, name string) []byte {
	n := 0
	for i := 0; i < len(name) && n < len(lower); i++ {
		if c := name[i] | 0x20; c >= 'a' && c <= 'z' {
			lower[n] = c
			n++
		}
	}
	return lower[:n]
}

// lettersOf gives the letters of a list's name.
func lettersOf(key string) string {
	var lower [40]byte
	return string(letters(&lower, key))
}

// roles reads a name as words, among them that of the list itself; false: it has others.
func roles(name, own string) (r role, known bool) {
	if name == "" {
		return 0, true
	}
	for _, w := range words[name[0]-'a'] {
		if rest, ok := strings.CutPrefix(name, w.text); ok {
			if r, known = roles(rest, own); known {
				return r | w.role, true
			}
		}
	}
	for _, text := range []string{own, strings.TrimSuffix(own, "s")} {
		if rest, ok := strings.CutPrefix(name, text); ok && text != "" {
			if r, known = roles(rest, own); known {
				return r | thing, true
			}
		}
	}
	return 0, false
}

// kindOf tells what a name means.
func (m *marks) kindOf(name string) mark {
	var lower [40]byte
	text := string(letters(&lower, name))
	if text == "" {
		return markNone
	}
	r, known := roles(text, m.listName)
	is := func(any role) bool { return r&any != 0 }
	switch {
	case !known:
	case is(part):
		return markPart
	case is(number) && is(more): // no more
		return markEnd
	case is(left) && is(thing|page|pages|total):
		return markLeft
	case is(more) && is(link|where|cursor):
		return markNext
	case is(more), is(next) && is(has):
		return markMore
	case is(next):
		return markNext
	case is(total) && is(link|where|cursor|self|last|end|has):
	case is(total) && is(page|pages):
		return markPages
	case is(total), text == "records", text == "hits":
		return markTotal
	case is(last|end|done) && is(link|where|cursor):
	case is(last) && is(has), is(end) && is(thing|has):
		return markEnd
	case is(last), is(end) && is(page):
		return markLast
	case is(end | done):
		return markDone
	case is(where):
	case is(self), is(number) && !is(thing|pages):
		return markCurrent
	case is(pages) && !is(pager|link|cursor):
		return markPages
	case is(cursor):
		return markCursor
	case is(pager | link):
		return markObject
	case r == page:
		return markPage
	case r == thing:
		return markThing
	}
	return markNone
}
