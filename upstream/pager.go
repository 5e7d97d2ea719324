package upstream

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// sink takes a reply of the list in order. It gives the number of its records.
type sink func(body string) (records int, err error)

// list reads all pages of a list, the first of which is at address.
func (f *fetcher) list(ctx context.Context, p pagingPlan, address string, take sink) error {
	address = p.sized(address)
	switch p.style {
	case pagePage, pageOffset:
		return f.numbered(ctx, p, address, take)
	case pageCursor, pageNext, pageLink:
		return f.chained(ctx, p, address, take)
	}
	a, err := f.get(ctx, address)
	if err != nil {
		return err
	}
	f.answered()
	_, err = take(a.body)
	return err
}

// sized says how many records are wanted at a time.
func (p *pagingPlan) sized(address string) string {
	if p.Size > 0 && p.SizeParam != "" {
		return withParam(address, p.SizeParam, strconv.Itoa(p.Size))
	}
	return address
}

// answered notes the time of the first reply.
func (f *fetcher) answered() {
	if f.answeredAt.IsZero() {
		f.answeredAt = f.now()
	}
}

func withParam(address, name, value string) string {
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	return address + sep + url.QueryEscape(name) + "=" + url.QueryEscape(value)
}

// chained reads pages each of which names the next one.
func (f *fetcher) chained(ctx context.Context, p pagingPlan, first string, take sink) error {
	seen := map[string]bool{first: true}
	for address, n := first, 1; ; n++ {
		if n > p.MaxPages {
			return pagingError("the list has more than %d pages", p.MaxPages)
		}
		a, err := f.get(ctx, address)
		if err != nil {
			return err
		}
		f.answered()
		if _, err := take(a.body); err != nil {
			return err
		}
		next, err := p.next(a, first, address)
		if err != nil || next == "" {
			return err
		}
		if seen[next] {
			return pagingError("page %d names a page that was read already", n)
		}
		seen[next] = true
		address = next
	}
}

// next gives the address of the page after a, empty after the last.
func (p *pagingPlan) next(a answer, first, current string) (string, error) {
	switch p.style {
	case pageLink:
		return sameHost(current, linkNext(a.header.Values("Link")))
	case pageNext:
		v := lookup(a.body, p.Next)
		if v.present() && v.kind != text {
			return "", pagingError("the next page's URL is not a string")
		}
		return sameHost(current, textOf(v))
	}
	if p.More != "" {
		more, err := p.more(a)
		if err != nil || !more {
			return "", err
		}
	}
	v := lookup(a.body, p.Cursor)
	switch {
	case v.present() && !v.scalar():
		return "", pagingError("the cursor is not a single value")
	case textOf(v) == "" && p.More != "":
		return "", pagingError("another page follows but there is no cursor for it")
	case textOf(v) == "" || v.kind == boolean:
		return "", nil
	}
	return withParam(first, p.Param, textOf(v)), nil
}

func textOf(v value) string {
	if !v.present() {
		return ""
	}
	return v.String()
}

