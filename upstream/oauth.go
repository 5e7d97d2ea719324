package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"inquiry-gateway/internal/panics"
)

// tokenPause is how long nobody asks for a token again after a failure: the
// requests that need one must not hammer the token endpoint.
const tokenPause = time.Second

// tokens keeps one access token for all requests. When it runs out, one request
// for a new one is made, and everybody waits for it within their own deadline. It
// is safe for concurrent use.
type tokens struct {
	cfg       AuthConfig
	secret    string
	timeout   time.Duration
	transport http.RoundTripper
	now       func() time.Time
	panics    *panics.Catcher
	flight    singleflight.Group

	mu     sync.Mutex
	token  *oauth2.Token
	err    error
	failed time.Time // when err happened
}

// header gives the token, waiting for a new one if need be, but no longer
// than the context allows.
func (t *tokens) header(ctx context.Context) (name, value string, err error) {
	token, err := t.kept()
	if token == nil && err == nil {
		select {
		case r := <-t.flight.DoChan("", func() (any, error) { return t.renew(context.WithoutCancel(ctx)) }):
			// A token that was just made is used even if it runs out in a moment:
			// asking for another would give another of the same kind.
			token, _ = r.Val.(*oauth2.Token)
			err = r.Err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return "", "", err
	}
	return "Authorization", bearer(token), nil
}

func bearer(t *oauth2.Token) string { return t.Type() + " " + t.AccessToken }

// kept gives the token that is there, or why there is none; neither where a new
// one is to be asked for.
func (t *tokens) kept() (*oauth2.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.token.Valid():
		return t.token, nil
	case t.err != nil && t.now().Sub(t.failed) < tokenPause:
		return nil, t.err
	}
	return nil, nil
}

// renew gets a new token and keeps it. It belongs to nobody's request, and ends
// after the timeout at the latest.
func (t *tokens) renew(ctx context.Context) (*oauth2.Token, error) {
	if token, err := t.kept(); token != nil || err != nil { // another call has just ended
		return token, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	token, err := t.request(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.err, t.failed = token, err, t.now()
	return token, err
}

// request gets a token from the token endpoint. Its errors hold nothing of
// the reply.
func (t *tokens) request(ctx context.Context) (token *oauth2.Token, err error) {
	defer t.panics.Catch(func(p any) { err = bug(p) })
	params := url.Values{}
	for k, v := range t.cfg.Params {
		params.Set(k, v)
	}
	cfg := clientcredentials.Config{
		ClientID: t.cfg.ClientID, ClientSecret: t.secret, TokenURL: t.cfg.TokenURL, Scopes: t.cfg.Scopes, EndpointParams: params,
	}
	token, err = cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: t.transport, CheckRedirect: noRedirect}))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response != nil:
		// Its text holds the reply, which may repeat what was sent.
		return nil, fmt.Errorf("the token endpoint answers %w", statusError(refused.Response.StatusCode))
	case err != nil:
		return nil, fmt.Errorf("no token: %w", redact(err))
	case !validHeader("Authorization", token.AccessToken):
		return nil, errors.New("the token cannot be sent in a header")
	}
	return token, nil
}

// refused drops the token, unless another one is there already.
func (t *tokens) refused(value string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != nil && value == bearer(t.token) {
		t.token = nil
	}
	return true
}
