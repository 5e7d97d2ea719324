package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Tracer opens spans of one package. A nil Tracer opens none. It is safe for
// concurrent use.
type Tracer struct{ tracer trace.Tracer }

// NewTracer makes the tracer of the package that scope names. Without a provider it is
// nil.
func NewTracer(p trace.TracerProvider, scope string) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.Tracer(scope)}
}

// Start opens a span below that of ctx, if that one is recorded. Else it costs
// nothing and returns ctx itself and a Span that ignores every call. Compute
// attributes only where the span is Recording.
func (t *Tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, Span) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, Span{}
	}
	return t.StartAlways(ctx, name, opts...)
}

// StartAlways opens a span even where that of ctx is not recorded: for a root, and for a
// request to another system, which is told of the trace in any case.
func (t *Tracer) StartAlways(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, opts...)
	return ctx, Span{s}
}

// Span is one step of a trace. Its zero value ignores every call.
type Span struct{ span trace.Span }

// CurrentSpan is the span of ctx, to link to or to add to.
func CurrentSpan(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// Recording tells whether anybody will see the span.
func (s Span) Recording() bool { return s.span != nil && s.span.IsRecording() }

// Set adds attributes.
func (s Span) Set(attributes ...attribute.KeyValue) {
	if s.span != nil {
		s.span.SetAttributes(attributes...)
	}
}

// Fail marks the span as failed. reason is a word of a fixed set: the text of an
// error may quote another system, and stays out of traces.
func (s Span) Fail(reason string) {
	if s.span != nil {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(reason))
		s.span.SetStatus(codes.Error, reason)
	}
}

// End closes the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Link makes the option that links a new span to this one. Without a sampled span
// it is an option that does nothing: such a link would lead nowhere.
func (s Span) Link() trace.SpanStartOption {
	if s.span == nil || !s.span.SpanContext().IsSampled() {
		return trace.WithLinks()
	}
	return trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()})
}

// In makes ctx carry this span, so that what is opened in ctx stands below it.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}
