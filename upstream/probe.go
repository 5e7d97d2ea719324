package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// Probe reads one reply, from the legacy or saved, and explains it. Filters are
// sent but not applied. Neither breaker nor retries come into it. The error is
// for a kind or account that makes no request; everything that is wrong with the
// reply is in the result.
func (c *Client) Probe(ctx context.Context, want Request, opts ProbeOptions) (*Probe, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return nil, errors.New("the kind must be buyer or seller")
	}
	p := &Probe{Kind: want.Kind, Account: want.Account, Owner: ProbeOwner{
		Path: strings.Join(e.plan.ownerPaths, ", "), Missing: []int{}, Foreign: []int{},
	}}
	body := string(opts.Sample)
	if opts.Sample == nil {
		var err error
		if body, err = c.probeRequest(ctx, e, want, p); err != nil {
			return nil, err
		}
		if p.Problem != "" {
			return p, nil
		}
	}
	if p.Bytes = len(body); int64(p.Bytes) > c.maxBytes {
		p.Problem = invalid("too_large", "the reply has more than %d bytes", c.maxBytes).Error()
		return p, nil
	}
	if opts.Records == 0 {
		opts.Records = 3
	}
	x := newProber(p, e.plan, opts.Records)
	x.read(body)
	if opts.Sample == nil {
		c.probeSecond(ctx, e, x)
	}
	return p, nil
}

