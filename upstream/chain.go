package upstream

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/mapping"
)

// This file is the way of one list, from above to below. The list as a whole passes the
// bulkhead, what the legacy has told us to wait, and the breaker. Each of its requests
// passes the repeats, the bulkhead if it is not the only one, the credentials and the
// ceiling, is sent, and its reply is read. The replies are mapped as they come.

// Fetch gets one list from the legacy system, within the deadline of ctx. Each of its
// requests has upstream.timeout besides. The error is always *Error.
func (s *Source) Fetch(ctx context.Context, want Request) (List, error) {
	start := s.opts.Now()
	ask, impossible := s.plan.Ask(want.mapped())
	if impossible {
		return List{Inquiries: []Inquiry{}, AnsweredAt: start, Unasked: true, Fingerprint: s.fingerprint}, nil
	}
	ctx, step := s.tracer.Force(ctx, "upstream.fetch")
	defer step.End()
	if step.Recording() {
		step.Set(attribute.String("inquiry.kind", s.plan.Kind), attribute.String("upstream.breaker", s.breaker.current(want.Account, start).String()),
			attribute.Int("upstream.in_flight", s.bulkhead.count()), attribute.Int("upstream.max_concurrent", s.cfg.MaxConcurrent))
	}
	f := s.newFetch(want)
	list, err := f.admitted(func() (List, error) {
		return f.guarded(ctx, func() (List, error) { return f.list(ctx, ask) })
	})
	endStep(step, len(list.Inquiries), err)
	now := s.opts.Now()
	s.metrics.duration.Observe(now.Sub(start).Seconds())
	if err != nil {
		failed := asError(err)
		s.metrics.requests[failed.Kind.String()].Inc()
		if refused, ok := s.metrics.refused[failed.Reason]; ok {
			refused.Inc()
		}
		s.outage.failed(s.opts.Logger, s.plan.Kind, want.Account, failed, s.breaker.ownFailure(want.Account, s.cfg.Breaker), now)
		return List{}, failed
	}
	s.metrics.requests[resultOK].Inc()
	s.outage.worked(s.opts.Logger, s.plan.Kind, now)
	return list, nil
}

// admitted runs get if the bulkhead, the account's part of it and what the legacy has
// told us to wait allow it.
func (f *fetch) admitted(get func() (List, error)) (List, error) {
	if err := f.bulkhead.enter(f.place(), f.cfg.MaxConcurrent, f.cfg.perAccount()); err != nil {
		return List{}, err
	}
	defer f.bulkhead.leave(f.place())
	if err := f.hold.refuse(f.want.Account, f.opts.Now()); err != nil {
		return List{}, err
	}
	return get()
}

// guarded runs get if the breaker allows it, and the fleet if that makes it a probe.
func (f *fetch) guarded(ctx context.Context, get func() (List, error)) (list List, err error) {
	p, err := f.breaker.admit(f.want.Account, f.terms, f.opts.Now())
	if err != nil {
		return List{}, err
	}
	said := unknown
	if !p.probe {
		defer func() { f.breaker.done(p, said, f.terms, f.opts.Now()) }()
	} else {
		owner, taken := f.lease.take(ctx)
		defer func() {
			// Where it opens for all, the other nodes wait until the lease ends.
			if opened := f.breaker.done(p, said, f.terms, f.opts.Now()); taken && !opened {
				f.lease.end(ctx, owner)
			}
		}()
		if !taken {
			return List{}, notAsked(reasonBreaker, time.Second, "another node finds out whether the legacy is well")
		}
	}
	list, err = get()
	said = verdictOf(err)
	return list, err
}

// fetch is one list on its way. Its requests may be made at the same time.
type fetch struct {
	*Source
	want    Request
	allowed *allowance
	begun   atomic.Bool   // the first request has been made
	free    chan struct{} // a place of the list in which no request is under way
}

