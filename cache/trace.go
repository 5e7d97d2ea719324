package cache

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
)

// Spans say what the cache did and why, never for whom: no account, filter, key
// of Redis or content is in any of them.

// scope names the spans of this package.
const scope = "inquiry-gateway/cache"

// newTracer is nil without a provider: then nothing is traced and a look-up
// costs what it would cost without this file.
func newTracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(scope)
}

// records tells whether what happens in ctx belongs to a trace that is recorded.
func (l *Lists) records(ctx context.Context) bool {
	return l.tracer != nil && trace.SpanFromContext(ctx).IsRecording()
}

// tracedGet is get in a span.
func (l *Lists) tracedGet(ctx context.Context, q query) (Result, error) {
	if !l.records(ctx) {
		return l.get(ctx, q)
	}
	ctx, span := l.tracer.Start(ctx, "cache.lookup", trace.WithAttributes(attribute.String("inquiry.kind", kindNames[q.kind])))
	defer span.End()
	r, err := l.get(ctx, q)
	if err != nil {
		fail(span, err)
		return r, err
	}
	span.SetAttributes(attribute.Float64("cache.age_seconds", r.Age.Seconds()), attribute.Float64("cache.ttl_seconds", r.TTL.Seconds()))
	answered(span, r.Outcome, r.Tier)
	return r, nil
}

// tracedPeek is peek in a span that says what use the entry is.
func (l *Lists) tracedPeek(ctx context.Context, i kindIndex, k Key) *Entry {
	if !l.records(ctx) {
		return l.peek(i, k)
	}
	_, span := l.tracer.Start(ctx, "cache.local")
	defer span.End()
	e := l.peek(i, k)
	span.SetAttributes(attribute.String("cache.result", l.useOf(i, e)))
	return e
}

// useOf is what the policy says of an entry at hand.
func (l *Lists) useOf(i kindIndex, e *Entry) string {
	if e == nil {
		return "none"
	}
	if !l.epochs.confirmed(e) {
		return "doubtful" // it may have been purged
	}
	switch l.policy.Load().judge(i, e, l.opts.Now()).state {
	case fresh:
		return "fresh"
	case unusable:
		return "expired"
	}
	return "stale"
}

// look is lookUp in a span: the tier of Redis.
func (l *Lists) look(ctx context.Context, f *flight, m redistier.Mode) (redistier.Reading, bool, error) {
	if !l.records(ctx) {
		return l.lookUp(ctx, f, m)
	}
	ctx, span := l.tracer.Start(ctx, "cache.redis")
	defer span.End()
	r, settled, err := l.lookUp(ctx, f, m)
	result := "none"
	switch {
	case err != nil:
		result = redistier.ResultOf(err)
		span.SetStatus(codes.Error, result)
	case settled:
		result = "served"
	case len(r.Raw) > 0:
		result = "not_served"
	}
	span.SetAttributes(attribute.String("cache.result", result))
	return r, settled, err
}

// tracedContend is contend in a span: who of the fleet fills.
func (l *Lists) tracedContend(ctx context.Context, f *flight) {
	if !l.records(ctx) {
		l.contend(ctx, f)
		return
	}
	ctx, span := l.tracer.Start(ctx, "cache.lease")
	defer span.End()
	l.contend(ctx, f)
	span.SetAttributes(attribute.Bool("cache.lease.won", f.leased), attribute.Bool("cache.lease.waited", f.waited))
}

// startSpan begins the flight's span. That of a refresh is a trace of its own, with
// a link to what caused it: it outlives that, and nobody waits for it.
func (l *Lists) startSpan(ctx context.Context, f *flight) context.Context {
	if l.tracer == nil || !f.background && !l.records(ctx) {
		return ctx
	}
	opts := []trace.SpanStartOption{trace.WithAttributes(attribute.String("inquiry.kind", f.key.Kind), attribute.Bool("cache.background", f.background))}
	if f.background {
		opts = append(opts, trace.WithNewRoot(), linkTo(trace.SpanFromContext(ctx)))
	}
	ctx, f.span = l.tracer.Start(ctx, "cache.flight", opts...)
	return ctx
}

// endSpan ends the span of a flight that is complete.
func (f *flight) endSpan() {
	if f.span == nil {
		return
	}
	defer f.span.End()
	if f.err != nil {
		fail(f.span, f.err)
		return
	}
	answered(f.span, f.outcome, f.tier)
}

// wait is the span of a caller who waits for a flight that another has started,
// with a link to it, since it belongs to the other's trace. The function that it
// returns ends it.
func (l *Lists) wait(ctx context.Context, f *flight, leader bool) (done func()) {
	if leader || !l.records(ctx) {
		return func() {}
	}
	_, span := l.tracer.Start(ctx, "cache.wait", linkTo(f.span))
	return func() {
		if !f.completed() {
			fail(span, ctx.Err())
		}
		span.End()
	}
}

// tracedFill is fillAndStore in a span.
func (l *Lists) tracedFill(ctx context.Context, f *flight, t tag) (*Entry, bool, error) {
	if !l.records(ctx) {
		return l.fillAndStore(ctx, f, t)
	}
	ctx, span := l.tracer.Start(ctx, "cache.fill", trace.WithAttributes(attribute.String("inquiry.kind", f.key.Kind)))
	defer span.End()
	e, stored, err := l.fillAndStore(ctx, f, t)
	if err != nil {
		fail(span, err)
		return e, stored, err
	}
	span.SetAttributes(attribute.Bool("cache.stored", stored), attribute.Int("cache.entry_bytes", e.Size()))
	return e, stored, nil
}

// tracedShare is share in a span of the flight's trace, which may be over: nobody
// waits for it.
func (l *Lists) tracedShare(f *flight, e *Entry, n redistier.Names, leased bool) {
	if f.span == nil {
		l.share(l.life, e, n, leased)
		return
	}
	ctx, span := l.tracer.Start(trace.ContextWithSpan(l.life, f.span), "cache.store")
	defer span.End()
	l.share(ctx, e, n, leased)
}

// answered says how a look-up or a flight ended well; a fill has no tier.
func answered(span trace.Span, o Outcome, tier string) {
	span.SetAttributes(attribute.String("cache.outcome", string(o)))
	if tier != "" {
		span.SetAttributes(attribute.String("cache.tier", tier))
	}
}

// linkTo links to a span, if there is one that is recorded: else the link would
// lead nowhere.
func linkTo(span trace.Span) trace.SpanStartOption {
	if span == nil || !span.SpanContext().IsSampled() {
		return trace.WithLinks()
	}
	return trace.WithLinks(trace.Link{SpanContext: span.SpanContext()})
}

// fail marks a span by a word of a fixed set. The error's text stays out of it:
// it may quote the legacy system.
func fail(span trace.Span, err error) {
	reason := failure(err)
	span.SetAttributes(semconv.ErrorTypeKey.String(reason))
	span.SetStatus(codes.Error, reason)
}

func failure(err error) string {
	switch {
	case errors.Is(err, ErrFillPanicked):
		return fillPanic
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "fill"
}
