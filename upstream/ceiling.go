package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"inquiry-gateway/internal/quota"
)

// bounded is the one way to the legacy system: every request of a fetch and every
// sign-in passes it, and takes a token of the fleet's ceiling.
type bounded struct {
	*http.Transport
	ceiling *quota.Ceiling
}

// RoundTrip sends a request when the ceiling allows it. net/http itself sends a
// request again where the legacy has closed the connection meanwhile; it rewinds the
// body before, and that takes a token, too.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.ceiling == nil {
		return b.Transport.RoundTrip(r)
	}
	if err := b.take(r.Context()); err != nil {
		return nil, err
	}
	if b.ceiling.State().PerSecond == 0 {
		return b.Transport.RoundTrip(r)
	}
	again := r.GetBody
	r = r.WithContext(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		again = func() (io.ReadCloser, error) { return nothing{}, nil }
		r.Body = nothing{}
	}
	if again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			if err := b.take(r.Context()); err != nil {
				return nil, err
			}
			return again()
		}
	}
	return b.Transport.RoundTrip(r)
}

// take takes one token of the ceiling, for the account and the class that the context names. Its error is
// the answer of the request.
func (b bounded) take(ctx context.Context) error {
	of, _ := ctx.Value(urgencyKey{}).(urgency)
	if err := b.ceiling.Wait(ctx, of.account, of.class); err != nil {
		return &Error{Failure: FailureUnavailable, Reason: reasonCeiling, RetryAfter: time.Second, Err: err}
	}
	return nil
}

// isCeiling tells whether the ceiling is why a request was not made.
func isCeiling(err error) bool { return errors.Is(err, quota.ErrCeiling) }

// nothing is the body of a request without one. net/http finds out that it is empty,
// and sends none.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements io.Closer.
func (nothing) Close() error { return nil }

// urgency says for whom a request is, and how urgent it is. A context without one is that
// of a sign-in, for which everybody waits.
type urgency struct {
	account string
	class   quota.Class
}

type urgencyKey struct{}

// classed marks the next request of the fetch. Once one is made the rest follow: to
// give up in between would waste what the legacy has done.
func (f *fetcher) classed(ctx context.Context) context.Context {
	class := f.class
	if f.begun.Swap(true) {
		class = quota.Started
	}
	return context.WithValue(ctx, urgencyKey{}, urgency{f.account, class})
}