func (s *Source) newFetch(want Request) *fetch {
	f := &fetch{Source: s, want: want, allowed: newAllowance(s.cfg.MaxResponseBytes), free: make(chan struct{}, 1)}
	f.free <- struct{}{} // which admitted has taken
	return f
}

// allow tells whether so many bytes more may be held.
func (f *fetch) allow(bytes int64) bool { return f.allowed.take(bytes) == nil }

// place is for whom the list takes places.
func (f *fetch) place() place { return place{f.plan.Kind, f.want.Account} }

// list reads and maps all replies that make up the list. No part of it is older than its
// AnsweredAt, when the first reply was there. The internal ids are removed at the end,
// when all of them are known.
func (f *fetch) list(ctx context.Context, ask mapping.Asking) (list List, err error) {
	defer f.opts.Panics.Catch(func(p any) { list, err = List{}, bug(p) })
	m, pages, err := f.readList(ctx, ask)
	if err == nil {
		err = f.attach(ctx, m)
	}
	if err == nil {
		_, step := f.tracer.Start(ctx, "upstream.guard")
		m.RemoveIDs()
		step.End()
	}
	f.count(m)
	if err != nil {
		return List{}, asError(err)
	}
	return List{Inquiries: m.List, AnsweredAt: pages.answered, Fingerprint: f.fingerprint}, nil
}

// count tells metrics and log what the mapping met, once per list and without
// any of its content. A foreign record is an event of security: the log says whose list
// it was in, not whose it is.
func (f *fetch) count(m *mapping.Builder) {
	log := f.opts.Logger
	for field, n := range m.Skipped {
		f.metrics.invalid[field].Add(float64(n))
		if untold, tell := f.invalid.add(n, f.opts.Now()); tell {
			log.Warn("legacy records refused", "kind", f.plan.Kind, "account", f.want.Account, "field", field, "records", n, "of", m.Seen, "not_told_before", untold)
		}
	}
	m.EachDefaulted(func(field string, n int) { f.metrics.defaulted[field].Add(float64(n)) })
	for field, n := range m.Removed {
		f.metrics.removed[field].Add(float64(n))
		if log.Enabled(context.Background(), slog.LevelDebug) { // most lists have some
			log.Debug("internal ids removed from texts", "kind", f.plan.Kind, "field", field, "ids", n)
		}
	}
	f.metrics.hidden.Add(float64(m.Hidden))
	f.metrics.foreign.Add(float64(m.Foreign))
	if m.Foreign == 0 || f.plan.DropsForeign() {
		return
	}
	if untold, tell := f.foreign.add(m.Foreign, f.opts.Now()); tell {
		log.Error("the legacy sent a record of another account", slog.Group("security",
			"event", "foreign_record", "kind", f.plan.Kind, "account", f.want.Account, "records", m.Foreign, "not_told_before", untold))
	}
}

// call is one request on its way through the chain.
type call struct {
	*fetch
	asked      address.Request
	format     *mapping.Format // of the reply
	credential token           // that identifies the gateway; without a name: none
}

// reply is what came. Of its header only what paging is told to look at is ever read. With
// an error it has nothing but the status, 0 where no reply came.
type reply struct {
	status int
	header http.Header
	body   string         // JSON
	json   jsonwalk.Value // the same, once it was read
	none   bool           // nothing is at the path of its items
}

// empty tells whether the status says that there is nothing.
func (r reply) empty() bool { return r.status != http.StatusOK }

// do makes one request and reads the whole reply. The error is an *Error.
type do func(context.Context, *call) (reply, error)

// chain is the way of one request.
func (s *Source) chain() do { return s.repeated(s.once()) }

// once is the way of one attempt.
func (s *Source) once() do { return s.placed(s.signed(s.bounded(s.send))) }

