package upstream

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/mapping"
)

// pager reads one list, page by page or all pages at once.
type pager struct {
	*fetch
	paging
	taker
	plan     *mapping.Replies
	ask      mapping.Asking
	end      mapping.End
	length   int             // of the whole list, as each page tells it
	items    map[string]bool // of the pages before, as they came
	answered time.Time       // when the first reply was there
}

// taker maps the replies of a list; they come in order.
type taker interface {
	Take(body string) (records int, err error)
	// ItemsText is what holds the items of the last reply, as it came. It is empty where
	// nothing is at their path, which items_optional allows.
	ItemsText() string
	// CheckEnd refuses a list that goes on after its last reply, or has a record twice.
	CheckEnd(mapping.End) error
	// Reply is the last reply.
	Reply() jsonwalk.Value
}

func (f *fetch) newPager(plan *mapping.Replies, ask mapping.Asking, take taker) *pager {
	return &pager{fetch: f, paging: paging{plan.Paging}, taker: take, plan: plan, ask: ask, items: map[string]bool{}}
}

// readList reads all pages of the list. One that changed meanwhile is read once more, as far
// as the budget of repeats and the time of the request allow it.
func (f *fetch) readList(ctx context.Context, ask mapping.Asking) (m *mapping.Builder, pages *pager, err error) {
	var changed error
	for start := time.Now(); ; {
		m = f.plan.NewBuilder(f.want.mapped())
		m.Allow = f.allow
		pages = f.newPager(&f.plan.Replies, ask, m)
		err = pages.read(ctx)
		switch took := time.Since(start); {
		case changed != nil && err != nil && ctx.Err() != nil:
			return m, pages, changed // there was no time for the second reading
		case err == nil, changed != nil, asError(err).Reason != mapping.ReasonChanged:
			return m, pages, err
		default:
			deadline, ok := ctx.Deadline()
			if ok && time.Until(deadline) <= took || !f.budget.withdraw(pages.end.Pages) {
				return m, pages, err
			}
		}
		changed, f.allowed = err, newAllowance(f.cfg.MaxResponseBytes)
		f.metrics.retries[mapping.ReasonChanged].Inc()
	}
}

// read maps all pages.
func (l *pager) read(ctx context.Context) error {
	r, err := l.page(0, 0)
	if err != nil {
		return err
	}
	first, err := l.get(ctx, r)
	if err != nil {
		return err
	}
	l.answered = l.opts.Now()
	return l.readFrom(ctx, r, first)
}

// readFrom maps the first page, which is there, and all pages after it.
func (l *pager) readFrom(ctx context.Context, r address.Request, first reply) error {
	n, err := l.add(ctx, &first, r.URL)
	switch {
	case err != nil || first.empty() || l.Style == mapping.PageNone:
	case l.tellsLength() && l.numbers():
		err = l.allAtOnce(ctx, n)
	default:
		err = l.oneByOne(ctx, r, first, n)
	}
	switch came := l.end.Records; {
	case err != nil:
		return err
	case l.countsRecords() && came < l.length:
		return pagingError("%d records were announced, %d came", l.length, came)
	case l.countsRecords() && came > l.length:
		return pagingError("%d records were announced, %d came; where that number counts pages, it is paging.total_pages", l.length, came)
	}
	l.end.Next = linkNext(l.end.Header.Values("Link"))
	return l.CheckEnd(l.end)
}

// page gives the request for a page by its index and the records before it. With the
// style cursor it is the first page, which has none.
func (l *pager) page(index, records int) (address.Request, error) {
	r, err := l.ask.Page(l.values(index, records))
	if err != nil {
		if _, refused := errors.AsType[*mapping.Error](err); refused {
			return r, asError(err)
		}
		return r, &Error{Kind: KindUnready, Reason: "account", Err: err}
	}
	return r, nil
}

// get asks for one page.
func (l *pager) get(ctx context.Context, r address.Request) (reply, error) {
	return l.do(ctx, &call{fetch: l.fetch, asked: r, format: &l.plan.Format})
}

// add maps a page and gives the number of its records. Its items must differ from those of
// all pages before it. What stands around them may have a time or the id of the request.
func (l *pager) add(ctx context.Context, p *reply, address string) (records int, err error) {
	if p.empty() {
		return 0, nil
	}
	_, step := l.tracer.Start(ctx, "upstream.map")
	defer step.End()
	records, err = l.Take(p.body)
	endStep(step, records, err)
	p.json = l.Reply()
	items := l.ItemsText()
	p.none = items == ""
	l.end.Address, l.end.Header = address, p.header
	l.end.Records += records
	l.end.Pages++
	switch {
	case err != nil:
		return records, err
	case records > 0 && l.items[items]:
		return records, pagingError("page %d is a page before it again; does the legacy system know what tells it the page?", l.end.Pages)
	case records > 0:
		l.items[items] = true
	}
	if l.tellsLength() {
		told, err := l.told(*p)
		if l.end.Pages == 1 {
			l.length = told
		}
		if err == nil && told != l.length {
			// Records may have moved from one page to another unseen.
			err = invalidReply(mapping.ReasonChanged, "the list changed while it was read: page %d tells another length than the first", l.end.Pages)
		}
		return records, err
	}
	return records, nil
}

