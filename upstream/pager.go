package upstream

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/mapping"
)

// paging finds out where a list goes on.
type paging struct{ mapping.PagingConfig }

// pager reads one list.
type pager struct {
	*fetcher
	paging
	taker
	base string // address of the list
	end  mapping.End
}

// taker maps the replies of a list; they come in order.
type taker interface {
	Take(body string) (records int, err error)
	// CheckEnd refuses a list that goes on after its last reply.
	CheckEnd(mapping.PagingConfig, mapping.End) error
}

// pages reads all pages of a list, the first of which is at address.
func (f *fetcher) pages(ctx context.Context, cfg mapping.PagingConfig, address string, take taker) (err error) {
	p := paging{cfg}
	l := &pager{fetcher: f, paging: p, base: p.sized(address), taker: take}
	switch {
	case p.Style == mapping.PageNone:
		_, _, err = l.page(ctx, l.base)
	case p.tellsEnd():
		err = l.allAtOnce(ctx)
	default:
		err = l.oneByOne(ctx)
	}
	if err != nil {
		return err
	}
	l.end.Next = linkNext(l.end.Header.Values("Link"))
	return l.CheckEnd(cfg, l.end)
}

// numbers tells whether the addresses of pages can be computed.
func (p paging) numbers() bool { return p.Style == mapping.PageNumber || p.Style == mapping.PageOffset }

// page reads one page and gives the number of its records.
func (l *pager) page(ctx context.Context, address string) (a answer, n int, err error) {
	if a, err = l.get(ctx, address); err != nil {
		return a, 0, err
	}
	if l.answeredAt.IsZero() {
		l.answeredAt = l.now()
	}
	n, err = l.add(a, address)
	return a, n, err
}

// add maps one page.
func (l *pager) add(a answer, address string) (records int, err error) {
	records, err = l.Take(a.body)
	l.end.Address, l.end.Header = address, a.header
	l.end.Records += records
	l.end.Pages++
	return records, err
}

// sized says how many records are wanted at a time.
func (p paging) sized(address string) string {
	if p.Size > 0 && p.SizeParam != "" {
		return withParam(address, p.SizeParam, strconv.Itoa(p.Size))
	}
	return address
}

// withParam adds a parameter to an address that may have some already.
func withParam(address, name, value string) string {
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	return address + sep + url.QueryEscape(name) + "=" + url.QueryEscape(value)
}

// oneByOne reads pages until one is the last.
func (l *pager) oneByOne(ctx context.Context) error {
	address, before := l.start(l.base), ""
	seen := map[string]bool{address: true}
	for page := 1; ; page++ {
		if page > l.MaxPages {
			return pagingError("the list has more than %d pages", l.MaxPages)
		}
		a, n, err := l.page(ctx, address)
		if err != nil {
			return err
		}
		if n > 0 && l.numbers() && a.body == before {
			return pagingError("page %d is the page before again; does the legacy know parameter %q?", page, l.Param)
		}
		if address, err = l.after(a, n, page, address); err != nil || address == "" {
			return err
		}
		if seen[address] {
			return pagingError("page %d names a page that was read already", page)
		}
		seen[address], before = true, a.body
	}
}

// after gives the address of the page after the current one, which is a with n
// records; empty after the last.
func (l *pager) after(a answer, n, page int, current string) (string, error) {
	if !l.numbers() {
		return l.next(a, l.base, current)
	}
	if last, err := l.last(a, n); err != nil || last {
		return "", err
	}
	return l.address(l.base, page, l.end.Records), nil
}

// next gives the address of the page after a, empty after the last.
func (p paging) next(a answer, first, current string) (string, error) {
	switch p.Style {
	case mapping.PageLink:
		return sameHost(current, linkNext(a.header.Values("Link")))
	case mapping.PageNext:
		v := jsonwalk.Lookup(a.body, p.Next)
		if v.Present() && v.Kind != jsonwalk.Text {
			return "", pagingError("the next page's URL is not a string")
		}
		return sameHost(current, v.Plain())
	}
	if p.More != "" {
		more, err := p.more(a)
		if err != nil || !more {
			return "", err
		}
	}
	v := jsonwalk.Lookup(a.body, p.Cursor)
	switch {
	case v.Present() && !v.Scalar():
		return "", pagingError("the cursor is not a single value")
	case v.Plain() == "" && p.More != "":
		return "", pagingError("another page follows but there is no cursor for it")
	case v.Plain() == "" || v.Kind == jsonwalk.Bool:
		return "", nil
	}
	return withParam(first, p.Param, v.Plain()), nil
}