// repeated repeats what may be, until it succeeds, fails for good, or attempts, budget
// or deadline are used up.
func (s *Source) repeated(next do) do {
	return func(ctx context.Context, c *call) (reply, error) {
		for attempt := 1; ; attempt++ {
			r, err := next(ctx, c)
			if attempt == 1 && verdictOf(err) != unknown { // else it was not sent
				s.budget.deposit()
			}
			if err == nil {
				return r, nil
			}
			e := asError(err)
			s.hold.obey(c.want.Account, e, s.opts.Now())
			reason := repeatable(r, e)
			if reason == "" || attempt >= s.cfg.Attempts {
				return r, e
			}
			// Full jitter, so that callers who failed together do not return together.
			wait := e.Wait + time.Duration(rand.Int64N(int64(20*time.Millisecond)<<min(attempt, 6)))
			// A caller is told to come back rather than kept for longer than an attempt.
			if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait || e.Wait > s.cfg.Timeout || !s.budget.withdraw(1) {
				return r, e
			}
			s.metrics.retries[reason].Inc()
			if step := trace.SpanFromContext(ctx); step.IsRecording() {
				step.AddEvent("retry", trace.WithAttributes(attribute.String("upstream.reason", reason), attribute.Int("upstream.attempt", attempt)))
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return r, e
			}
		}
	}
}

// repeatable says why a failed attempt may be repeated; empty: it may not. One that
// tells us to wait may, when the time that it tells is over. A reply that was cut off or
// too slow is not repeated: the legacy has done the work already and would do it again.
func repeatable(r reply, e *Error) string {
	switch {
	case e.Reason == reasonThrottled && e.Wait > 0:
		return reasonThrottled
	case e.Reason == reasonThrottled:
	case e.Reason == reasonConnect:
		return reasonConnect
	case e.Kind == KindFailed && r.status == http.StatusBadGateway:
		return reason502
	case e.Kind == KindFailed && r.status == http.StatusServiceUnavailable:
		return reason503
	}
	return ""
}

// placed makes a request in the place that the list has. Where all that it has are in use, it
// takes one more, or waits until one of them is free. Half of the places, and of the
// account's, are not taken so: they are for lists that begin.
func (s *Source) placed(next do) do {
	return func(ctx context.Context, c *call) (reply, error) {
		select {
		case <-c.free:
		default:
			if s.bulkhead.enter(c.place(), (s.cfg.MaxConcurrent+1)/2, (s.cfg.perAccount()+1)/2) == nil {
				break
			}
			select {
			case <-c.free:
			case <-ctx.Done():
				return reply{}, classify(ctx, ctx.Err())
			}
		}
		defer func() {
			select {
			case c.free <- struct{}{}:
			default:
				s.bulkhead.leave(c.place())
			}
		}()
		return next(ctx, c)
	}
}

// signed puts the credentials in. If they may have run out it tries again with new ones.
func (s *Source) signed(next do) do {
	return func(ctx context.Context, c *call) (reply, error) {
		for refused := (token{}); ; {
			var err error
			if c.credential, err = s.creds.header(ctx, refused); err != nil {
				if _, known := errors.AsType[*Error](err); known || errors.Is(ctx.Err(), context.Canceled) {
					return reply{}, classify(ctx, err)
				}
				// A deadline, too: the list was not asked for.
				return reply{}, &Error{Kind: KindUnready, Reason: "auth", Err: err}
			}
			r, err := next(ctx, c)
			if err != nil && r.status == http.StatusOK || !s.creds.refuses(r) {
				return r, err
			}
			if refused.made > 0 || !s.creds.renews(c.credential, c.want.Account) {
				if err == nil {
					err = failure(KindUnready, "auth", "the reply meets auth.renew_if again after a new sign-in")
				}
				return r, err
			}
			refused = c.credential
		}
	}
}

