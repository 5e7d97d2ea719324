package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/mapping"
)

// Explained is a list and what it looks like through the mapping.
type Explained struct {
	First    address.Request // the one that the list begins with
	Further  []Further       // the first of each sort that follows the list
	Unasked  bool            // no record can have the filter values: a fetch would not ask
	Took     time.Duration   // until the first reply was there
	Reply    string          // its body, as the mapping reads it
	NextPage string          // where the list goes on after it, or why it cannot
	Problem  error           // why the list as a whole cannot be used; an *Error
	Refused  error           // what a fetch would have failed with; an *Error, nil: it would not
	Served   []Inquiry       // what a caller would get where the list is not refused; nil with a Problem
	mapping.Explanation
}

// Further is a request for what the list does not tell of its records.
type Further struct {
	For   string // details or responses
	Times int    // how many requests of this sort there are
	address.Request
}

// Depth is how much of a list is explained.
type Depth int

// The depths.
const (
	FirstReply  Depth = iota // this alone: it is a saved one
	FirstOfEach              // the first page, and the details and responses of some records
	Whole                    // all that a fetch reads
)

// Explain reads a list for a person who writes a mapping. Filters are sent but not
// applied. The breaker does not come into it, and the first request is made once.
// So many records are shown field by field. The error is for a kind or account that makes
// no request; everything that is wrong with the replies is in the result.
func (c *Client) Explain(ctx context.Context, want Request, show int, depth Depth) (e *Explained, err error) {
	s, ok := c.sources[want.Kind]
	if !ok {
		return nil, fmt.Errorf("the configuration has no upstream.%s", want.Kind)
	}
	ask, impossible := s.plan.Ask(want.mapped())
	f, x := s.newFetch(want), s.plan.Explainer(want.mapped(), show)
	x.Allow = f.allow
	pages := f.newPager(&s.plan.Replies, ask, x)
	first, err := ask.Page(pages.values(0, 0))
	if err != nil {
		return nil, err
	}
	if err = s.bulkhead.enter(f.place(), s.cfg.MaxConcurrent, s.cfg.perAccount()); err != nil {
		return nil, err
	}
	defer s.bulkhead.leave(f.place())
	e = &Explained{First: first, Unasked: impossible}
	defer f.opts.Panics.Catch(func(p any) { e.Problem = bug(p) })
	if err = f.explain(ctx, pages, x, e, depth); err != nil {
		e.Problem = asError(err)
	}
	x.Finish()
	e.Explanation = x.Explanation
	if e.Refused = e.Problem; x.Refusal != nil { // which comes first
		e.Refused = asError(x.Refusal)
	}
	if err == nil {
		e.Served = x.List
	}
	return e, nil
}

// explain makes the requests of a fetch, or the first of each sort.
func (f *fetch) explain(ctx context.Context, pages *pager, x *mapping.Explainer, e *Explained, depth Depth) error {
	start := time.Now()
	r, err := f.once()(ctx, &call{fetch: f, asked: e.First, format: &pages.plan.Format})
	e.Took = time.Since(start)
	if err != nil {
		return err
	}
	if !r.empty() {
		e.NextPage, e.Reply = pages.following(r, pages.ask, e.First), r.body
	}
	if depth == Whole || pages.Style == mapping.PageNone {
		err = pages.readFrom(ctx, e.First, r)
	} else if !r.empty() {
		err = pages.firstOnly(r)
	}
	if err != nil {
		return err
	}
	if depth == FirstReply {
		return nil
	}
	return f.explainFurther(ctx, x, e, depth == Whole)
}

// firstOnly maps the first page of a list. One without records may tell that there are some.
func (l *pager) firstOnly(r reply) error {
	n, err := l.Take(r.body)
	r.json = l.Reply()
	if err != nil || n > 0 || !l.tellsLength() {
		return err
	}
	length, err := l.told(r)
	if err == nil && length > 0 {
		err = pagingError("the reply tells of %d, but its first page has no records; does the legacy system count pages from 1 (paging.first)?", length)
	}
	return err
}

// explainedBatches are made where not all are.
var explainedBatches = map[string]int{"details": 10, "responses": 1}

// explainFurther asks for details and responses, if the list needs any.
func (f *fetch) explainFurther(ctx context.Context, x *mapping.Explainer, e *Explained, whole bool) error {
	for s, batches := x.Next(); s != nil; s, batches = x.Next() {
		if !whole {
			batches = batches[:min(len(batches), explainedBatches[s.Name])]
		}
		e.further(s.Name, f, s, batches)
		replies, err := f.batches(ctx, s, batches)
		if err == nil {
			err = x.Attach(replies)
		}
		if err != nil {
			x.Failed = asError(err)
			return err
		}
	}
	return nil
}

// further notes the first request for the batches, if it can be made.
func (e *Explained) further(what string, f *fetch, s *mapping.Second, batches [][]string) {
	ask, _ := s.Request(f.want.Account, batches[0])
	if first, err := ask.Page(paging{s.Paging}.values(0, 0)); err == nil {
		e.Further = append(e.Further, Further{what, len(batches), first})
	}
}

// following says for a person where the list goes on, or why it cannot.
func (p paging) following(r reply, ask mapping.Asking, first address.Request) (next string) {
	var err error
	r.json, err = jsonwalk.Parse(r.body)
	switch {
	case err != nil:
	case p.tellsLength() && (p.numbers() || p.Style == mapping.PageNone):
		var length int
		length, err = p.told(r)
		next = strconv.Itoa(length) + " pages in all"
		if p.countsRecords() {
			next = strconv.Itoa(length) + " records in all"
		}
	case p.numbers():
		return "until a page is the last"
	case p.Style != mapping.PageNone:
		var page address.Request
		page, err = p.next(r, ask, first)
		if next = page.URL; page.URL == first.URL {
			next = "with the body " + page.Body
		}
	}
	if err != nil {
		return "nowhere: " + err.Error()
	}
	return next
}

// ForList tells whether a request that came to [Options].Transport is for a list. A
// sign-in is not: its reply is a secret.
func ForList(r *http.Request) bool {
	_, ok := r.Context().Value(callKey{}).(*call)
	return ok
}

// Hider makes the function that hides the credentials of a configuration in a text for a
// person: the secret of auth, and what requests send under the name of a secret.
func (c Config) Hider() func(string) string {
	secrets := c.Auth.Login.spec().Secrets()
	if m, known := c.Auth.method(); known {
		secrets = append(secrets, oneLine(m.secret))
	}
	for _, ec := range c.endpoints() {
		for _, spec := range []address.Spec{
			{Query: ec.Query, Sending: ec.Sending},
			{Query: ec.Details.Fetch.Query, Sending: ec.Details.Fetch.Sending},
			{Query: ec.Fields.Responses.Fetch.Query, Sending: ec.Fields.Responses.Fetch.Sending},
		} {
			secrets = append(secrets, spec.Secrets()...)
		}
	}
	return address.Hider(secrets)
}