// sameHost resolves the address of a next page. Another host would get the
// gateway's credentials, and could say anything in the legacy's name.
func sameHost(current, next string) (string, error) {
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

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if strings.EqualFold(u.Scheme, "https") {
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// linkNext finds the target of the link with relation next (RFC 8288).
func linkNext(headers []string) string {
	for _, h := range headers {
		for h != "" {
			open := strings.IndexByte(h, '<')
			end := strings.IndexByte(h, '>')
			if open < 0 || end < open {
				break
			}
			target := h[open+1 : end]
			params, rest := linkParams(h[end+1:])
			if isNext(params) {
				return target
			}
			h = rest
		}
	}
	return ""
}

// linkParams splits off the parameters of one link; commas within quotation
// marks belong to them.
func linkParams(s string) (params, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func isNext(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(rel, "next") {
				return true
			}
		}
	}
	return false
}

// numbered reads pages whose addresses can be computed.
func (f *fetcher) numbered(ctx context.Context, p pagingPlan, base string, take sink) error {
	a, err := f.get(ctx, p.address(base, 0, 0))
	if err != nil {
		return err
	}
	f.answered()
	n, err := take(a.body)
	if err != nil {
		return err
	}
	if !p.tellsEnd() {
		return f.untilEnd(ctx, p, base, take, a, n)
	}
	pages, total, err := p.end(a, n)
	switch {
	case err != nil:
		return err
	case total > f.plan.maxRecords:
		return invalid("too_many", "the list has %d records, more than %d", total, f.plan.maxRecords)
	case pages > p.MaxPages:
		return pagingError("the list has %d pages, more than %d", pages, p.MaxPages)
	}
	return f.rest(ctx, p, base, take, firstPage{a.body, n, pages, total})
}

// address gives the address of a page by its index and the records before it.
func (p *pagingPlan) address(base string, page, records int) string {
	if p.style == pageOffset {
		return withParam(base, p.Param, strconv.Itoa(records))
	}
	return withParam(base, p.Param, strconv.Itoa(p.First+page))
}

func (p *pagingPlan) tellsEnd() bool {
	return p.Total != "" || p.TotalHeader != "" || p.TotalPages != ""
}

// end gives the number of pages, and of records if the legacy tells it. records
// is how many the first page has: a legacy may send fewer than were asked for.
func (p *pagingPlan) end(a answer, records int) (pages, total int, err error) {
	told := a.header.Get(p.TotalHeader)
	switch {
	case p.Total != "":
		told = textOf(lookup(a.body, p.Total))
	case p.TotalHeader == "":
		told = textOf(lookup(a.body, p.TotalPages))
	}
	n, err := strconv.Atoi(strings.TrimSpace(told))
	switch {
	case err != nil || n < 0:
		return 0, 0, pagingError("the reply does not tell how long the list is")
	case p.Total == "" && p.TotalHeader == "":
		return max(n, 1), 0, nil
	case n <= records:
		return 1, n, nil
	case records == 0:
		return 0, 0, pagingError("the list has %d records but its first page has none", n)
	}
	return (n + records - 1) / records, n, nil
}

type firstPage struct {
	body    string
	records int
	pages   int // in all
	total   int // records in all, 0 if not told
}

// rest reads the pages after the first at the same time and takes them in order.
func (f *fetcher) rest(ctx context.Context, p pagingPlan, base string, take sink, first firstPage) error {
	answers := make([]answer, first.pages-1)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.Concurrency)
	for i := range answers {
		group.Go(func() (err error) {
			answers[i], err = f.get(ctx, p.address(base, i+1, (i+1)*first.records))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	records := first.records
	for i, a := range answers {
		n, err := take(a.body)
		if err != nil {
			return err
		}
		if n > 0 && a.body == first.body {
			return pagingError("page %d is the first page again; does the legacy know parameter %q?", i+2, p.Param)
		}
		if n == 0 && i < len(answers)-1 {
			return pagingError("page %d of %d is empty", i+2, first.pages)
		}
		records += n
	}
	if records < first.total {
		return pagingError("%d records were announced, %d came", first.total, records)
	}
	return nil
}

// untilEnd reads page after page until one is the last.
func (f *fetcher) untilEnd(ctx context.Context, p pagingPlan, base string, take sink, a answer, n int) error {
	records := n
	for page := 1; ; page++ {
		last, err := p.last(a, n)
		if err != nil || last {
			return err
		}
		if page >= p.MaxPages {
			return pagingError("the list has more than %d pages", p.MaxPages)
		}
		before := a.body
		if a, err = f.get(ctx, p.address(base, page, records)); err != nil {
			return err
		}
		if n, err = take(a.body); err != nil {
			return err
		}
		if n > 0 && a.body == before {
			return pagingError("page %d is the page before again; does the legacy know parameter %q?", page+1, p.Param)
		}
		records += n
	}
}

// last tells whether no page follows one with n records.
func (p *pagingPlan) last(a answer, n int) (bool, error) {
	if p.More != "" {
		more, err := p.more(a)
		return !more, err
	}
	return n == 0 || p.EndsShort && n < p.Size, nil
}

func (p *pagingPlan) more(a answer) (bool, error) {
	switch v := lookup(a.body, p.More); {
	case v.kind == boolean:
		return v.raw == "true", nil
	case !v.present():
		return false, pagingError("the reply does not tell whether another page follows")
	default:
		return false, pagingError("what tells whether another page follows is neither true nor false")
	}
}
