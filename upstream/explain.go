package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// ListReport is a list and what it looks like through the mapping.
type ListReport struct {
	First     address.Request `json:"-"`                 // the one that the list begins with
	Further   []Further       `json:"further,omitempty"` // the first request of each sort for what the list does not tell of its records
	Unasked   bool            `json:"unasked"`           // no record can have the filter values: a fetch would not ask
	Took      time.Duration   `json:"took_ns"`           // until all was there
	Problem   error           `json:"-"`                 // why the list as a whole cannot be used; an *Error
	WouldFail error           `json:"-"`                 // what a fetch would have failed with; an *Error, nil: it would not
	Served    []Inquiry       `json:"-"`                 // what a caller would get where the list is not refused; nil with a Problem
	mapping.Report
}

// Further is a request for details or responses.
type Further struct {
	For    string `json:"for"`
	Times  int    `json:"times"` // how many requests of this sort there are
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   string `json:"body,omitempty"`
}

// Explain reads a whole list for a person who writes a mapping, and shows so many of its records
// field by field. Filters are sent but not applied. The breaker does not stop it. Beyond what a fetch
// asks for it asks for the page after the last one, and, with words, for the list of each word of the
// filters, to see whether a list ends where it seems to. The error is for a kind or account that makes
// no request; everything that is wrong with the replies is in the result.
func (c *Client) Explain(ctx context.Context, want Request, show int, words bool) (*ListReport, error) {
	e, err := c.newExplanation(want, show)
	if err != nil {
		return nil, err
	}
	defer func() { e.fetch.allowed.release() }()
	err = e.caught(ctx, e.readAll)
	if e.finish(err); err == nil {
		if err = e.caught(ctx, func(ctx context.Context) error {
			e.askBeyond(ctx)
			if words {
				e.askWords(ctx)
			}
			return nil
		}); err != nil {
			e.doubt("paging", "what shows whether a list ends there cannot be asked for: %v", err)
		}
	}
	return &e.ListReport, nil
}

// ExplainReply is Explain of a saved reply, the first of a list. Nothing is asked for, so that
// there are no details or responses of second requests.
func (c *Client) ExplainReply(want Request, show int, saved []byte) (*ListReport, error) {
	e, err := c.newExplanation(want, show)
	if err != nil {
		return nil, err
	}
	defer func() { e.fetch.allowed.release() }()
	e.finish(e.readSaved(saved))
	return &e.ListReport, nil
}

// explanation is an ListReport that is being made.
type explanation struct {
	fetch     *fetch
	pages     *pages
	explainer *mapping.Explainer
	ListReport
}

func (c *Client) newExplanation(want Request, show int) (*explanation, error) {
	s, ok := c.endpoints[want.Kind]
	if !ok {
		return nil, fmt.Errorf("the configuration has no upstream.%s", want.Kind)
	}
	ask, impossible := s.plan.Request(s.query(want))
	f, x := s.newFetch(want), s.plan.Explainer(s.query(want), show)
	x.Allow = f.allow
	p := f.newPages(&s.plan.Replies, ask, x)
	first, err := pageRequest(ask, p.paging.pageValues(0, 0))
	return &explanation{f, p, x, ListReport{First: first, Unasked: impossible}}, err
}

// caught makes a panic in requests their error.
func (e *explanation) caught(ctx context.Context, ask func(context.Context) error) (err error) {
	defer e.fetch.endpoint.opts.Panics.Catch(func(p any) { err = bug(p) })
	return ask(ctx)
}

// readAll makes the requests of a fetch.
func (e *explanation) readAll(ctx context.Context) (err error) {
	s := e.fetch.endpoint
	begin := s.opts.Now()
	defer func() { e.Took = s.opts.Now().Sub(begin) }()
	if err = e.pages.read(ctx); err != nil {
		return err
	}
	for second, batches := e.explainer.Next(); second != nil; second, batches = e.explainer.Next() {
		replies, err := e.further(ctx, second, batches)
		if err == nil {
			err = e.explainer.Attach(replies)
		}
		if err != nil {
			e.explainer.Failed = asError(err)
			return err
		}
	}
	return nil
}

// further makes the second requests for the batches, and notes the first of them.
func (e *explanation) further(ctx context.Context, s *mapping.SecondRequest, batches []mapping.Batch) ([]*mapping.Attachment, error) {
	ask, _ := s.Request(e.fetch.endpoint.query(e.fetch.want), batches[0])
	if first, err := ask.Page(paging{s.Paging}.pageValues(0, 0)); err == nil {
		e.Further = append(e.Further, Further{s.Name, len(batches), first.Method, first.URL, first.Body})
	}
	return e.fetch.batches(ctx, s, batches)
}

