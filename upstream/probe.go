package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// Probe is one reply and what it looks like through the mapping.
type Probe struct {
	Kind     string        `json:"kind"`
	Account  string        `json:"account"`
	Request  *ProbeRequest `json:"request,omitempty"` // nil for a saved reply
	Status   int           `json:"status,omitempty"`  // of the reply; 0: none came
	Bytes    int           `json:"bytes"`
	Unasked  bool          `json:"unasked"` // no record can have the filter values: a fetch would not ask
	Took     time.Duration `json:"took_ns"`
	Problem  string        `json:"problem,omitempty"`   // why the reply as a whole cannot be used
	NextPage string        `json:"next_page,omitempty"` // where the list goes on, or why it cannot; only the first page is probed

	Reply  string    `json:"-"` // the body, as the mapping reads it
	Served []Inquiry `json:"-"` // see mapping.Explainer.Served; nil with a Problem

	mapping.Explanation
}

// Refusal says why a caller would get an error in the place of the list; empty: the
// list, without the records that cfg leaves out.
func (p *Probe) Refusal(cfg mapping.EndpointConfig) (reason string, leftOut int) {
	strangers, broken := map[int]bool{}, map[int]bool{}
	for _, n := range slices.Concat(p.Owner.Foreign, p.Owner.Missing) {
		strangers[n] = true
	}
	for _, v := range p.Violations {
		if !strangers[v.Record] { // those are not even mapped
			broken[v.Record] = true
		}
	}
	switch {
	case p.Problem != "":
		return p.Problem, 0
	case len(strangers) > 0 && cfg.OnForeignRecord != "drop":
		return records(len(strangers)) + " of another account or of none", 0
	case len(broken) > 0 && cfg.OnInvalidRecord != "skip":
		return records(len(broken)) + " that the mapping cannot accept", 0
	}
	return "", len(broken) + len(strangers)
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return strconv.Itoa(n) + " records"
}

// ProbeRequest is what was sent. Values of headers that may be secrets are
// replaced by "(hidden)".
type ProbeRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers"`
}

// ProbeOptions choose what is probed.
type ProbeOptions struct {
	Sample  []byte // a saved reply; nil: one real request
	Records int    // to show field by field; default 3
}

// Probe reads one reply, from the legacy or saved, and explains it. Filters are
// sent but not applied. Neither breaker nor retries come into it. The error is
// for a kind or account that makes no request; everything that is wrong with the
// reply is in the result.
func (c *Client) Probe(ctx context.Context, want Request, opts ProbeOptions) (*Probe, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return nil, errors.New("the kind must be buyer or seller")
	}
	if opts.Records == 0 {
		opts.Records = 3
	}
	x := e.plan.Explainer(want, opts.Records)
	ask, impossible := e.plan.Ask(want)
	first, err := ask.Page(paging{e.plan.Paging}.values(0, 0))
	p := &Probe{Kind: want.Kind, Account: want.Account, Unasked: impossible}
	f := c.newFetcher(e, want.RequestID)
	a := answer{}
	if opts.Sample == nil {
		if err != nil {
			return nil, err
		}
		a = f.probe(ctx, ask, first, p)
	} else if a.body, err = f.format.Decode(string(opts.Sample), "", c.cfg.MaxResponseBytes); err != nil {
		p.Problem = asError(err).Error()
	}
	if p.Bytes = len(a.body); int64(p.Bytes) > c.cfg.MaxResponseBytes {
		p.Problem = invalidReply("too_large", "the reply has more than %d bytes", c.cfg.MaxResponseBytes).Error()
	}
	if p.Problem == "" && (a.body != "" || opts.Sample != nil) {
		err := x.Read(a.body)
		if err == nil {
			err = x.CheckEnd(mapping.End{Address: first.URL, Header: a.header, Next: linkNext(a.header.Values("Link"))})
		}
		if err != nil {
			p.Problem = asError(err).Error()
		}
	}
	if batches := x.DetailBatches(); p.Problem == "" && len(batches) > 0 {
		if err := f.probeDetails(ctx, want.Account, x, batches, opts.Sample == nil); err != nil {
			p.Problem = asError(err).Error()
		}
	}
	if id := x.SecondID(); id != "" && opts.Sample == nil {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
		sub, err := f.batch(ctx, want.Account, f.plan.Second, []string{id})
		if err != nil {
			err = asError(err)
		}
		x.AddResponses(sub, err)
	}
	p.Explanation, p.Reply = x.Explanation, a.body
	if p.Problem == "" && (a.body != "" || opts.Sample != nil) {
		p.Served = x.Served()
	}
	return p, nil
}

// probeDetails explains the records with their details, which are asked for if they may be.
func (f *fetcher) probeDetails(ctx context.Context, account string, x *mapping.Explainer, batches [][]string, ask bool) (err error) {
	var subs []*mapping.Reply
	if ask {
		ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
		defer cancel()
		if subs, err = f.batches(ctx, account, f.plan.Details, batches); err != nil {
			return err
		}
	}
	return x.AddDetails(subs)
}

// probe makes the first request of a fetch.
func (f *fetcher) probe(ctx context.Context, ask mapping.Asking, first address.Request, p *Probe) answer {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	p.Request = &ProbeRequest{Method: first.Method, URL: first.URL, Body: first.Body, Headers: map[string]string{}}
	for name, list := range f.http.Header {
		p.Request.Headers[name] = shown(name, strings.Join(list, ", "))
	}
	if p.Request.Headers["Accept"] == mapping.AcceptJSON {
		p.Request.Headers["Accept"] = f.format.Accept
	}
	for name, value := range first.Headers {
		p.Request.Headers[name] = shown(name, value)
	}
	if name, _, err := f.creds.header(ctx); err == nil && name != "" {
		p.Request.Headers[http.CanonicalHeaderKey(name)] = hidden
	}
	start := time.Now()
	a, err := f.once(ctx, first)
	p.Took = time.Since(start)
	var status statusError
	switch {
	case err != nil:
		p.Problem = err.Error()
	case !a.empty():
		p.NextPage = paging{f.plan.Paging}.following(a, ask, first)
	}
	if p.Status = a.status; errors.As(err, &status) {
		p.Status = int(status)
	}
	return a
}

const hidden = "(hidden)"

// shown hides what may be a secret, which is every header that this package did
// not make up itself.
func shown(name, value string) string {
	switch name {
	case "Accept", "Accept-Encoding", "Content-Type", "Via", "User-Agent":
		return value
	}
	return hidden
}

// following says for a person where the list goes on, or why it cannot.
func (p paging) following(a answer, ask mapping.Asking, first address.Request) (next string) {
	var err error
	switch {
	case p.tellsEnd():
		var told int
		told, err = p.told(a)
		next = strconv.Itoa(told) + " pages in all"
		if p.tellsRecords() {
			next = strconv.Itoa(told) + " records in all"
		}
	case p.numbers():
		return "until a page is the last"
	case p.Style != mapping.PageNone:
		var r address.Request
		r, err = p.next(a, ask, first)
		if next = r.URL; r.URL == first.URL {
			next = "with the body " + r.Body
		}
	}
	if err != nil {
		return "nowhere: " + err.Error()
	}
	return next
}
