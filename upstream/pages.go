package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/mapping"
)

// pages reads the replies to one request, page after page or all pages at once: those for a list,
// or for the details or responses of some of its records.
type pages struct {
	fetch      *fetch
	replies    *mapping.Replies // how they are read
	paging     paging
	ask        mapping.PagedRequest
	sink       sink
	bodies     []string // of all replies
	end        mapping.End
	firstTotal int             // length of the whole list, as the first page tells it
	lastTotal  int             // the same, as the last page read tells it
	sizes      []int           // records of each page
	items      map[string]bool // of the pages before, as they came
	asked      address.Request // for the first page
	first      reply           // to it
	last       reply           // that was mapped
	answered   time.Time       // when that was there
}

// sink takes the replies of a list, in order.
type sink interface {
	Take(body string) (mapping.Page, error)
	// CheckEnd refuses a list that goes on after its last reply.
	CheckEnd(mapping.End) error
}

func (f *fetch) newPages(replies *mapping.Replies, ask mapping.PagedRequest, into sink) *pages {
	return &pages{fetch: f, replies: replies, paging: paging{replies.Paging}, ask: ask, sink: into, items: map[string]bool{}}
}

// attach makes the second requests of a list: for the details of its records, then for their responses. If one fails, the list
// fails: an inquiry without its responses would look unanswered.
func (f *fetch) attach(ctx context.Context, m *mapping.Builder) error {
	for s, batches := m.Next(); s != nil; s, batches = m.Next() {
		within, step := f.endpoint.tracer.Start(ctx, "upstream."+s.Name)
		replies, err := f.batches(within, s, batches)
		if err == nil {
			err = m.Attach(replies)
		}
		if err != nil && step.Recording() {
			fail(step, err)
		}
		if step.End(); err != nil {
			return err
		}
	}
	return nil
}

// batches makes the second requests for all batches concurrently.
func (f *fetch) batches(ctx context.Context, s *mapping.SecondRequest, batches []mapping.Batch) ([]*mapping.Attachment, error) {
	replies := make([]*mapping.Attachment, len(batches))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.Concurrency)
	for i, batch := range batches {
		group.Go(func() (err error) {
			defer f.endpoint.opts.Panics.Catch(func(p any) { err = bug(p) })
			begin := func() *pages {
				ask, a := s.Request(f.endpoint.query(f.want), batch)
				a.Allow, replies[i] = f.allow, a
				return f.newPages(&s.Replies, ask, a)
			}
			key := f.storeKey(s, batch)
			if stored, ok := f.endpoint.replies.GetIfPresent(key); ok && f.endpoint.opts.Now().Sub(stored.came) <= f.endpoint.keepFor {
				f.endpoint.metrics.kept.Inc()
				return begin().replay(stored.bodies)
			}
			p, err := f.whole(ctx, begin)
			if err != nil && p.end.Pages == 0 && isMissing(p.first.status) {
				if replies[i].Missing = s.Format.MayBeMissing; replies[i].Missing {
					return nil
				}
				// The list came with the same credential: this is about a record, and not about the account.
				return failure("status_4xx", "the request for the %s of a record is answered with status %d; fetch.missing says what that means", s.Name, p.first.status)
			}
			if err == nil && key != "" {
				f.endpoint.replies.Set(key, &storedReplies{p.bodies, p.answered})
			}
			return err
		})
	}
	return replies, group.Wait()
}

// isMissing reports whether a status may say that a record has nothing of what was asked for.
func isMissing(status int) bool {
	return status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusGone
}

// replay maps stored replies, which were complete when they were stored.
func (p *pages) replay(bodies []string) error {
	for _, body := range bodies {
		if err := p.fetch.allowed.take(int64(len(body))); err != nil {
			return err
		}
		if _, err := p.sink.Take(body); err != nil {
			return err
		}
	}
	return nil
}

