package mapping

// pageItem is an item of a list in pages. Where one comes on two pages the list has changed while it
// was read, or its order lets items change places: another one may be lost then.
type pageItem struct {
	page int
	key  string // of the member that it is
	text string // as it came
	ids  string // what tells it apart: internal ids and times; empty: it has no id
}

// notePageItem notes an item of a list in pages.
func (r *reader) notePageItem(e *element) {
	if r.Paging.Style == PageNone {
		return
	}
	one, found := pageItem{page: r.pages, key: e.key, text: e.Raw()}, false
	for _, id := range r.itemIDs {
		text := e.key
		if !id.key {
			text = id.find(e).Raw()
		}
		found = found || text != "" && text != "null"
		one.ids += text + "\x00"
	}
	for _, beside := range r.itemTimes {
		one.ids += beside.find(e).Raw()
	}
	if !found {
		one.ids = ""
	}
	r.pageItems = append(r.pageItems, one)
}

// checkRepeated is the error of a list with an item that came on two pages. Items are the same by
// their ids, if no two items of a page share them: else these may be ids of something else. By
// their whole text they are the same in any case. Equal items on one page are the legacy's own, by
// which nothing is lost.
func (r *reader) checkRepeated() *Error {
	items := r.pageItems
	r.pageItems = nil
	if len(items) == 0 || items[0].page == items[len(items)-1].page {
		return nil
	}
	const why = "%s %d came before as number %d, on another page: the list changed while it was read, or its order lets records change places; " +
		"let it be sorted by what no two of them share, such as an id"
	if first, again := firstRepeated(items, func(m pageItem) string { return m.ids }); again > 0 && idsDiffer(items) {
		return newError(ReasonChanged, why, r.itemName, again+1, first+1)
	}
	if first, again := firstRepeated(items, func(m pageItem) string { return m.key + m.text }); again > 0 {
		return newError(ReasonChanged, why+"; two that are alike to the byte need an id in internal_ids, or one page that has both (paging.size)", r.itemName, again+1, first+1)
	}
	return nil
}

// firstRepeated finds the first item that came on a page before; 0: none.
func firstRepeated(items []pageItem, by func(pageItem) string) (first, again int) {
	firsts := make(map[string]int, len(items))
	for i, one := range items {
		text := by(one)
		if first, ok := firsts[text]; !ok {
			firsts[text] = i
		} else if items[first].page != one.page {
			return first, i
		}
	}
	return 0, 0
}

// idsDiffer tells whether every item has ids, no two of a page have the same, and there is a page
// with several items.
func idsDiffer(items []pageItem) bool {
	several := false
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].page == items[from].page {
			to++
		}
		onPage := map[string]bool{}
		for _, one := range items[from:to] {
			onPage[one.ids] = true
		}
		if onPage[""] || len(onPage) < to-from {
			return false
		}
		several, from = several || to-from > 1, to
	}
	return several
}