// oneByOne reads the pages after the first, which is p with n records, until one is the
// last.
func (l *pager) oneByOne(ctx context.Context, r address.Request, p reply, n int) (err error) {
	seen := map[address.Request]bool{r: true}
	for page := 1; ; page++ {
		if r, err = l.after(p, n, page, r); err != nil || r.URL == "" {
			return err
		}
		if seen[r] {
			return pagingError("page %d names a page that was read already; where the last page names one, too, paging.more or paging.last tells the end", page)
		}
		if page >= l.MaxPages {
			return pagingError("the list has more than %d pages", l.MaxPages)
		}
		seen[r] = true
		if p, err = l.get(ctx, r); err != nil {
			return err
		}
		if p.empty() {
			return l.gone(p, page+1)
		}
		if n, err = l.add(ctx, &p, r.URL); err != nil {
			return err
		}
	}
}

// gone says what it means that a page after the first has a status of an empty list. It is
// the end where nobody has named the page, or all records are there. A page that the legacy
// itself has named may be lost.
func (l *pager) gone(p reply, page int) error {
	guessed := l.numbers() || l.plan.OwnCursor()
	if guessed && !l.tellsMore() || l.countsRecords() && l.end.Records == l.length {
		return nil
	}
	return pagingError("page %d, which the page before names, has the status %d, one of reply.empty_statuses: is it lost? Where the last page names one, too, "+
		"let paging.more or paging.last tell the end, or paging.total that all records are there", page, p.status)
}

// after gives the request for the page after the current one, which is p with n records;
// without a URL after the last.
func (l *pager) after(p reply, n, page int, current address.Request) (address.Request, error) {
	if !l.numbers() {
		return l.next(p, l.ask, current)
	}
	last := n == 0 || l.EndsShort && n < l.Size
	if l.tellsMore() {
		more, err := l.more(p)
		if err != nil {
			return address.Request{}, err
		}
		last = !more
	}
	if last {
		return address.Request{}, nil
	}
	return l.page(page, l.end.Records)
}

