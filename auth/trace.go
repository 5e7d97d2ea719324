package auth

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Spans say how authentication ended and how long it took; neither a key nor
// its digest or id is in any of them.

// scope names the spans of this package.
const scope = "inquiry-gateway/auth"

// newTracer is nil without a provider: then nothing is traced.
func newTracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(scope)
}

// traced is authenticate in a span, where a trace is recorded.
func (a *Authenticator) traced(ctx context.Context, authorization []string, from Caller) (Principal, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return a.authenticate(ctx, authorization, from)
	}
	ctx, span := a.tracer.Start(ctx, "auth")
	defer span.End()
	p, err := a.authenticate(ctx, authorization, from)
	if err == nil {
		span.SetAttributes(attribute.String("auth.result", resultOK), attribute.String("auth.key_kind", p.Kind))
		return p, nil
	}
	result := resultOf(err)
	span.SetAttributes(attribute.String("auth.result", result))
	if result == resultUnavailable { // a key that is refused is no failure of ours
		fail(span, result)
	}
	return p, err
}

// tracedAsk is askSafely in a span: the question to a remote store, in the trace
// of the first caller who needs the answer.
func (r *cachedStore) tracedAsk(ctx context.Context, c Credential) (*Grant, error) {
	if r.tracer == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return r.askSafely(ctx, c)
	}
	ctx, span := r.tracer.Start(ctx, "auth.lookup", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("auth.store", r.name)))
	defer span.End()
	grant, err := r.askSafely(ctx, c)
	result := lookupResult(err)
	span.SetAttributes(attribute.String("auth.result", result))
	if result != lookupFound && result != lookupUnknown {
		fail(span, result)
	}
	return grant, err
}

// fail marks a span by a word of a fixed set.
func fail(span trace.Span, reason string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(reason))
	span.SetStatus(codes.Error, reason)
}
