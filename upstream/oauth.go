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

	"inquiry-gateway/internal/panics"
)

// tokenPause is how long a failure to get a token is remembered: the requests
// that need one must not hammer the token endpoint.
const tokenPause = time.Second

// tokens keeps one access token for all requests. When it runs out, one request
// for a new one is made, and everybody waits for it within their own deadline.
type tokens struct {
	cfg       AuthConfig
	secret    *secretFile
	timeout   time.Duration
	transport *transport
	now       func() time.Time
	panics    *panics.Catcher

	mu      sync.Mutex
	token   *oauth2.Token
	err     error
	failed  time.Time     // when err happened
	pending chan struct{} // closed when the request under way has ended
}

// header gives the token, waiting for a new one if need be, but no longer
// than the context allows.
func (t *tokens) header(ctx context.Context) (name, value string, err error) {
	for waited := false; ; waited = true {
		t.mu.Lock()
		// A token that was just made is used even if it runs out in a moment:
		// asking for another would give another of the same kind.
		if t.token.Valid() || waited && t.token != nil && t.err == nil {
			value := t.token.Type() + " " + t.token.AccessToken
			t.mu.Unlock()
			return "Authorization", value, nil
		}
		if t.err != nil && t.now().Sub(t.failed) < tokenPause {
			defer t.mu.Unlock()
			return "", "", t.err
		}
		if t.pending == nil {
			t.pending = make(chan struct{})
			go t.refresh(context.WithoutCancel(ctx), t.pending)
		}
		wait := t.pending
		t.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return "", "", ctx.Err()
		}
	}
}

// refresh gets a new token. It belongs to nobody's request, and ends after the
// timeout at the latest.
func (t *tokens) refresh(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	token, err := t.request(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.failed = err, t.now()
	if err == nil {
		t.token = token
	}
	t.pending = nil
	close(done)
}

// request gets a token from the token endpoint. Its errors hold nothing of
// the reply.
func (t *tokens) request(ctx context.Context) (token *oauth2.Token, err error) {
	defer t.panics.Catch(func(p any) { err = bug(p) })
	secret, err := t.secret.get()
	if err != nil {
		return nil, err
	}
	params := url.Values{}
	for k, v := range t.cfg.Params {
		params.Set(k, v)
	}
	cfg := clientcredentials.Config{
		ClientID: t.cfg.ClientID, ClientSecret: secret, TokenURL: t.cfg.TokenURL, Scopes: t.cfg.Scopes, EndpointParams: params,
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
	if t.token != nil && value == t.token.Type()+" "+t.token.AccessToken {
		t.token = nil
	}
	return true
}
