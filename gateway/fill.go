package gateway

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream"
)

// Fetch asks the legacy system for one account's list. It imposes its own limits
// besides ctx; its errors are *upstream.Error.
type Fetch func(ctx context.Context, r upstream.Request) (upstream.List, error)

// A fill says by its error whether the legacy system was asked, and how long to wait.
var _ cache.FillError = (*upstream.Error)(nil)

// NewFill makes what the cache calls on a miss: it fetches a list and renders the
// finished bytes. Only bytes that a caller may see get past it, so nothing internal
// is ever cached. Nil traces make no spans.
func NewFill(fetch Fetch, traces trace.TracerProvider) cache.Fill {
	tracer := telemetry.NewTracer(traces, scope)
	return func(ctx context.Context, k cache.Key, about cache.FillInfo) (cache.Content, error) {
		list, err := fetch(ctx, upstream.Request{
			Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType, RequestID: requestIDOf(ctx),
			Background: about.Background, Failing: about.Failing, Changes: about.Changes,
		})
		if err != nil {
			describeFailure(ctx, err)
			return cache.Content{}, err
		}
		_, s := tracer.Start(ctx, "gateway.render")
		defer s.End()
		body, err := v1.Render(k.Kind, list.Inquiries)
		return cache.Content{Body: body, AnsweredAt: list.AnsweredAt, NoStore: list.Unasked, Fingerprint: list.Fingerprint}, err
	}
}

// describeFailure says in the fill's span why the legacy gave no list, in words of
// fixed sets. *upstream.Error knows more of it than the cache.
func describeFailure(ctx context.Context, err error) {
	var e *upstream.Error
	if s := telemetry.CurrentSpan(ctx); s.Recording() && errors.As(err, &e) {
		s.Set(attribute.String("upstream.failure", string(e.Failure())), attribute.String("upstream.reason", e.Reason))
	}
}

// Mappings tells the cache, by kind, how the client's lists are made.
func Mappings(c *upstream.Client) map[string]cache.Mapping {
	all := make(map[string]cache.Mapping)
	for kind, fingerprint := range c.Fingerprints() {
		status, inquiryType := c.Filters(kind)
		all[kind] = cache.Mapping{Fingerprint: fingerprint, Status: status, InquiryType: inquiryType}
	}
	return all
}

// Kinds are the lists of the client, for Options: with the words of their filters, where a
// table of the mapping has all that a record can have.
func Kinds(c *upstream.Client) map[string]v1.Words {
	all := make(map[string]v1.Words)
	for kind := range c.Fingerprints() {
		status, inquiryType := c.Filters(kind)
		all[kind] = v1.Words{Status: wordsOf(status), InquiryType: wordsOf(inquiryType)}
	}
	return all
}

// wordsOf are the values that a caller can ask for; none where others can be asked for, too.
func wordsOf(f filters.Filter) (words []string) {
	if f.Other != filters.Empty {
		return nil
	}
	for value, asked := range f.Values {
		if asked != filters.Empty && filters.Valid(value) {
			words = append(words, value)
		}
	}
	slices.Sort(words)
	return words
}

// Derivation makes filtered lists out of finished ones.
func Derivation() cache.Derivation {
	return cache.Derivation{
		Select: func(k cache.Key, body []byte) ([]byte, error) { return v1.Select(body, k.Status, k.InquiryType) },
		Empty:  v1.Empty(),
	}
}