// read maps all pages.
func (p *pages) read(ctx context.Context) (err error) {
	if p.asked, err = pageRequest(p.ask, p.paging.pageValues(0, 0)); err != nil {
		return err
	}
	if p.first, err = p.fetch.request(ctx, p.asked, &p.replies.Format); err != nil {
		return err
	}
	p.answered = p.fetch.endpoint.opts.Now()
	n, err := p.addPage(ctx, &p.first)
	switch {
	case err != nil || p.first.empty || p.paging.Style == mapping.PageNone:
	case p.paging.TellsLength() && p.paging.Numbers():
		if err = p.allAtOnce(ctx, n); err == nil {
			err = p.grown(ctx)
		}
	default:
		err = p.oneByOne(ctx, n)
	}
	if err != nil {
		return err
	}
	return p.checkEnd()
}

// checkEnd refuses a list unless all of it was read. A record that is inserted meanwhile pushes others to a later page, where
// they come a second time; without these duplicates the list is whole. If a record may have been missed, the reason
// is [mapping.ReasonChanged], and the list is read once more.
func (p *pages) checkEnd() error {
	different := p.end.Records - p.end.Duplicates
	counts := p.paging.countsRecords()
	switch {
	case counts && different < p.firstTotal && (p.end.Duplicates > 0 || p.lastTotal != p.firstTotal):
		return failure(mapping.ReasonChanged, "the list changed while it was read: %d records were announced, %d came, %d of them twice", p.firstTotal, different, p.end.Duplicates)
	case counts && different < p.firstTotal:
		return pagingError("%d records were announced, %d came", p.firstTotal, different)
	case counts && different > p.lastTotal:
		return pagingError("%d records were announced, %d came; where that number counts pages, it is paging.total_pages", p.lastTotal, different)
	case !counts && p.end.Duplicates > 0 && p.shrank():
		return failure(mapping.ReasonChanged, "the list changed while it was read: records came twice, and a page before the last has fewer than the first")
	}
	if p.replies.TellsLast() && p.end.Pages > 0 {
		if last, err := p.isLast(p.last); err != nil || !last {
			return cmp.Or(err, error(pagingError("the list goes on after page %d, where paging ended it: paging.last says that it is not the last", p.end.Pages)))
		}
	}
	next, err := linkNext(p.end.Header.Values("Link"))
	if err != nil && !p.paging.IgnoresMark("Link") {
		return err
	}
	p.end.Next = next
	return p.sink.CheckEnd(p.end)
}

// shrank reports whether a page before the last one with records has fewer than the first.
func (p *pages) shrank() bool {
	for i := len(p.sizes) - 1; i > 0; i-- {
		if p.sizes[i] > 0 {
			return slices.Min(p.sizes[:i]) < p.sizes[0]
		}
	}
	return false
}

// pageRequest returns the request for a page with these values.
func pageRequest(ask mapping.PagedRequest, values address.Values) (address.Request, error) {
	asked, err := ask.Page(values)
	if err == nil {
		return asked, nil
	}
	if _, ofRecord := errors.AsType[*mapping.Error](err); ofRecord {
		return asked, asError(err)
	}
	return asked, &Error{Reason: "account", Err: err}
}

