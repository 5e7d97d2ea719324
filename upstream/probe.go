package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// Probe is a list and what it looks like through the mapping.
type Probe struct {
	Kind      string        `json:"kind"`
	Account   string        `json:"account"`
	Request   *ProbeRequest `json:"request,omitempty"`    // the first; nil for a saved reply
	Status    int           `json:"status,omitempty"`     // of the first reply, or of the one that was refused; 0: none came
	MediaType string        `json:"media_type,omitempty"` // of the same
	Refused   string        `json:"refused,omitempty"`    // how the one that was refused begins; holds whatever the legacy wrote
	Unasked   bool          `json:"unasked"`              // no record can have the filter values: a fetch would not ask
	Took      time.Duration `json:"took_ns"`              // until the first reply was there
	Problem   string        `json:"problem,omitempty"`    // why the list as a whole cannot be used
	Found     string        `json:"found,omitempty"`      // the value that is not what expect says; holds whatever the legacy wrote
	NextPage  string        `json:"next_page,omitempty"`  // where the list goes on after its first reply, or why it cannot
	Whole     bool          `json:"whole"`                // all pages were read, and all second requests made

	Reply  string    `json:"-"` // the body of the first reply, as the mapping reads it
	Served []Inquiry `json:"-"` // see mapping.Explainer.Served; nil with a Problem

	mapping.Explanation
}

// Refusal says why a caller would get an error in the place of the list; empty: the
// list, without the records that cfg leaves out.
func (p *Probe) Refusal(cfg mapping.EndpointConfig) (reason string, leftOut int) {
	strangers, broken := map[int]bool{}, map[int]bool{}
	for _, n := range p.Owner.Foreign {
		strangers[n] = true
	}
	for _, n := range p.Owner.Missing {
		if strangers[n] = cfg.OnForeignRecord != "drop"; !strangers[n] {
			broken[n] = true // whose it is nobody knows: dropped, all of the list could be lost unseen
		}
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

// records is a number of records in words.
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
	Sample  []byte // a saved reply; nil: ask
	Records int    // to show field by field; default 3
	// Whole asks for all pages, and for the responses to all inquiries, within the
	// bounds of a fetch. Otherwise one request is made, and one for responses.
	Whole bool
}

// The records that details and responses are asked for if nothing else is said.
const (
	probedDetails   = 10
	probedResponses = 1
)

// further is for how many records details and responses are asked for.
func (o ProbeOptions) further() (details, responses int) {
	if o.Whole && o.Sample == nil {
		return math.MaxInt, math.MaxInt
	}
	return probedDetails, probedResponses
}

// Probe reads a list, from the legacy or saved, and explains it. Filters are
// sent but not applied. Neither breaker nor retries come into the first request.
// The error is for a kind or account that makes no request; everything that is
// wrong with the reply is in the result.
func (c *Client) Probe(ctx context.Context, want Request, opts ProbeOptions) (*Probe, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return nil, fmt.Errorf("the configuration has no upstream.%s", want.Kind)
	}
	opts.Records = cmp.Or(opts.Records, 3)
	x := e.plan.Explainer(want, opts.Records)
	ask, impossible := e.plan.Ask(want)
	first, err := ask.Page(paging{e.plan.Paging}.values(0, 0))
	p := &Probe{Kind: want.Kind, Account: want.Account, Unasked: impossible, Whole: opts.Whole && opts.Sample == nil}
	f := c.newFetcher(e, want)
	f.keepResponses = math.MaxInt
	if opts.Sample != nil {
		err = f.probeSample(x, p, opts)
	} else if err == nil {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
		err = f.probe(ctx, ask, first, x, p, opts)
	} else {
		return nil, err
	}
	if err != nil {
		p.Problem = asError(err).Error()
		if refused, ok := errors.AsType[*mapping.Error](err); ok {
			p.Found = refused.Found
		}
	}
	x.Finish()
	p.Explanation = x.Explanation
	if p.Problem == "" && (p.Reply != "" || opts.Sample != nil) {
		p.Served = x.Served()
	}
	return p, nil
}