// allAtOnce reads a list whose first page tells how long it is.
func (l *pager) allAtOnce(ctx context.Context) error {
	first, n, err := l.page(ctx, l.start(l.base))
	if err != nil {
		return err
	}
	pages, err := l.pageCount(first, n)
	switch {
	case err != nil:
		return err
	case pages > l.MaxPages:
		return pagingError("the list has %d pages, more than %d", pages, l.MaxPages)
	}
	return l.rest(ctx, first, pages)
}

// start gives the address of the first page, below that of the list.
func (p paging) start(base string) string {
	if p.numbers() {
		return p.address(base, 0, 0)
	}
	return base
}

// address gives the address of a page by its index and the records before it.
func (p paging) address(base string, page, records int) string {
	if p.Style == mapping.PageOffset {
		return withParam(base, p.Param, strconv.Itoa(records))
	}
	return withParam(base, p.Param, strconv.Itoa(p.First+page))
}

// tellsEnd tells whether the first reply says how long the list is.
func (p paging) tellsEnd() bool {
	return p.Total != "" || p.TotalHeader != "" || p.TotalPages != ""
}

// told gives what the legacy says of the list's length: records, or pages if
// only those are told.
func (p paging) told(a answer) (int, error) {
	text := a.header.Get(p.TotalHeader)
	switch {
	case p.Total != "":
		text = jsonwalk.Lookup(a.body, p.Total).Plain()
	case p.TotalHeader == "":
		text = jsonwalk.Lookup(a.body, p.TotalPages).Plain()
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return 0, pagingError("the reply does not tell how long the list is")
	}
	return n, nil
}

// tellsRecords tells whether that length counts records, not pages.
func (p paging) tellsRecords() bool { return p.Total != "" || p.TotalHeader != "" }

// pageCount gives the number of pages. A page has as many records as the first: a
// legacy may send fewer than were asked for.
func (l *pager) pageCount(first answer, size int) (int, error) {
	told, err := l.told(first)
	switch {
	case err != nil:
		return 0, err
	case !l.tellsRecords():
		return max(told, 1), nil
	case told > l.plan.MaxRecords:
		return 0, invalidReply("too_many", "the list has %d records, more than %d", told, l.plan.MaxRecords)
	case told <= size:
		return 1, nil
	case size == 0:
		return 0, pagingError("the list has %d records but its first page has none", told)
	}
	return (told + size - 1) / size, nil
}

// rest reads the pages after the first at the same time and takes them in
// order. The length must be the same on all of them, or the list has changed in
// between, and records may have moved from one page to another unseen.
func (l *pager) rest(ctx context.Context, first answer, pages int) error {
	answers := make([]answer, pages-1)
	size := l.end.Records
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.Concurrency)
	for i := range answers {
		group.Go(func() (err error) {
			defer l.panics.Catch(func(p any) { err = bug(p) })
			answers[i], err = l.get(ctx, l.address(l.base, i+1, (i+1)*size))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	length, err := l.told(first)
	if err != nil {
		return err
	}
	for i, a := range answers {
		n, err := l.add(a, l.address(l.base, i+1, (i+1)*size))
		if err != nil {
			return err
		}
		told, err := l.told(a)
		switch {
		case err != nil:
			return err
		case told != length:
			return pagingError("the list changed while it was read: page %d tells another length than the first", i+2)
		case n > 0 && a.body == first.body:
			return pagingError("page %d is the first page again; does the legacy know parameter %q?", i+2, l.Param)
		case n == 0 && i < len(answers)-1:
			return pagingError("page %d of %d is empty", i+2, pages)
		}
	}
	if came := l.end.Records; l.tellsRecords() && came < length {
		return pagingError("%d records were announced, %d came", length, came)
	}
	return nil
}

// last tells whether no page follows one with n records.
func (p paging) last(a answer, n int) (bool, error) {
	if p.More != "" {
		more, err := p.more(a)
		return !more, err
	}
	return n == 0 || p.EndsShort && n < p.Size, nil
}

// more reads the truth value that says whether another page follows. Anything
// else there is an error: guessed, it would cut the list short.
func (p paging) more(a answer) (bool, error) {
	switch v := jsonwalk.Lookup(a.body, p.More); {
	case v.Kind == jsonwalk.Bool:
		return v.Raw == "true", nil
	case !v.Present():
		return false, pagingError("the reply does not tell whether another page follows")
	default:
		return false, pagingError("what tells whether another page follows is neither true nor false")
	}
}

// pagingError is for a list that cannot be read whole.
func pagingError(format string, args ...any) *Error { return invalidReply("paging", format, args...) }
