package upstream

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/address"
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
	ask mapping.Asking // for the list
	end mapping.End
}

// taker maps the replies of a list; they come in order.
type taker interface {
	Take(body string) (records int, err error)
	// CheckEnd refuses a list that goes on after its last reply.
	CheckEnd(mapping.PagingConfig, mapping.End) error
}

func (f *fetcher) newPager(cfg mapping.PagingConfig, ask mapping.Asking, take taker) *pager {
	return &pager{fetcher: f, paging: paging{cfg}, ask: ask, taker: take}
}

// firstPage gives the request for the first page.
func (l *pager) firstPage() (address.Request, error) { return l.page(0, 0) }

// page gives the request for a page by its index and the records before it.
func (l *pager) page(index, records int) (address.Request, error) {
	r, err := l.ask.Page(l.values(index, records))
	if err != nil {
		return r, unsendable(err)
	}
	return r, nil
}

// readFrom maps the first page, which is a, and all pages after it.
func (l *pager) readFrom(ctx context.Context, r address.Request, a answer) error {
	n, err := l.add(a, r.URL)
	switch {
	case err != nil || a.empty() || l.Style == mapping.PageNone:
	case l.tellsEnd():
		err = l.allAtOnce(ctx, a, n)
	default:
		err = l.oneByOne(ctx, r, a, n)
	}
	if err != nil {
		return err
	}
	l.end.Next = linkNext(l.end.Header.Values("Link"))
	return l.CheckEnd(l.PagingConfig, l.end)
}

// numbers tells whether the requests for pages can be computed.
func (p paging) numbers() bool { return p.Style == mapping.PageNumber || p.Style == mapping.PageOffset }

// add maps a page and gives the number of its records.
func (l *pager) add(a answer, address string) (records int, err error) {
	if a.empty() {
		return 0, nil
	}
	records, err = l.Take(a.body)
	l.end.Address, l.end.Header = address, a.header
	l.end.Records += records
	l.end.Pages++
	return records, err
}

// unsendable is the error for values that make no request.
func unsendable(err error) *Error {
	if _, refused := errors.AsType[*mapping.Error](err); refused {
		return asError(err)
	}
	return &Error{Failure: FailureUpstream, Reason: "account", Err: err}
}

// oneByOne reads the pages after the first, which is a with n records, until one is the
// last.
func (l *pager) oneByOne(ctx context.Context, r address.Request, a answer, n int) (err error) {
	seen, before := map[address.Request]bool{r: true}, ""
	for page := 1; ; page++ {
		if n > 0 && l.numbers() && a.body == before {
			return pagingError("page %d is the page before again; does the legacy know what tells it the page?", page)
		}
		if r, err = l.after(a, n, page, r); err != nil || r.URL == "" {
			return err
		}
		if seen[r] {
			return pagingError("page %d names a page that was read already; where the last page names one, too, paging.more or paging.last tells the end", page)
		}
		if page >= l.MaxPages {
			return pagingError("the list has more than %d pages", l.MaxPages)
		}
		seen[r], before = true, a.body
		if a, err = l.get(ctx, r); err != nil || a.empty() {
			return err
		}
		if n, err = l.add(a, r.URL); err != nil {
			return err
		}
	}
}

// after gives the request for the page after the current one, which is a with n
// records; without a URL after the last.
func (l *pager) after(a answer, n, page int, current address.Request) (address.Request, error) {
	if !l.numbers() {
		return l.next(a, l.ask, current)
	}
	if last, err := l.last(a, n); err != nil || last {
		return address.Request{}, err
	}
	return l.page(page, l.end.Records)
}

