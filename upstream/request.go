package upstream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/ceiling"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/mapping"
)

// reply is a reply of the legacy system. Only paging reads its header. Beside an error only status is set, 0 if no reply
// came, and the body of a 500 or of a SOAP fault.
type reply struct {
	status int
	header http.Header
	body   string         // JSON
	json   jsontree.Value // the same, once it was read
	none   bool           // nothing is at the path of its items
	denied *Error         // the error if it does not fit the mapping: the credential was rejected
	empty  bool           // its status, or reply.empty_if, says that there is nothing
}

// request makes one request and reads the whole reply. It is sent again, up to upstream.attempts in
// all, if that may help, and once more with a new credential if the legacy system rejects its own. The
// error is an *Error.
func (f *fetch) request(ctx context.Context, asked address.Request, format *mapping.Format) (reply, error) {
	s, rejected := f.endpoint, token{}
	begin := s.opts.Now()
	for attempt := 1; ; {
		release, priority, err := f.place(ctx)
		if err != nil {
			return reply{}, err
		}
		used, err := s.network.creds.header(ctx, rejected, s.cfg.Timeout)
		if err == nil {
			err = s.waitForCeiling(ctx, f.want.Kind+":"+f.want.Account, priority)
		}
		if err != nil {
			release()
			return reply{}, err
		}
		r, err := func() (reply, error) {
			defer release() // also after a panic
			return f.send(ctx, asked, format, used)
		}()
		if attempt == 1 && rejected.number == 0 {
			s.guard.budget.deposit()
		}
		if why, definite := s.network.creds.whyRejected(r, err, used, format); why != nil {
			switch {
			case rejected.number == 0 && s.network.creds.mayRenew(used):
				rejected = used
				continue
			case definite && err == nil && !used.made.Before(begin): // renew_if, right after a sign-in: the list may be as it says
				r.denied = s.network.creds.rejectedError(used, why)
				return r, nil
			case definite:
				return r, s.network.creds.rejectedError(used, why)
			}
		}
		if err == nil {
			s.network.creds.recordAccepted(used)
			return r, nil
		}
		e := asError(err)
		// Full jitter, so that callers who failed together do not return together.
		wait := e.Wait + time.Duration(rand.Int64N(int64(20*time.Millisecond)<<min(attempt, 6)))
		reason := f.repeats(ctx, r, e, attempt, wait)
		if reason == "" {
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
		attempt++
	}
}

// repeats returns why a request that failed is sent again after wait, and withdraws the repeat from the budget; empty: it
// is not sent again. After a reply that was cut off or too slow it is not: the legacy system has done the work and would do
// it again. A Retry-After of more than upstream.timeout is left to the caller.
func (f *fetch) repeats(ctx context.Context, r reply, e *Error, attempt int, wait time.Duration) (reason string) {
	s := f.endpoint
	switch {
	case e.Wait > 0 && (e.Reason == reasonThrottled || e.Reason == reasonOverloaded), e.Reason == reasonConnect:
		reason = e.Reason
	case e.Reason == reason5xx && r.status == http.StatusBadGateway:
		reason = reason502
	case e.Reason == reason5xx && r.status == http.StatusServiceUnavailable:
		reason = reason503
	default:
		return ""
	}
	deadline, bounded := ctx.Deadline()
	if attempt >= s.cfg.Attempts || e.Wait > s.cfg.Timeout || bounded && time.Until(deadline) <= wait || !s.guard.budget.withdraw() {
		return ""
	}
	return reason
}

// place returns the place that the list was admitted with for its first request, and waits for a free one for each later request.
// The ceiling may refuse the first request at once; later ones wait until the list's deadline, because giving up then would
// waste what has been fetched.
func (f *fetch) place(ctx context.Context) (release func(), priority ceiling.Priority, err error) {
	if f.admitted == nil {
		release, err = f.endpoint.places.acquire(ctx, f.accountKey())
		return release, ceiling.Continuation, err
	}
	release, f.admitted = f.admitted, nil
	if f.want.Background {
		return release, ceiling.Background, nil
	}
	return release, ceiling.Interactive, nil
}

// waitForCeiling waits until the fleet may send one more request.
func (s *endpoint) waitForCeiling(ctx context.Context, account string, priority ceiling.Priority) error {
	if err := s.opts.Ceiling.Wait(ctx, account, priority); err != nil {
		return classify(ctx, notAsked(reasonCeiling, time.Second, "%w", err))
	}
	return nil
}

// send makes one attempt. upstream.timeout bounds it until its reply has been read. Its span goes to the legacy system
// as traceparent.
func (f *fetch) send(ctx context.Context, asked address.Request, format *mapping.Format, credential token) (r reply, err error) {
	s := f.endpoint
	out := s.http.R().SetDoNotParseResponse(true).SetHeaders(asked.Headers)
	if asked.Method != http.MethodGet {
		out.SetBody(strings.NewReader(asked.Body)) // a reader that net/http can rewind, and knows the length of
		// This name without a value is not sent. It tells net/http that the request may
		// be sent again on a new connection if the legacy has closed the one that it was
		// about to use, as it does for a GET.
		out.Header["Idempotency-Key"] = []string{}
	}
	if f.want.RequestID != "" && address.ValidHeader("X-Request-Id", f.want.RequestID) {
		out.SetHeader("X-Request-Id", f.want.RequestID)
	}
	if out.Header.Get("Accept") == "" && s.http.Header.Get("Accept") == mapping.AcceptJSON {
		out.SetHeader("Accept", format.Accept)
	}
	if credential.name != "" {
		out.SetHeader(credential.name, credential.value)
	}
	if s.tracer != nil {
		var step telemetry.Span
		ctx, step = s.tracer.StartAlways(ctx, asked.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(serverOf(asked)...))
		// A caller's own traceparent cannot get here: the header is made from nothing.
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(out.Header))
		defer func() { endRequest(step, r, err) }()
	}
	resp, err := out.SetContext(ctx).Execute(asked.Method, asked.URL)
	if err != nil {
		return reply{}, classify(ctx, err)
	}
	raw := resp.RawResponse
	if raw.StatusCode == http.StatusPartialContent && format.Pages {
		raw.StatusCode = http.StatusOK // a page of a list, as PostgREST says
	}
	if r.status = raw.StatusCode; format.Empty(r.status) {
		discard(raw)
		return reply{status: r.status, header: raw.Header, empty: true}, nil
	}
	body, err := readBody(raw, format, f.allowed, s.opts.Now())
	if fault := isFault(err); (err == nil || fault) && format.EmptyIf.Any(body, fault) {
		return reply{status: r.status, header: raw.Header, empty: true}, nil
	}
	if err != nil {
		r.body = body
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

// serverOf returns span attributes that are the same for all requests: paths, queries and bodies hold the account and ids.
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
