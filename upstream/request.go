package upstream

import (
	"context"
	"errors"
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

// reply is what came. Of its header nothing is read but what paging needs. With an error it has
// nothing but the status, 0 where no reply came, and the body of a SOAP fault.
type reply struct {
	status int
	header http.Header
	body   string         // JSON
	json   jsontree.Value // the same, once it was read
	none   bool           // nothing is at the path of its items
	empty  bool           // its status, or reply.empty_if, says that there is nothing
}

// request makes one request and reads the whole reply. It is sent again, up to upstream.attempts
// in all, where that may help, and once more with a new credential where the legacy rejects the
// one that it had. The error is an *Error.
func (f *fetch) request(ctx context.Context, asked address.Request, format *mapping.Format) (reply, error) {
	s, account := f.endpoint, f.want.Account
	rejected := token{}
	for attempt := 1; ; {
		used, err := f.prepare(ctx, rejected)
		if err != nil {
			return reply{}, err
		}
		r, err := f.send(ctx, asked, format, used)
		if attempt == 1 && rejected.made == 0 && verdictOf(err) != saysNothing {
			s.guard.budget.deposit()
		}
		if why, configured := s.network.creds.rejection(r, err); why != nil {
			if rejected.made == 0 && s.network.creds.mayRenew(used, account, configured) {
				rejected = used
				continue
			}
			return r, s.network.creds.denied(used, why)
		}
		if err == nil {
			s.network.creds.noteGood(used)
			return r, nil
		}
		e := asError(err)
		s.guard.hold.obey(account, e, s.opts.Now())
		reason := repeatable(r, e)
		if reason == "" || attempt >= s.cfg.Attempts {
			return r, e
		}
		// Full jitter, so that callers who failed together do not return together.
		wait := e.Wait + time.Duration(rand.Int64N(int64(20*time.Millisecond)<<min(attempt, 6)))
		// A caller is told to come back rather than kept for longer than an attempt.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait || e.Wait > s.cfg.Timeout || !s.guard.budget.withdraw(account) {
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

// repeatable says why a failed attempt may be repeated; empty: it may not. One that
// tells us to wait may, when the time that it tells is over. A reply that was cut off or
// too slow is not repeated: the legacy has done the work already and would do it again.
func repeatable(r reply, e *Error) string {
	switch {
	case e.Wait > 0 && (e.Reason == reasonThrottled || e.Reason == reasonOverloaded), e.Reason == reasonConnect:
		return e.Reason
	case e.Reason == reason5xx && r.status == http.StatusBadGateway:
		return reason502
	case e.Reason == reason5xx && r.status == http.StatusServiceUnavailable:
		return reason503
	}
	return ""
}

// prepare waits for what one attempt needs: a permit of the list, a credential that was made
// after the rejected one, and a slot of the fleet's ceiling. Without an error the permit must
// be put back. The first request of a list may be refused by the ceiling. Each further one waits as
// long as the list has time: to give up in between would waste what the legacy has done.
func (f *fetch) prepare(ctx context.Context, rejected token) (credential token, err error) {
	s := f.endpoint
	if err = f.permits.take(ctx); err != nil {
		return token{}, err
	}
	defer func() {
		if err != nil {
			f.permits.put()
		}
	}()
	if credential, err = s.network.creds.header(ctx, rejected); err != nil {
		if _, known := errors.AsType[*Error](err); known || errors.Is(ctx.Err(), context.Canceled) {
			return token{}, classify(ctx, err)
		}
		// A deadline, too: the list was not asked for.
		return token{}, failure(reasonNoSignIn, "%s: %w", s.network.creds.name, err)
	}
	priority := ceiling.Interactive
	switch {
	case f.begun.Swap(true):
		priority = ceiling.Continuation
	case f.want.Background:
		priority = ceiling.Background
	}
	if err = s.opts.Ceiling.Wait(ctx, f.want.Account, priority); err != nil {
		return token{}, classify(ctx, notAsked(reasonCeiling, time.Second, "%w", err))
	}
	return credential, nil
}

// send makes one attempt, which has upstream.timeout from here until its reply is read, and puts
// the permit back, also after a panic. Its span goes to the legacy as traceparent.
func (f *fetch) send(ctx context.Context, asked address.Request, format *mapping.Format, credential token) (r reply, err error) {
	s := f.endpoint
	defer f.permits.put()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	out := s.network.http.R().SetDoNotParseResponse(true).SetHeaders(asked.Headers)
	if asked.Method != http.MethodGet {
		out.SetBody(strings.NewReader(asked.Body)) // a reader that net/http can rewind, and knows the length of
		// This name without a value is not sent. It tells net/http that the request may
		// be sent again on a new connection if the legacy has closed the one that it was
		// about to use, as it does for a GET.
		out.Header["Idempotency-Key"] = []string{}
	}
	if f.want.RequestID != "" && validHeader("X-Request-Id", f.want.RequestID) {
		out.SetHeader("X-Request-Id", f.want.RequestID)
	}
	if out.Header.Get("Accept") == "" && s.network.http.Header.Get("Accept") == mapping.AcceptJSON {
		out.SetHeader("Accept", format.Accept)
	}
	if credential.name != "" {
		out.SetHeader(credential.name, credential.value)
	}
	if s.tracer != nil {
		var step telemetry.Span
		ctx, step = s.tracer.Force(ctx, asked.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(serverOf(asked)...))
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
	if format.EmptyIf.Any(body) {
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