// addPage maps a page and returns the number of its records. Its items must differ from those of every page before, or the legacy
// system has sent one page twice. Only items are compared: what stands around them may hold a time or a request id.
func (p *pages) addPage(ctx context.Context, r *reply) (records int, err error) {
	if r.empty {
		return 0, nil
	}
	_, step := p.fetch.endpoint.tracer.Start(ctx, "upstream.map")
	defer step.End()
	page, err := p.sink.Take(r.body)
	if err != nil && r.denied != nil {
		err = r.denied
	}
	p.bodies = append(p.bodies, r.body)
	records = page.Records
	items := page.Items
	endStep(step, records, err)
	r.json, r.none = page.Reply, items == ""
	p.last, p.end.Header = *r, r.header
	p.end.Records += records
	p.end.Duplicates += page.Duplicates
	p.end.Pages++
	p.sizes = append(p.sizes, records)
	switch {
	case err != nil:
		return records, err
	case records > 0 && p.items[items]:
		return records, pagingError("page %d is a page before it again; does the legacy system know what tells it the page?", p.end.Pages)
	case records > 0:
		p.items[items] = true
	}
	if p.paging.TellsLength() {
		length, err := p.paging.lengthIn(*r)
		if p.end.Pages == 1 {
			p.firstTotal, p.lastTotal = length, length
		}
		if err == nil && (length < p.lastTotal || length != p.lastTotal && !p.replies.HasID()) {
			// Records may have moved from one page to another unseen.
			err = failure(mapping.ReasonChanged, "the list changed while it was read: page %d tells another length than the one before", p.end.Pages)
		}
		p.lastTotal = length
		return records, err
	}
	return records, nil
}

// grown reads the pages that were added to a list since its first page was read.
func (p *pages) grown(ctx context.Context) error {
	for {
		more := p.end.Pages < p.lastTotal
		if p.paging.countsRecords() {
			more = p.end.Records-p.end.Duplicates < p.firstTotal && (p.end.Duplicates > 0 || p.lastTotal > p.firstTotal)
		}
		if !more || p.end.Pages > p.replies.MaxRecords {
			return nil
		}
		asked, err := pageRequest(p.ask, p.paging.pageValues(p.end.Pages, p.end.Records))
		if err != nil {
			return err
		}
		r, err := p.fetch.request(ctx, asked, &p.replies.Format)
		if err != nil {
			return err
		}
		if n, err := p.addPage(ctx, &r); err != nil || n == 0 {
			return err
		}
	}
}

// oneByOne reads the pages after the first, which has n records, until one is the last.
func (p *pages) oneByOne(ctx context.Context, n int) (err error) {
	asked, r := p.asked, p.first
	seen := map[address.Request]bool{asked: true}
	for page := 1; ; page++ {
		if asked, err = p.nextPage(r, n, page, asked); err != nil || asked.URL == "" {
			return err
		}
		if seen[asked] {
			return pagingError("page %d names a page that was read already; where the last page names one, too, paging.last tells the end", page)
		}
		if page > p.replies.MaxRecords {
			return pagingError("the list has more pages than max_records, %d", p.replies.MaxRecords)
		}
		seen[asked] = true
		if r, err = p.fetch.request(ctx, asked, &p.replies.Format); err != nil {
			return err
		}
		if r.empty {
			return p.endsWith(r, page+1)
		}
		if n, err = p.addPage(ctx, &r); err != nil {
			return err
		}
	}
}

// endsWith judges a page after the first whose status means an empty list. The list ends there if the gateway computed the page's
// number, or if all records have come. A page that the legacy system itself named may be lost.
func (p *pages) endsWith(r reply, page int) error {
	guessed := p.paging.Numbers() || p.replies.OwnCursor()
	if guessed && !p.replies.TellsLast() || p.paging.countsRecords() && p.end.Records == p.firstTotal {
		return nil
	}
	return pagingError("page %d, which the page before names, has the status %d, one of reply.empty_statuses: is it lost? Where the last page names one, too, "+
		"let paging.last tell the end, or paging.total that all records are there", page, r.status)
}

// nextPage returns the request for a page by its number. current is the request for the page before, whose reply r has n
// records. After the last page the returned request has no URL.
func (p *pages) nextPage(r reply, n, number int, current address.Request) (next address.Request, err error) {
	last := n == 0
	if p.replies.TellsLast() {
		if last, err = p.isLast(r); err != nil || last {
			return address.Request{}, err
		}
		if n == 0 && p.paging.Numbers() {
			return address.Request{}, pagingError("page %d is empty, and paging.last says that another one follows", number)
		}
	}
	if !p.paging.Numbers() {
		next, err = p.paging.next(r, p.ask, current)
		if err == nil && next.URL == "" && p.replies.TellsLast() {
			err = pagingError("another page follows, by paging.last, and nothing names it")
		}
		return next, err
	}
	if last {
		return address.Request{}, nil
	}
	return pageRequest(p.ask, p.paging.pageValues(number, p.end.Records))
}

