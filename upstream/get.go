package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-resty/resty/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/span"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// answer is one good reply. Of its header only what paging is told to look at
// is ever read.
type answer struct {
	body   string // JSON; empty if the status means that there is nothing
	header http.Header
	status int
}

// empty tells whether the status says that there is nothing.
func (a answer) empty() bool { return a.status != http.StatusOK }

// get makes one request, repeated if need be, unless the breaker is open.
func (f *fetcher) get(ctx context.Context, asked address.Request) (answer, error) {
	f.requests.Add(1)
	return f.breaker.do(ctx, func() (answer, error) {
		return f.retried(ctx, func() (answer, error) {
			a, err := f.once(ctx, asked)
			f.hold.obey(f.account, err, f.now())
			return a, err
		})
	})
}

// once makes one request and reads the whole reply. If the credentials may have
// run out it tries again with new ones.
func (f *fetcher) once(ctx context.Context, asked address.Request) (answer, error) {
	for refused := ""; ; {
		name, value, err := f.creds.header(ctx, refused)
		switch {
		case err != nil && ctx.Err() != nil, isCeiling(err):
			return answer{}, classify(ctx, err)
		case err != nil: // does not count for the breaker: the legacy was not asked
			return answer{}, &Error{Failure: FailureUpstream, Reason: "auth", Err: err}
		}
		r := f.request(asked)
		if name != "" {
			r.SetHeader(name, value)
		}
		a, err := f.send(f.classed(ctx), r, asked)
		status := statusError(http.StatusOK)
		if err != nil && !errors.As(err, &status) || !f.creds.refuses(int(status), a.body) {
			return a, err
		}
		if refused != "" || !f.creds.renews(value, f.account) {
			if err == nil {
				err = &Error{Failure: FailureUpstream, Reason: "auth", Err: errEndedAgain}
			}
			return a, err
		}
		refused = value
	}
}

// errEndedAgain is why a 200 is no list.
var errEndedAgain = errors.New("the reply meets auth.renew_if again after a new sign-in")

// request makes the request without credentials.
func (f *fetcher) request(asked address.Request) *resty.Request {
	r := f.http.R().SetDoNotParseResponse(true).SetHeaders(asked.Headers)
	if asked.Method != http.MethodGet {
		r.SetBody(strings.NewReader(asked.Body)) // a reader that net/http can rewind, and knows the length of
		// This name without a value is not sent. It tells net/http that the request may
		// be sent again on a new connection if the legacy has closed the one that it was
		// about to use, as it does for a GET.
		r.Header["Idempotency-Key"] = []string{}
	}
	if f.requestID != "" && validHeader("X-Request-Id", f.requestID) {
		r.SetHeader("X-Request-Id", f.requestID)
	}
	if r.Header.Get("Accept") == "" && f.http.Header.Get("Accept") == mapping.AcceptJSON {
		r.SetHeader("Accept", f.format.Accept)
	}
	return r
}

// send sends a request and reads the whole reply. Its span goes to the legacy as
// traceparent.
func (f *fetcher) send(ctx context.Context, r *resty.Request, asked address.Request) (a answer, err error) {
	if f.tracer != nil {
		var step span.Span
		ctx, step = f.tracer.Force(ctx, asked.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(serverOf(asked)...))
		// A caller's own traceparent cannot get here: the header is made from nothing.
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
		defer func() { endRequest(step, a, err) }()
	}
	resp, err := r.SetContext(ctx).Execute(asked.Method, asked.URL)
	if err != nil {
		return answer{}, classify(ctx, err)
	}
	raw := resp.RawResponse
	if f.seen != nil {
		f.seen(raw)
	}
	if f.format.Empty(raw.StatusCode) {
		discard(raw)
		return answer{header: raw.Header, status: raw.StatusCode}, nil
	}
	body, err := readBody(raw, f.format, f.allowed)
	if err != nil {
		return answer{}, classify(ctx, err)
	}
	return answer{body, raw.Header, raw.StatusCode}, nil
}

// endRequest ends the span of a request.
func endRequest(step span.Span, a answer, err error) {
	defer step.End()
	status := statusError(http.StatusOK)
	if err == nil {
		step.Set(attribute.Int("upstream.body_bytes", len(a.body)))
	} else {
		fail(step, err)
	}
	if a.header != nil || errors.As(err, &status) { // neither after a panic
		step.Set(semconv.HTTPResponseStatusCode(int(status)))
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