// probeSecond makes the second request for the first inquiry, so that its
// mapping can be seen, too.
func (c *Client) probeSecond(ctx context.Context, e *endpoint, x *prober) {
	if x.firstID == "" || len(x.Records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	f := &fetcher{Client: c, endpoint: e}
	f.left.Store(c.maxBytes)
	p := e.plan.responses.fetch
	field := ProbeField{Field: "responses", Path: p.idPath + " = " + x.firstID}
	sub, err := f.secondCall(ctx, p, x.Account, []string{x.firstID})
	switch {
	case err != nil:
		field.Problem = err.Error()
	case sub.broken.why != "":
		field.Field, field.Problem = sub.broken.field, sub.broken.why
	default:
		field.Mapped = summary(sub.responses)
	}
	if field.Problem != "" {
		x.Violations = append(x.Violations, ProbeViolation{x.firstNumber, field.Field, field.Problem})
	}
	x.Records[0].Fields = append(x.Records[0].Fields, field)
}

// probeRequest makes the first request of a fetch.
func (c *Client) probeRequest(ctx context.Context, e *endpoint, want Request, p *Probe) (string, error) {
	values := vars{varAccount: {want.Account}}
	values[varStatus], _ = e.plan.byStatus.ask(want.Status)
	values[varType], _ = e.plan.byType.ask(want.InquiryType)
	address, err := e.plan.request.url(values)
	if err != nil {
		return "", err
	}
	address = e.plan.paging.start(address)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	p.Request = &ProbeRequest{Method: http.MethodGet, URL: address, Headers: map[string]string{}}
	for name, list := range c.http.Header {
		p.Request.Headers[name] = shown(name, strings.Join(list, ", "))
	}
	if name, _, err := c.creds.header(ctx); err == nil && name != "" {
		p.Request.Headers[http.CanonicalHeaderKey(name)] = hidden
	}
	start := time.Now()
	a, err := (&fetcher{Client: c, endpoint: e, requestID: want.RequestID}).once(ctx, address)
	p.Took = time.Since(start)
	var status statusError
	switch {
	case errors.As(err, &status):
		p.Status, p.Problem = int(status), err.Error()
	case err != nil:
		p.Problem = err.Error()
	default:
		p.Status = http.StatusOK
		p.NextPage = e.plan.paging.following(a, address)
	}
	return a.body, nil
}

const hidden = "(hidden)"

// shown hides what may be a secret, which is every header that this package did
// not make up itself.
func shown(name, value string) string {
	switch name {
	case "Accept", "Accept-Encoding", "Via", "User-Agent":
		return value
	}
	return hidden
}

// start gives the address of the first page.
func (p *pagingPlan) start(address string) string {
	address = p.sized(address)
	if p.style == pagePage || p.style == pageOffset {
		address = p.address(address, 0, 0)
	}
	return address
}

// following says for a person where the list goes on, or why it cannot.
func (p *pagingPlan) following(a answer, address string) (next string) {
	var err error
	switch {
	case p.style == pageCursor || p.style == pageNext || p.style == pageLink:
		next, err = p.next(a, address, address)
	case p.tellsEnd():
		var told int
		told, err = p.told(a)
		next = itoa(told) + " pages in all"
		if p.tellsRecords() {
			next = itoa(told) + " records in all"
		}
	case p.style == pagePage || p.style == pageOffset:
		return "until a page is the last"
	}
	if err != nil {
		return "nowhere: " + err.Error()
	}
	return next
}

// prober reads a reply record by record.
type prober struct {
	*Probe
	plan    *endpointPlan
	lenient *endpointPlan // the same, but nothing ends it early
	want    Request
	show    int

	firstID     string // of the first record that can be mapped, for its second request
	firstNumber int
}

// newProber prepares a plan that goes on where the real one stops, because a
// person wants to see every mistake at once.
func newProber(p *Probe, plan *endpointPlan, show int) *prober {
	lenient := *plan
	lenient.owner, lenient.skipInvalid = nil, true
	p.Records, p.Violations, p.InternalIDs, p.Unused = []ProbeRecord{}, []ProbeViolation{}, []ProbeID{}, []ProbeUnused{}
	return &prober{Probe: p, plan: plan, lenient: &lenient, want: Request{Kind: p.Kind, Account: p.Account}, show: show}
}

// read explains a whole reply.
func (x *prober) read(body string) {
	body = strings.TrimPrefix(body, "\ufeff")
	if err := newReply(x.lenient, x.want).collect(body); err != nil {
		x.Problem = err.Error()
		return
	}
	items := jsonwalk.Lookup(body, x.plan.itemsPath)
	var list []Inquiry
	var numbers []int
	shapes := map[string]uint8{}
	items.Each(func(item jsonwalk.Value) bool {
		x.Items++
		if inq, ok := x.record(item.Raw); ok {
			list, numbers = append(list, inq), append(numbers, x.Items)
		}
		jsonwalk.WalkShape(item.Raw, func(path []byte, k jsonwalk.Kind) { shapes[string(path)] |= 1 << k })
		return true
	})
	x.quotes(list, numbers, items)
	x.unused(shapes)
}

// record maps one record and notes everything about it.
func (x *prober) record(raw string) (Inquiry, bool) {
	if !strings.HasPrefix(raw, "{") {
		x.violate("record", whyObject)
		return Inquiry{}, false
	}
	r := newReply(x.lenient, x.want)
	if err := r.walk("["+raw+"]", x.lenient.records, frameRecord); err != nil {
		x.violate("record", err.Error())
		return Inquiry{}, false
	}
	x.checkOwner(r)
	fields := x.fields(r, raw)
	if x.Items <= x.show {
		x.Records = append(x.Records, ProbeRecord{x.Items, fields})
	}
	for _, f := range fields {
		if f.Problem != "" {
			x.violate(f.Field, f.Problem)
		}
	}
	if len(r.list) == 0 {
		return Inquiry{}, false
	}
	if x.firstID == "" && len(r.fetchIDs) > 0 {
		x.firstID, x.firstNumber = r.fetchIDs[0], x.Items
	}
	return r.list[0], true
}

// violate notes a reason to refuse the record that is being read.
func (x *prober) violate(field, problem string) {
	x.Violations = append(x.Violations, ProbeViolation{x.Items, field, problem})
}

// checkOwner notes whose record it is, by its number only.
func (x *prober) checkOwner(r *reply) {
	if x.plan.owner == nil {
		return
	}
	v := firstOf(x.plan.owner, r.walker.Frame(frameRecord))
	switch {
	case !v.Present() || !v.Scalar():
		x.Owner.Missing = append(x.Owner.Missing, x.Items)
	case v.String() == x.want.Account:
		x.Owner.Matches++
	default:
		x.Owner.Foreign = append(x.Owner.Foreign, x.Items)
	}
}

// quotes finds the texts that had ids in them.
func (x *prober) quotes(list []Inquiry, numbers []int, items jsonwalk.Value) {
	for _, path := range x.plan.idPaths {
		if path == keyPath {
			continue
		}
		id := ProbeID{Path: path, Quoted: []string{}}
		var set leakguard.Set
		items.Each(func(item jsonwalk.Value) bool {
			jsonwalk.Lookup(item.Raw, path).Scalars(func(text string) { id.Found++; set.Add(text) })
			return true
		})
		for i := range list {
			one := &reply{plan: x.plan, ids: set, list: []Inquiry{cloneInquiry(list[i])}}
			one.sweep()
			for field := range one.removed {
				id.Quoted = append(id.Quoted, "record "+itoa(numbers[i])+" "+field)
			}
		}
		slices.Sort(id.Quoted)
		x.InternalIDs = append(x.InternalIDs, id)
	}
}

// cloneInquiry keeps the guard from changing what the next path of ids is
// tried on.
func cloneInquiry(inq Inquiry) Inquiry {
	inq.Responses = slices.Clone(inq.Responses)
	return inq
}
