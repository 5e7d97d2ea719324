package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Spans say where the time of a fetch goes. As in the errors (see redact.go), no
// address but the host is in them: paths and queries hold the account and ids.

// scope names the spans of this package.
const scope = "inquiry-gateway/upstream"

// newTracer is nil without a provider: then nothing is traced, and nothing of it
// is sent.
func newTracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(scope)
}

// fetch is admitted in a span.
func (c *Client) fetch(ctx context.Context, e *endpoint, want Request, values vars) (List, error) {
	if c.tracer == nil {
		return c.admitted(ctx, e, want, values)
	}
	ctx, span := c.tracer.Start(ctx, "upstream.fetch", trace.WithAttributes(
		attribute.String("inquiry.kind", e.plan.kind), attribute.String("upstream.breaker", e.breaker.cb.State().String()),
		attribute.Int("upstream.in_flight", c.bulkhead.count()), attribute.Int("upstream.max_concurrent", c.cfg.MaxConcurrent),
	))
	defer span.End()
	list, err := c.admitted(ctx, e, want, values)
	if err != nil {
		fail(span, err)
		return list, err
	}
	span.SetAttributes(attribute.Int("inquiry.records", len(list.Inquiries)))
	return list, nil
}

// exchange is send in a client's span, which goes to the legacy as traceparent.
func (f *fetcher) exchange(ctx context.Context, address, header, value string) (answer, error) {
	if f.tracer == nil {
		return f.send(ctx, address, header, value)
	}
	ctx, span := f.tracer.Start(ctx, http.MethodGet, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(serverOf(address)...))
	defer span.End()
	a, err := f.send(ctx, address, header, value)
	var status statusError
	switch {
	case err == nil:
		span.SetAttributes(semconv.HTTPResponseStatusCode(http.StatusOK), attribute.Int("upstream.body_bytes", len(a.body)))
	case errors.As(err, &status):
		span.SetAttributes(semconv.HTTPResponseStatusCode(int(status)))
		fallthrough
	default:
		fail(span, err)
	}
	return a, err
}

// carry puts the context's span into the header of a request. A caller's own
// traceparent cannot get here: the header is made from nothing.
func (f *fetcher) carry(ctx context.Context, header http.Header) {
	if f.tracer != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

// serverOf describes a request by what is the same for all of them.
func serverOf(address string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.HTTPRequestMethodGet}
	u, err := url.Parse(address)
	if err != nil {
		return attributes
	}
	attributes = append(attributes, semconv.URLScheme(u.Scheme), semconv.ServerAddress(u.Hostname()))
	if port, err := strconv.Atoi(u.Port()); err == nil {
		attributes = append(attributes, semconv.ServerPort(port))
	}
	return attributes
}

// records tells whether what happens in ctx belongs to a trace that is recorded.
// Fetches and requests have a span in any case: the legacy is told of it.
func (c *Client) records(ctx context.Context) bool {
	return c.tracer != nil && trace.SpanFromContext(ctx).IsRecording()
}

// mapped is a sink with a span for each reply of the list that it takes.
func (c *Client) mapped(ctx context.Context, take sink) sink {
	if !c.records(ctx) {
		return take
	}
	return func(body string) (int, error) {
		_, span := c.tracer.Start(ctx, "upstream.map")
		defer span.End()
		n, err := take(body)
		span.SetAttributes(attribute.Int("inquiry.records", n))
		if err != nil {
			fail(span, err)
		}
		return n, err
	}
}

// responses is secondCalls in a span around theirs.
func (f *fetcher) responses(ctx context.Context, r *reply) error {
	if !f.records(ctx) || r.plan.responses == nil || r.plan.responses.fetch == nil {
		return f.secondCalls(ctx, r)
	}
	ctx, span := f.tracer.Start(ctx, "upstream.responses")
	defer span.End()
	err := f.secondCalls(ctx, r)
	if err != nil {
		fail(span, err)
	}
	return err
}

// guarded is the reply's sweep in a span.
func (c *Client) guarded(ctx context.Context, r *reply) {
	if c.records(ctx) {
		_, span := c.tracer.Start(ctx, "upstream.guard")
		defer span.End()
	}
	r.sweep()
}

// noteRetry is an event of the fetch that is going to repeat a request.
func noteRetry(ctx context.Context, reason string, attempt int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("retry", trace.WithAttributes(attribute.String("upstream.reason", reason), attribute.Int("upstream.attempt", attempt)))
	}
}

// fail marks a span by the failure's words, which are of fixed sets. The text
// stays out of it.
func fail(span trace.Span, err error) {
	e := asError(err)
	span.SetAttributes(semconv.ErrorTypeKey.String(e.Reason), attribute.String("upstream.failure", string(e.Failure)))
	span.SetStatus(codes.Error, e.Reason)
}