// probeSample explains a saved reply.
func (f *fetcher) probeSample(x *mapping.Explainer, p *Probe, opts ProbeOptions) (err error) {
	if p.Reply, err = f.format.Decode(string(opts.Sample), "", f.cfg.MaxResponseBytes); err != nil {
		return err
	}
	if int64(len(p.Reply)) > f.cfg.MaxResponseBytes {
		return invalidReply("too_large", "the reply has more than %d bytes", f.cfg.MaxResponseBytes)
	}
	n, err := x.Take(p.Reply)
	if err == nil && f.plan.Paging.Style == mapping.PageNone {
		err = x.CheckEnd(f.plan.Paging, mapping.End{Records: n, Pages: 1})
	}
	if err == nil && len(x.DetailBatches(probedDetails)) > 0 {
		err = x.AddDetails(nil)
	}
	return err
}

// probe makes the requests of a fetch, or the first of them.
func (f *fetcher) probe(ctx context.Context, ask mapping.Asking, first address.Request, x *mapping.Explainer, p *Probe, opts ProbeOptions) error {
	pages := paging{f.plan.Paging}
	p.Request = f.shownRequest(ctx, first)
	var last lastReply
	f.seen = last.see
	start := time.Now()
	a, err := f.once(ctx, first)
	p.Took = time.Since(start)
	if err == nil && !a.empty() {
		p.NextPage = pages.following(a, ask, first)
		p.Reply = a.body
		if p.Whole || pages.Style == mapping.PageNone {
			err = f.newPager(f.plan.Paging, ask, x).readFrom(ctx, first, a)
		} else {
			var n, told int
			if n, err = x.Take(a.body); err == nil && n == 0 && pages.tellsEnd() {
				if told, err = pages.told(a); err == nil && told > 0 {
					err = pagingError("the reply tells of %d, but its first page has no records; does the legacy system count pages from 1 (paging.first)?", told)
				}
			}
		}
	}
	if err == nil {
		err = f.probeFurther(ctx, x, p, opts)
	}
	p.Status, p.MediaType = last.status, last.mediaType
	if err != nil {
		p.Refused = last.text()
	}
	return err
}

// probeFurther asks for details and responses, if the list needs any.
func (f *fetcher) probeFurther(ctx context.Context, x *mapping.Explainer, p *Probe, opts ProbeOptions) error {
	details, responses := opts.further()
	if batches := x.DetailBatches(details); len(batches) > 0 {
		subs, err := f.batches(ctx, p.Account, f.plan.Details, batches)
		if err == nil {
			err = x.AddDetails(subs)
		}
		if err != nil {
			return err
		}
	}
	batches := x.Batches(responses)
	if len(batches) == 0 {
		return nil
	}
	subs, err := f.batches(ctx, p.Account, f.plan.Second, batches)
	if err != nil {
		err = asError(err)
	}
	return x.AddResponses(batches, subs, err)
}

// shownRequest is what will be sent, for a person to read. It signs in where that is
// needed, but shows nothing of it.
func (f *fetcher) shownRequest(ctx context.Context, first address.Request) *ProbeRequest {
	r := &ProbeRequest{Method: first.Method, URL: first.URL, Body: first.Body, Headers: map[string]string{}}
	for name, list := range f.http.Header {
		r.Headers[name] = shown(name, strings.Join(list, ", "))
	}
	if r.Headers["Accept"] == mapping.AcceptJSON {
		r.Headers["Accept"] = f.format.Accept
	}
	for name, value := range first.Headers {
		r.Headers[name] = shown(name, value)
	}
	if name, _, err := f.creds.header(ctx, ""); err == nil && name != "" {
		r.Headers[http.CanonicalHeaderKey(name)] = hidden
	}
	return r
}

// shownReply is how many bytes of a refused reply are shown.
const shownReply = 1 << 10

// lastReply keeps how the last response begins; the first one with another status
// than 200 stays. It listens to concurrent requests, and is read after them.
type lastReply struct {
	mu        sync.Mutex
	status    int
	mediaType string
	packed    bool // in a content coding
	begin     *beginning
}

// beginning keeps the first bytes that are written to it.
type beginning []byte

// Write implements io.Writer. It never fails.
func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(shownReply-len(*b), len(p))]...)
	return len(p), nil
}

// see listens to a response.
func (l *lastReply) see(r *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status != 0 && l.status != http.StatusOK {
		return
	}
	l.status, l.mediaType, l.packed, l.begin = r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding") != "", &beginning{}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, l.begin), r.Body}
}

// text is how the response begins, in UTF-8.
func (l *lastReply) text() string {
	if l.begin == nil {
		return ""
	}
	text := []byte(*l.begin)
	if l.packed {
		zip, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return ""
		}
		text = make([]byte, shownReply)
		n, _ := io.ReadFull(zip, text) // as far as it goes
		text = text[:n]
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
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