// next gives the request for the page after a, without a URL after the last. A URL
// that the legacy names is asked for as the one before was, with the same body.
func (p paging) next(a answer, ask mapping.Asking, current address.Request) (r address.Request, err error) {
	switch p.Style {
	case mapping.PageLink:
		current.URL, err = p.nextURL(current.URL, linkNext(a.header.Values("Link")))
		return current, err
	case mapping.PageNext:
		v := jsonwalk.Lookup(a.body, p.Next)
		if v.Present() && v.Kind != jsonwalk.Text {
			return r, pagingError("the next page's URL is not a string")
		}
		current.URL, err = p.nextURL(current.URL, v.Plain())
		return current, err
	}
	if p.tellsMore() {
		more, err := p.more(a)
		if err != nil || !more {
			return r, err
		}
	}
	v := jsonwalk.Lookup(a.body, p.Cursor)
	switch {
	case v.Present() && !v.Scalar() && !ask.TakesJSON():
		return r, pagingError("the cursor is not a single value; only in a body of JSON can it be sent as it comes")
	case v.Plain() == "" && p.tellsMore():
		return r, pagingError("another page follows but there is no cursor for it")
	case v.Plain() == "" || v.Kind == jsonwalk.Bool:
		return r, nil
	}
	if r, err = ask.Page(p.at(v.Plain(), v.Raw)); err != nil {
		err = pagingError("the cursor cannot be sent: %w", err)
	}
	return r, err
}

// allAtOnce reads the rest of a list whose first page, with n records, tells how long
// it is.
func (l *pager) allAtOnce(ctx context.Context, first answer, n int) error {
	pages, err := l.pageCount(first, n)
	switch {
	case err != nil:
		return err
	case pages > l.MaxPages:
		return pagingError("the list has %d pages, more than %d", pages, l.MaxPages)
	}
	return l.rest(ctx, first, pages)
}

// values are those of a page by its index and the records before it. With the style
// cursor they are those of the first page, which has none.
func (p paging) values(page, records int) address.Values {
	values := p.at("", "")
	switch {
	case p.Style == mapping.PageNumber:
		values[address.Page] = []string{strconv.Itoa(p.First + page)}
	case p.Style == mapping.PageOffset:
		values[address.Offset] = []string{strconv.Itoa(records)}
	}
	return values
}

// at gives the values of the page at a cursor, which is there as text and as JSON.
func (p paging) at(cursor, asJSON string) address.Values {
	values := address.Values{}
	if cursor != "" {
		values.SetCursor(cursor, asJSON)
	}
	if p.Size > 0 {
		values[address.Size] = []string{strconv.Itoa(p.Size)}
	}
	return values
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
	answers, asked := make([]answer, pages-1), make([]string, pages-1)
	size := l.end.Records
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.Concurrency)
	for i := range answers {
		group.Go(func() (err error) {
			defer l.panics.Catch(func(p any) { err = bug(p) })
			r, err := l.page(i+1, (i+1)*size)
			if err != nil {
				return err
			}
			asked[i] = r.URL
			answers[i], err = l.get(ctx, r)
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
		if a.empty() {
			return pagingError("page %d of %d is empty", i+2, pages)
		}
		n, err := l.add(a, asked[i])
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
			return pagingError("page %d is the first page again; does the legacy know what tells it the page?", i+2)
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
	if p.tellsMore() {
		more, err := p.more(a)
		return !more, err
	}
	return n == 0 || p.EndsShort && n < p.Size, nil
}

// tellsMore tells whether each page says whether another one follows.
func (p paging) tellsMore() bool { return p.More != "" || p.Last != "" }

// more reads the truth value that says whether another page follows. Anything
// else there is an error: guessed, it would cut the list short.
func (p paging) more(a answer) (bool, error) {
	switch v := jsonwalk.Lookup(a.body, p.More+p.Last); {
	case v.Kind == jsonwalk.Bool, v.Raw == `"true"`, v.Raw == `"false"`: // XML has texts only
		return (v.String() == "true") == (p.Last == ""), nil
	case !v.Present():
		return false, pagingError("the reply does not tell whether another page follows")
	default:
		return false, pagingError("what tells whether another page follows is neither true nor false")
	}
}

// pagingError is for a list that cannot be read whole.
func pagingError(format string, args ...any) *Error { return invalidReply("paging", format, args...) }
