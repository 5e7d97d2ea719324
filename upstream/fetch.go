package upstream

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/mapping"
)

// fetch is one list on its way. Its requests may be made at the same time.
type fetch struct {
	endpoint *endpoint
	want     Request
	admitted func() // releases the place of the first request; nil once that is made, before any goroutine begins
	allowed  *allowance
}

func (s *endpoint) newFetch(want Request) *fetch {
	f := &fetch{endpoint: s, want: want}
	f.restart()
	return f
}

// restart forgets the replies so far. When the fetch ends f.allowed.release must be called.
func (f *fetch) restart() {
	if f.allowed != nil {
		f.allowed.release()
	}
	f.allowed = newAllowance(f.endpoint.cfg.MaxResponseBytes, &f.endpoint.places.bytes)
}

func (f *fetch) accountKey() accountKey { return accountKey{f.endpoint.plan.Kind, f.want.Account} }

// Fetch gets one list from the legacy system, within the deadline of ctx. Each of its
// requests has upstream.timeout besides. The error is always *Error.
func (c *Client) Fetch(ctx context.Context, want Request) (list List, err error) {
	s, ok := c.endpoints[want.Kind]
	if !ok {
		return List{}, failure(reasonBug, "the configuration has no list of the kind %q", want.Kind)
	}
	start := s.opts.Now()
	ask, impossible := s.plan.Request(s.query(want))
	if impossible {
		return List{Inquiries: []Inquiry{}, AnsweredAt: start, Unasked: true, Fingerprint: s.fingerprint}, nil
	}
	ctx, step := s.tracer.StartAlways(ctx, "upstream.fetch")
	defer step.End()
	if step.Recording() {
		step.Set(attribute.String("inquiry.kind", want.Kind), attribute.String("upstream.breaker", s.breaker.stateFor(want.Account).String()),
			attribute.Int("upstream.in_flight", int(s.places.inFlight.Load())), attribute.Int("upstream.max_concurrent", s.cfg.MaxConcurrent))
	}
	f := s.newFetch(want)
	defer func() { f.allowed.release() }()
	if unaskable := s.askable(ask, s.query(want)); unaskable != nil { // for good, whatever else is wrong now
		err = unaskable
	} else if leave, refused := f.admit(); refused != nil {
		err = refused
	} else {
		list, err = f.list(ctx, ask)
		leave(err)
	}
	endStep(step, len(list.Inquiries), err)
	return list, f.count(err, start)
}

// admit admits the list, or says why not: there is no place for its first request, or the breaker is open.
// Without an error, leave must be called with what came of the list.
func (f *fetch) admit() (leave func(error), err error) {
	release, err := f.endpoint.places.tryAcquire(f.accountKey())
	if err != nil {
		return nil, err
	}
	done, err := f.endpoint.breaker.allow(f.want.Account, f.want.Failing)
	if err != nil {
		release()
		return nil, err
	}
	f.admitted = release
	return func(err error) {
		done(err)
		if f.admitted != nil { // no request was made
			f.admitted()
		}
	}, nil
}

// list reads and maps all replies that make up the list. AnsweredAt is when its first page was there. All other replies came
// later, except those that were kept for records whose version has not changed. The internal ids are removed at the end, when all
// of them are known.
func (f *fetch) list(ctx context.Context, ask mapping.PagedRequest) (list List, err error) {
	s := f.endpoint
	defer s.opts.Panics.Catch(func(p any) { list, err = List{}, bug(p) })
	var m *mapping.Builder
	all, err := f.whole(ctx, func() *pages {
		f.restart()
		m = s.plan.NewBuilder(s.query(f.want))
		m.Allow = f.allow
		return f.newPages(&s.plan.Replies, ask, m)
	})
	if err == nil {
		err = f.attach(ctx, m)
	}
	if err == nil {
		_, step := s.tracer.Start(ctx, "upstream.guard")
		m.RemoveIDs()
		step.End()
	}
	if refused := f.allowed.refusal(); refused != nil { // which the mapping does not know
		err = refused
	}
	f.countRecords(m)
	if err != nil {
		return List{}, asError(err)
	}
	return List{Inquiries: m.List, AnsweredAt: all.answered, Fingerprint: s.fingerprint}, nil
}

// whole reads all pages of what begin prepares. What changed meanwhile is read once more, as far
// as the budget of repeats and the time of the request allow it.
func (f *fetch) whole(ctx context.Context, begin func() *pages) (p *pages, err error) {
	for start, changed := time.Now(), error(nil); ; {
		p = begin()
		err = p.read(ctx)
		if changed != nil && err != nil && ctx.Err() != nil {
			err = changed // there was no time for the second reading
		}
		if err == nil || changed != nil || asError(err).Reason != mapping.ReasonChanged {
			return p, err
		}
		deadline, bounded := ctx.Deadline()
		if bounded && time.Until(deadline) <= time.Since(start) || !f.endpoint.guard.budget.withdraw() {
			return p, err
		}
		changed = err
		f.endpoint.metrics.retries[mapping.ReasonChanged].Inc()
	}
}

// allow tells whether so many bytes more may be in memory.
func (f *fetch) allow(bytes int64) bool { return f.allowed.take(bytes) == nil }

// count tells metrics and log what came of a fetch. What it returns is nil or an *Error.
func (f *fetch) count(err error, start time.Time) error {
	s, now := f.endpoint, f.endpoint.opts.Now()
	s.metrics.duration.Observe(now.Sub(start).Seconds())
	if err == nil {
		s.metrics.requests[meaning{result: ResultOK}].Inc()
		s.guard.incidents.recordList(f.want.Account, now)
		return nil
	}
	failed := asError(err)
	s.metrics.requests[meaning{failed.Failure(), failed.Result(), noVerdict}].Inc()
	if refused, ok := s.metrics.refused[failed.Reason]; ok {
		refused.Inc()
	}
	s.guard.incidents.recordFailure(f.want, failed, now)
	return failed
}

// countRecords tells metrics and log what the mapping met, once per list and without
// any of its content. A foreign record is an event of security: the log says whose list
// it was in, not whose it is.
func (f *fetch) countRecords(m *mapping.Builder) {
	s, log, now := f.endpoint, f.endpoint.opts.Logger, f.endpoint.opts.Now()
	for field, n := range m.Skipped {
		s.metrics.invalid[field].Add(float64(n))
		if all := s.guard.invalid.add(f.want.Account, n, now); all != nil {
			log.Warn("legacy records refused", append([]any{"kind", s.plan.Kind, "account", f.want.Account, "field", field, "records", n, "of", m.Seen}, all...)...)
		}
	}
	m.EachDefaulted(func(field string, n int) { s.metrics.defaulted[field].Add(float64(n)) })
	for field, n := range m.Removed {
		s.metrics.removed[field].Add(float64(n))
		if log.Enabled(context.Background(), slog.LevelDebug) { // most lists have some
			log.Debug("internal ids removed from texts", "kind", s.plan.Kind, "field", field, "ids", n)
		}
	}
	s.metrics.hidden.Add(float64(m.Hidden))
	s.metrics.foreign.Add(float64(m.Foreign))
	if m.Foreign == 0 || s.plan.DropsForeign() {
		return
	}
	if all := s.guard.foreign.add(f.want.Account, m.Foreign, now); all != nil {
		log.Error("the legacy sent a record of another account", slog.Group("security",
			append([]any{"event", "foreign_record", "kind", s.plan.Kind, "account", f.want.Account, "records", m.Foreign}, all...)...))
	}
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
	step.Set(attribute.String("upstream.failure", string(e.Failure())))
	step.Fail(e.Reason)
}
