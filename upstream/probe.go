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

// Probe reads a list, from the legacy or saved, and explains it. Filters are
// sent but not applied. Neither breaker nor bulkhead come into it, and the first request
// is made once. The error is for a kind or account that makes no request; everything
// that is wrong with the reply is in the result.
func (c *Client) Probe(ctx context.Context, want Request, opts ProbeOptions) (*Probe, error) {
	s, ok := c.sources[want.Kind]
	if !ok {
		return nil, fmt.Errorf("the configuration has no upstream.%s", want.Kind)
	}
	x := s.plan.Explainer(want, cmp.Or(opts.Records, 3))
	ask, impossible := s.plan.Ask(want)
	p := &Probe{Kind: want.Kind, Account: want.Account, Unasked: impossible, Whole: opts.Whole && opts.Sample == nil}
	f := s.newFetch(want)
	f.keepResponses = math.MaxInt
	pages := f.newPager(s.plan.Paging, ask, &s.plan.Format, x)
	first, err := ask.Page(pages.values(0, 0))
	switch {
	case opts.Sample != nil:
		err = f.probeSample(x, p, opts.Sample)
	case err != nil:
		return nil, err
	default:
		err = f.probe(ctx, pages, first, x, p)
	}
	if err != nil {
		p.Problem = asError(err).Error()
		if refused, ok := errors.AsType[*mapping.Error](err); ok {
			p.Found = refused.Found
		}
	}
	hide := c.cfg.Hider()
	for _, text := range []*string{&p.Problem, &p.Found, &p.Refused, &p.NextPage} {
		*text = hide(*text)
	}
	if p.Request != nil {
		p.Request.URL, p.Request.Body = hide(p.Request.URL), hide(p.Request.Body)
	}
	x.Finish()
	p.Explanation = x.Explanation
	if p.Problem == "" && (p.Reply != "" || opts.Sample != nil) {
		p.Served = x.Served()
	}
	return p, nil
}

// probeSample explains a saved reply.
func (f *fetch) probeSample(x *mapping.Explainer, p *Probe, sample []byte) (err error) {
	if p.Reply, err = f.plan.Format.Decode(string(sample), "", f.cfg.MaxResponseBytes); err != nil {
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

// probe makes the requests of a fetch, or the first of each sort.
func (f *fetch) probe(ctx context.Context, pages *pager, first address.Request, x *mapping.Explainer, p *Probe) error {
	p.Request = f.shownRequest(ctx, first)
	var last lastReply
	f.seen = last.see
	start := time.Now()
	r, err := f.signed(f.bounded(f.send))(ctx, &call{fetch: f, asked: first, format: pages.format})
	p.Took = time.Since(start)
	if err == nil && !r.empty() {
		p.NextPage, p.Reply = pages.following(r, pages.ask, first), r.body
		if p.Whole || pages.Style == mapping.PageNone {
			err = pages.readFrom(ctx, first, r)
		} else {
			err = pages.firstOnly(r)
		}
	}
	if err == nil {
		err = f.probeFurther(ctx, x, p.Whole)
	}
	p.Status, p.MediaType = last.status, last.mediaType
	if err != nil {
		p.Refused = last.text()
	}
	return err
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
	probedDetails   = 10
	probedResponses = 1
)

// probeFurther asks for details and responses, if the list needs any.
func (f *fetch) probeFurther(ctx context.Context, x *mapping.Explainer, whole bool) error {
	details, responses := probedDetails, probedResponses
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
	return x.AddResponses(batches, replies, err)
}

// shownRequest is what will be sent, for a person to read. It signs in where that is
// needed, but shows nothing of it.
func (f *fetch) shownRequest(ctx context.Context, first address.Request) *ProbeRequest {
	r := &ProbeRequest{Method: first.Method, URL: first.URL, Body: first.Body, Headers: map[string]string{}}
	for name, list := range f.http.Header {
		r.Headers[name] = shown(name, strings.Join(list, ", "))
	}
	if r.Headers["Accept"] == mapping.AcceptJSON {
		r.Headers["Accept"] = f.plan.Format.Accept
	}
	for name, value := range first.Headers {
		r.Headers[name] = shown(name, value)
	}
	if name, _, err := f.creds.header(ctx, ""); err == nil && name != "" {
		r.Headers[http.CanonicalHeaderKey(name)] = address.Hidden
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

// shown hides what may be a secret, which is every header that this package did
// not make up itself.
func shown(name, value string) string {
	switch name {
	case "Accept", "Accept-Encoding", "Content-Type", "Via", "User-Agent":
		return value
	}
	return address.Hidden
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