// bounded waits for a token of the fleet's ceiling. Once a list is begun the rest of it
// waits as long as it may take: to give up in between would waste what the legacy has done.
func (s *Source) bounded(next do) do {
	return func(ctx context.Context, c *call) (reply, error) {
		class := quota.Asked
		switch {
		case c.begun.Swap(true):
			class = quota.Started
		case c.want.Background:
			class = quota.Background
		}
		if err := s.opts.Ceiling.Wait(ctx, c.want.Account, class); err != nil {
			return reply{}, classify(ctx, notAsked(reasonCeiling, time.Second, "%w", err))
		}
		return next(context.WithValue(ctx, callKey{}, c), c)
	}
}

// callKey is the context's key of the *call that a request belongs to.
type callKey struct{}

// send makes one attempt, which has upstream.timeout from here until its reply is read.
// Its span goes to the legacy as traceparent.
func (s *Source) send(ctx context.Context, c *call) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	out := s.http.R().SetDoNotParseResponse(true).SetHeaders(c.asked.Headers)
	if c.asked.Method != http.MethodGet {
		out.SetBody(strings.NewReader(c.asked.Body)) // a reader that net/http can rewind, and knows the length of
		// This name without a value is not sent. It tells net/http that the request may
		// be sent again on a new connection if the legacy has closed the one that it was
		// about to use, as it does for a GET.
		out.Header["Idempotency-Key"] = []string{}
	}
	if c.want.RequestID != "" && validHeader("X-Request-Id", c.want.RequestID) {
		out.SetHeader("X-Request-Id", c.want.RequestID)
	}
	if out.Header.Get("Accept") == "" && s.http.Header.Get("Accept") == mapping.AcceptJSON {
		out.SetHeader("Accept", c.format.Accept)
	}
	if c.credential.name != "" {
		out.SetHeader(c.credential.name, c.credential.value)
	}
	if s.tracer != nil {
		var step telemetry.Span
		ctx, step = s.tracer.Force(ctx, c.asked.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(serverOf(c.asked)...))
		// A caller's own traceparent cannot get here: the header is made from nothing.
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(out.Header))
		defer func() { endRequest(step, r, err) }()
	}
	resp, err := out.SetContext(ctx).Execute(c.asked.Method, c.asked.URL)
	if err != nil {
		return reply{}, classify(ctx, err)
	}
	raw := resp.RawResponse
	if r.status = raw.StatusCode; c.format.Empty(r.status) {
		discard(raw)
		return reply{status: r.status, header: raw.Header}, nil
	}
	body, err := readBody(raw, c.format, c.allowed, s.opts.Now())
	if err != nil {
		return r, classify(ctx, err)
	}
	return reply{status: r.status, header: raw.Header, body: body}, nil
}

// endRequest ends the span of a request.
func endRequest(step telemetry.Span, r reply, err error) {
	defer step.End()
	if err == nil {
		step.Set(attribute.Int("upstream.body_bytes", len(r.body)))
	} else {
		fail(step, err)
	}
	if r.status != 0 {
		step.Set(semconv.HTTPResponseStatusCode(r.status))
	}
}

// serverOf describes a request by what is the same for all of them: paths,
// queries and bodies hold the account and ids.
func serverOf(asked address.Request) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(asked.Method)}
	u, err := url.Parse(asked.URL)
	if err != nil {
		return attributes
	}
	attributes = append(attributes, semconv.URLScheme(u.Scheme), semconv.ServerAddress(u.Hostname()))
	if port, err := strconv.Atoi(u.Port()); err == nil {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	return attributes
}

// endStep ends a span with how many records its step gave, or with why none.
func endStep(step telemetry.Span, records int, err error) {
	switch {
	case !step.Recording():
	case err != nil:
		fail(step, err)
	default:
		step.Set(attribute.Int("inquiry.records", records))
	}
}

// fail marks a span by the failure's words, which are of fixed sets. The text
// stays out of it.
func fail(step telemetry.Span, err error) {
	e := asError(err)
	step.Set(attribute.String("upstream.failure", e.Kind.String()))
	step.Fail(e.Reason)
}