// isLast reports whether paging.last says that r is the last page. A reply with neither a list nor that value is the last, too.
func (p *pages) isLast(r reply) (bool, error) {
	last, problem := p.replies.IsLast(r.json)
	switch {
	case problem == "":
		return last, nil
	case r.none && !r.json.At(p.paging.Last.Path).Present():
		return true, nil
	}
	return false, pagingError("%s", problem)
}

// allAtOnce requests all other pages concurrently, because the first one tells how long the list is, and maps them in
// order. size is the number of records on the first page, and so on each: a legacy system may send fewer than requested.
func (p *pages) allAtOnce(ctx context.Context, size int) error {
	total, counts := p.firstTotal, p.paging.countsRecords() // pages
	switch {
	case counts && p.firstTotal > p.replies.MaxRecords:
		return failure("too_many", "the list has %d records, more than %d", p.firstTotal, p.replies.MaxRecords)
	case counts && p.firstTotal > 0 && size == 0:
		return pagingError("the list has %d records but its first page has none; does the legacy system count pages from another number than paging.first?", p.firstTotal)
	case counts && p.firstTotal > 0:
		total = (p.firstTotal + size - 1) / size
	case total > 1 && size == 0:
		return pagingError("the list has %d pages but the first is empty; does the legacy system count them from another number than paging.first?", total)
	}
	if total > p.replies.MaxRecords {
		return pagingError("the list has %d pages, more than max_records, %d", total, p.replies.MaxRecords)
	}
	replies, asked := make([]reply, max(total, 1)-1), make([]address.Request, max(total, 1)-1)
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(p.paging.Concurrency)
	for i := range replies {
		group.Go(func() (err error) {
			defer p.fetch.endpoint.opts.Panics.Catch(func(thrown any) { err = bug(thrown) })
			if asked[i], err = pageRequest(p.ask, p.paging.pageValues(i+1, (i+1)*size)); err == nil {
				replies[i], err = p.fetch.request(limited, asked[i], &p.replies.Format)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, r := range replies {
		n, err := p.addPage(ctx, &r)
		switch {
		case err != nil:
			return err
		case !r.empty && (n > 0 || counts && i == len(replies)-1): // what is missing then shows in the total
		case i == len(replies)-1:
			return pagingError("page %d, the last, is empty; does the legacy system count pages from another number than paging.first?", i+2)
		default:
			return pagingError("page %d of %d is empty", i+2, total)
		}
	}
	return nil
}

// paging finds out where a list goes on.
type paging struct{ mapping.PagingConfig }

// pageValues are those of a page by its index and the records before it.
func (p paging) pageValues(page, records int) address.Values {
	values := p.cursorValues("", "")
	switch {
	case p.Style == mapping.PageNumber:
		values[address.Page] = []string{strconv.Itoa(p.First + page)}
	case p.Style == mapping.PageOffset:
		values[address.Offset] = []string{strconv.Itoa(records)}
	}
	return values
}

// cursorValues gives the values of the page at a cursor, which is there as text and as JSON.
func (p paging) cursorValues(cursor, asJSON string) address.Values {
	values := address.Values{}
	if cursor != "" {
		values.SetCursor(cursor, asJSON)
	}
	if p.Size > 0 {
		values[address.Size] = []string{strconv.Itoa(p.Size)}
	}
	return values
}

// countsRecords reports whether the declared total counts records, not pages.
func (p paging) countsRecords() bool { return p.Total != "" || p.TotalHeader != "" }

// lengthIn reads the length of the list on one of its pages: in records, or in pages if there is no number of records.
func (p paging) lengthIn(r reply) (int, error) {
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
	n, ok := jsontree.Count(text)
	if !ok || n < 0 {
		return 0, pagingError("the reply does not tell how long the list is")
	}
	return n, nil
}

// next returns the request for the page after r; without a URL: r is the last. A URL that the legacy system names is requested
// with the method and body of the page before.
func (p paging) next(r reply, ask mapping.PagedRequest, current address.Request) (next address.Request, err error) {
	switch p.Style {
	case mapping.PageLink:
		target, err := linkNext(r.header.Values("Link"))
		if err == nil {
			current.URL, err = p.nextURL(current.URL, target)
		}
		return current, err
	}
	var v jsontree.Value
	for _, path := range p.Next {
		if v = r.json.At(path); v.Present() {
			break
		}
	}
	if p.Style == mapping.PageNext {
		if v.Present() && v.Kind() != jsontree.Text {
			return next, pagingError("the next page's URL is not a string")
		}
		current.URL, err = p.nextURL(current.URL, v.Plain())
		return current, err
	}
	switch {
	case v.Present() && !v.Scalar() && !ask.TakesJSON():
		return next, pagingError("the cursor is not a single value; only in a body of JSON can it be sent as it comes")
	case v.Plain() == "" || v.Kind() == jsontree.Bool:
		return next, nil
	}
	if next, err = ask.Page(p.cursorValues(v.Plain(), v.Raw())); err != nil {
		err = pagingError("the cursor cannot be sent: %w", err)
	}
	return next, err
}

// nextURL resolves the address of a next page; empty: there is none. Another host would
// get the gateway's credentials, and could say anything in the legacy's name.
func (p paging) nextURL(current, next string) (string, error) {
	next = encodeRaw(next)
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

// encodeRaw percent-encodes blanks and letters outside ASCII, which some systems leave in an address.
func encodeRaw(address string) string {
	var b strings.Builder
	for _, c := range []byte(strings.TrimSpace(address)) {
		if c == ' ' || c >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
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

// The Link header (RFC 8288, 3): a link with its parameters, and one of these. Values may be in
// single quotes, too, as some systems write them.
var (
	linkValue = regexp.MustCompile(`^<([^<>]*)>((?:\s*;\s*(?:` + linkParam + `)?)*)\s*(?:,|$)`)
	linkRel   = regexp.MustCompile(`(?i);\s*` + linkParam)
)

const linkParam = `([^\s=;,"']+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;,"'][^\s;,"]*)?)?`

// linkNext returns the target of the link with the relation next in Link headers; empty: there is
// none. Relations are case-insensitive, and several share one parameter. It is an error if a header
// says something like next in a form that cannot be followed, such as rel=nextPage or a URL without
// angle brackets: the list then goes on, but nothing says where.
func linkNext(headers []string) (target string, err error) {
	for _, rest := range headers {
		for rest = strings.TrimLeft(rest, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
			link := linkValue.FindStringSubmatch(rest)
			if link == nil {
				if mentionsNext(rest) {
					err = pagingError("the header Link names a next page in a form that cannot be read; RFC 8288 wants <URL>; rel=\"next\"")
				}
				break
			}
			rest = rest[len(link[0]):]
			for _, param := range linkRel.FindAllStringSubmatch(link[2], -1) {
				if !strings.EqualFold(param[1], "rel") {
					continue
				}
				for rel := range strings.FieldsSeq(strings.Trim(param[2], `"'`)) {
					switch {
					case strings.EqualFold(rel, "next"):
						return link[1], nil
					case mentionsNext(rel):
						err = pagingError("the header Link has a link with a relation like next, and none with next")
					}
				}
			}
		}
	}
	return "", err
}

// mentionsNext reports whether a text has the word next in it, in any case.
func mentionsNext(text string) bool { return strings.Contains(strings.ToLower(text), "next") }

// pagingError is the error of a list that cannot be read completely.
func pagingError(format string, args ...any) *Error { return failure("paging", format, args...) }
