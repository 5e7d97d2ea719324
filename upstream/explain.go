package upstream

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// Explained is a list and what it looks like through the mapping.
type Explained struct {
	First    address.Request // the one that the list begins with
	Unasked  bool            // no record can have the filter values: a fetch would not ask
	Took     time.Duration   // until the first reply was there
	Reply    string          // its body, as the mapping reads it
	NextPage string          // where the list goes on after it, or why it cannot
	Problem  error           // why the list as a whole cannot be used; an *Error
	Served   []Inquiry       // what a caller would get; nil with a Problem
	mapping.Explanation
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
// applied. Neither breaker nor bulkhead come into it, and the first request is made once.
// So many records are shown field by field. The error is for a kind or account that makes
// no request; everything that is wrong with the replies is in the result.
func (c *Client) Explain(ctx context.Context, want Request, show int, depth Depth) (*Explained, error) {
	s, ok := c.sources[want.Kind]
	if !ok {
		return nil, fmt.Errorf("the configuration has no upstream.%s", want.Kind)
	}
	ask, impossible := s.plan.Ask(want)
	f, x := s.newFetch(want), s.plan.Explainer(want, show)
	f.keepResponses = math.MaxInt
	pages := f.newPager(s.plan.Paging, ask, &s.plan.Format, x)
	first, err := ask.Page(pages.values(0, 0))
	if err != nil {
		return nil, err
	}
	e := &Explained{First: first, Unasked: impossible}
	if err = f.explain(ctx, pages, x, e, depth); err != nil {
		e.Problem = asError(err)
	}
	x.Finish()
	e.Explanation = x.Explanation
	if err == nil && e.Reply != "" {
		e.Served = x.List
	}
	return e, nil
}

// explain makes the requests of a fetch, or the first of each sort.
func (f *fetch) explain(ctx context.Context, pages *pager, x *mapping.Explainer, e *Explained, depth Depth) error {
	start := time.Now()
	r, err := f.signed(f.bounded(f.send))(ctx, &call{fetch: f, asked: e.First, format: pages.format})
	e.Took = time.Since(start)
	switch {
	case err != nil:
	case r.empty():
	case depth == Whole || pages.Style == mapping.PageNone:
		e.NextPage, e.Reply = pages.following(r, pages.ask, e.First), r.body
		err = pages.readFrom(ctx, e.First, r)
	default:
		e.NextPage, e.Reply = pages.following(r, pages.ask, e.First), r.body
		err = pages.firstOnly(r)
	}
	if err != nil {
		return err
	}
	if depth == FirstReply {
		if len(x.DetailBatches(explainedDetails)) > 0 {
			return x.AddDetails(nil)
		}
		return nil
	}
	return f.explainFurther(ctx, x, depth == Whole)
}

// firstOnly maps the first page of a list. One without records may tell that there are some.
func (l *pager) firstOnly(r reply) error {
	n, err := l.Take(r.body)
	if err != nil || n > 0 || !l.tellsLength() {
		return err
	}
	length, err := l.length(r)
	if err == nil && length > 0 {
		err = pagingError("the reply tells of %d, but its first page has no records; does the legacy system count pages from 1 (paging.first)?", length)
	}
	return err
}

// The records that details and responses are asked for where not all are.
const (
	explainedDetails   = 10
	explainedResponses = 1
)

// explainFurther asks for details and responses, if the list needs any.
func (f *fetch) explainFurther(ctx context.Context, x *mapping.Explainer, whole bool) error {
	details, responses := explainedDetails, explainedResponses
	if whole {
		details, responses = math.MaxInt, math.MaxInt
	}
	if batches := x.DetailBatches(details); len(batches) > 0 {
		replies, err := f.batches(ctx, f.plan.Details, batches)
		if err == nil {
			err = x.AddDetails(replies)
		}
		if err != nil {
			return err
		}
	}
	batches := x.Batches(responses)
	if len(batches) == 0 {
		return nil
	}
	replies, err := f.batches(ctx, f.plan.Second, batches)
	if err != nil {
		err = asError(err)
	}
	return x.AddResponses(replies, err)
}

// following says for a person where the list goes on, or why it cannot.
func (p paging) following(r reply, ask mapping.Asking, first address.Request) (next string) {
	var err error
	switch {
	case p.tellsLength():
		var length int
		length, err = p.length(r)
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