// allAtOnce reads the rest of a list whose first page, with so many records, tells how
// long it is: at the same time, and takes the pages in order. A page has as many records
// as the first: a legacy may send fewer than were asked for.
func (l *pager) allAtOnce(ctx context.Context, size int) error {
	pages := l.length
	switch {
	case l.countsRecords() && l.length > l.plan.MaxRecords:
		return invalidReply("too_many", "the list has %d records, more than %d", l.length, l.plan.MaxRecords)
	case l.countsRecords() && l.length > 0 && size == 0:
		return pagingError("the list has %d records but its first page has none; does the legacy system count pages from another number than paging.first?", l.length)
	case l.countsRecords() && l.length > 0:
		pages = (l.length + size - 1) / size
	case pages > 1 && size == 0:
		return pagingError("the list has %d pages but the first is empty; does the legacy system count them from another number than paging.first?", pages)
	}
	if pages > l.MaxPages {
		return pagingError("the list has %d pages, more than %d", pages, l.MaxPages)
	}
	replies, asked := make([]reply, max(pages, 1)-1), make([]address.Request, max(pages, 1)-1)
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(l.Concurrency)
	for i := range replies {
		group.Go(func() (err error) {
			defer l.opts.Panics.Catch(func(p any) { err = bug(p) })
			if asked[i], err = l.page(i+1, (i+1)*size); err == nil {
				replies[i], err = l.get(limited, asked[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, p := range replies {
		n, err := l.add(ctx, &p, asked[i].URL)
		switch {
		case err != nil:
			return err
		case !p.empty() && (n > 0 || l.countsRecords() && i == len(replies)-1): // what is missing then shows in the total
		case i == len(replies)-1:
			return pagingError("page %d, the last, is empty; does the legacy system count pages from another number than paging.first?", i+2)
		default:
			return pagingError("page %d of %d is empty", i+2, pages)
		}
	}
	return nil
}

// paging finds out where a list goes on.
type paging struct{ mapping.PagingConfig }

// numbers tells whether the requests for pages can be computed.
func (p paging) numbers() bool { return p.Style == mapping.PageNumber || p.Style == mapping.PageOffset }

// values are those of a page by its index and the records before it.
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

// tellsLength tells whether each reply says how long the list is.
func (p paging) tellsLength() bool {
	return p.Total != "" || p.TotalHeader != "" || p.TotalPages != ""
}

// countsRecords tells whether that length counts records, not pages.
func (p paging) countsRecords() bool { return p.Total != "" || p.TotalHeader != "" }

// told gives what a page says of the length: records, or pages if only those are told.
func (p paging) told(r reply) (int, error) {
	text := r.header.Get(p.TotalHeader)
	switch {
	case p.Total != "":
		text = r.json.At(p.Total).Plain()
	case p.TotalHeader == "":
		text = r.json.At(p.TotalPages).Plain()
	}
	if strings.TrimSpace(text) == "" && r.none {
		return 0, nil
	}
	n, ok := jsonwalk.Count(text)
	if !ok || n < 0 {
		return 0, pagingError("the reply does not tell how long the list is")
	}
	return n, nil
}

// tellsMore tells whether each page says whether another one follows.
func (p paging) tellsMore() bool { return p.More != "" || p.Last != "" }

// more reads the truth value that says whether another page follows. Anything
// else there is an error: guessed, it would cut the list short.
func (p paging) more(r reply) (bool, error) {
	v := r.json.At(p.More + p.Last)
	is, ok := v.Truth()
	switch {
	case ok:
		return is == (p.Last == ""), nil
	case !v.Present() && r.none:
		return false, nil // a reply that says nothing at all is the end
	case !v.Present():
		return false, pagingError("the reply does not tell whether another page follows")
	}
	return false, pagingError("what tells whether another page follows is neither true nor false, Y nor N, 1 nor 0")
}

// next gives the request for the page after r, without a URL after the last. A URL
// that the legacy names is asked for as the one before was, with the same body.
func (p paging) next(r reply, ask mapping.Asking, current address.Request) (next address.Request, err error) {
	switch p.Style {
	case mapping.PageLink:
		current.URL, err = p.nextURL(current.URL, linkNext(r.header.Values("Link")))
		return current, err
	case mapping.PageNext:
		v := r.json.At(p.Next)
		if v.Present() && v.Kind != jsonwalk.Text {
			return next, pagingError("the next page's URL is not a string")
		}
		current.URL, err = p.nextURL(current.URL, v.Plain())
		return current, err
	}
	if p.tellsMore() {
		more, err := p.more(r)
		if err != nil || !more {
			return next, err
		}
	}
	v := r.json.At(p.Cursor)
	switch {
	case v.Present() && !v.Scalar() && !ask.TakesJSON():
		return next, pagingError("the cursor is not a single value; only in a body of JSON can it be sent as it comes")
	case v.Plain() == "" && p.tellsMore():
		return next, pagingError("another page follows but there is no cursor for it")
	case v.Plain() == "" || v.Kind == jsonwalk.Bool:
		return next, nil
	}
	if next, err = ask.Page(p.at(v.Plain(), v.Raw())); err != nil {
		err = pagingError("the cursor cannot be sent: %w", err)
	}
	return next, err
}

// nextURL resolves the address of a next page; empty: there is none. Another host would
// get the gateway's credentials, and could say anything in the legacy's name.
func (p paging) nextURL(current, next string) (string, error) {
	if u, err := url.Parse(next); p.RewriteHost && err == nil && u.Host != "" && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https") && u.User == nil {
		next = (&url.URL{Path: cmp.Or(u.Path, "/"), RawPath: u.RawPath, RawQuery: u.RawQuery}).String() // no path at all would be the end
	}
	if next == "" {
		return "", nil
	}
	base, err := url.Parse(current)
	if err != nil {
		return "", pagingError("the page's own address cannot be read")
	}
	u, err := base.Parse(next)
	if err != nil {
		return "", pagingError("the next page's URL cannot be read")
	}
	if !strings.EqualFold(u.Scheme, base.Scheme) || !strings.EqualFold(hostPort(u), hostPort(base)) || u.User != nil {
		return "", pagingError("the next page's URL leads to another host")
	}
	u.Fragment = ""
	return u.String(), nil
}

// hostPort adds the port that a scheme implies, so that the same host in two
// notations is the same.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case strings.EqualFold(u.Scheme, "https"):
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// links matches one link of a header: its target and its parameters, in which
// commas within quotation marks belong to a value.
var links = regexp.MustCompile(`<([^>]*)>((?:[^,"]|"[^"]*")*)`)

// linkNext finds the target of the link one of whose relations is next (RFC 8288).
// Relations are case-insensitive, and several share one parameter.
func linkNext(headers []string) string {
	for _, h := range headers {
		for _, link := range links.FindAllStringSubmatch(h, -1) {
			for param := range strings.SplitSeq(link[2], ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
				if !strings.EqualFold(strings.TrimSpace(name), "rel") {
					continue
				}
				for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
					if strings.EqualFold(rel, "next") {
						return link[1]
					}
				}
			}
		}
	}
	return ""
}

// pagingError is for a list that cannot be read whole.
func pagingError(format string, args ...any) *Error { return invalidReply("paging", format, args...) }