// readSaved reads a saved reply. Its media type is lost, and is the configuration's.
func (e *explanation) readSaved(saved []byte) error {
	_, saved = decode.Saved(saved)
	p, media := e.pages, "application/json"
	p.paging.TotalHeader = "" // headers are not always saved
	if p.replies.Format.XML {
		media = "application/xml"
	}
	body, err := readBody(&http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(bytes.NewReader(saved)), ContentLength: int64(len(saved)),
	}, &p.replies.Format, e.fetch.allowed, time.Time{})
	if err != nil {
		return err
	}
	p.first = reply{status: http.StatusOK, body: body}
	n, err := p.addPage(context.Background(), &p.first)
	switch {
	case err != nil:
	case p.paging.Style == mapping.PageNone:
		err = p.checkEnd()
	case n == 0 && p.firstTotal > 0:
		err = pagingError("the reply tells of %d, but its first page has no records; does the legacy system count pages from 1 (paging.first)?", p.firstTotal)
	case !p.paging.TellsLength() || !p.paging.Numbers():
		_, err = p.nextPage(p.first, n, 1, e.First)
	}
	return err
}

// doubt adds a reason to look again.
func (e *explanation) doubt(path, format string, args ...any) {
	e.Doubts = append(e.Doubts, mapping.Doubt{Path: path, Text: fmt.Sprintf(format, args...)})
}

// askBeyond asks for the page after the last one where a number tells the length, as the number may
// count something else.
func (e *explanation) askBeyond(ctx context.Context) {
	p := e.pages
	if p.paging.Numbers() && p.paging.TellsLength() && p.end.Pages > 0 {
		if asked, err := pageRequest(p.ask, p.paging.pageValues(p.end.Pages, p.end.Records)); err == nil {
			if more, items := e.count(ctx, asked); more > 0 && !p.items[items] { // else it is the last page again
				e.doubt("paging", "the page after the last one has %s: does the length count something else?", records(more))
			}
		}
	}
}

// askWords asks for the list of each word of each filter: if these have more records together than the
// list without a filter, the system has a filter where none is set.
func (e *explanation) askWords(ctx context.Context) {
	s, p, want := e.fetch.endpoint, e.pages, e.fetch.want
	words := s.plan.FilterValues()
	for _, name := range []string{"status", "inquiry_type"} {
		all := 0
		for _, word := range words[name] {
			filtered := Request{Account: want.Account, Status: word}
			if name != "status" {
				filtered.Status, filtered.InquiryType = "", word
			}
			ask, _ := s.plan.Request(s.query(filtered))
			e.fetch.restart()
			list := e.fetch.newPages(&s.plan.Replies, ask, s.plan.NewBuilder(mapping.Query{Account: want.Account}))
			if err := list.read(ctx); err != nil {
				e.doubt(name, "the list of %s %s cannot be read: %v", name, word, err)
				return
			}
			all += list.end.Records
		}
		if all > p.end.Records && want.Status == "" && want.InquiryType == "" {
			e.doubt(name, "without a filter there are %s, with each %s together %s: what does the legacy system leave out where none is set? {%s|*} says what is sent then",
				records(p.end.Records), name, records(all), name)
		}
	}
}

// count gives how many records a page has, and what holds them.
func (e *explanation) count(ctx context.Context, asked address.Request) (n int, items string) {
	p := e.pages
	r, err := e.fetch.request(ctx, asked, &p.replies.Format)
	if err != nil || r.empty {
		return 0, ""
	}
	scratch := e.fetch.endpoint.plan.NewBuilder(mapping.Query{Account: e.fetch.want.Account})
	page, _ := scratch.Take(r.body)
	return page.Records, page.Items
}

// records counts them for a person.
func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return strconv.Itoa(n) + " records"
}

// finish says what was read, which ended with err.
func (e *explanation) finish(err error) {
	if err != nil {
		e.Problem = asError(err)
	}
	e.explainer.Finish()
	e.Report = e.explainer.Report
	if e.WouldFail = e.Problem; e.explainer.FirstError != nil { // which comes first
		e.WouldFail = asError(e.explainer.FirstError)
	}
	if err == nil {
		e.Served = e.explainer.List
	}
}

// WithoutSecrets returns the configuration without credentials. What requests send for {secret} is [address.Hidden].
func (c Config) WithoutSecrets() Config {
	sendsSecret := c.Auth.Type == authSecret
	c.Auth = DefaultConfig().Auth
	if sendsSecret {
		c.Auth = AuthConfig{Type: authSecret, SecretFile: setting.NewFile("none", address.Hidden)}
	}
	return c
}

// Hider makes the function that hides the secret of auth in a text for a person.
func (c Config) Hider() func(string) string {
	_, file := c.Auth.secret()
	return address.Hider(oneLine(file))
}
