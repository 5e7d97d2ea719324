package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// tokenLeeway is how long before its end an access token is not used any more.
const tokenLeeway = 10 * time.Second

// oauth asks the token endpoint for an access token (RFC 6749, 4.4). The function must
// not run twice at a time.
func oauth(cfg AuthConfig, t http.RoundTripper) func(context.Context) (token, error) {
	params := url.Values{}
	for k, v := range cfg.Params {
		params.Set(k, v)
	}
	request := clientcredentials.Config{
		ClientID: cfg.ClientID, ClientSecret: cfg.secretText(), TokenURL: cfg.TokenURL, Scopes: cfg.Scopes, EndpointParams: params,
	}
	client := signInClient(t)
	// The library would find out by itself how the endpoint wants the secret, by sending
	// each sign-in that fails twice. Here the next sign-in tries the other way, until one
	// has succeeded.
	request.AuthStyle = oauth2.AuthStyleInHeader
	known := false
	return func(ctx context.Context) (token, error) {
		got, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
		var refused *oauth2.RetrieveError
		switch {
		case errors.As(err, &refused) && refused.Response != nil:
			if status := refused.Response.StatusCode; !known && (status == http.StatusBadRequest || status == http.StatusUnauthorized) {
				request.AuthStyle = oauth2.AuthStyleInHeader + oauth2.AuthStyleInParams - request.AuthStyle
			}
			// Its text holds the reply, which may repeat what was sent.
			return token{}, fmt.Errorf("the token endpoint answers %w", statusError(refused.Response.StatusCode))
		case err != nil:
			return token{}, fmt.Errorf("no token: %w", redact(err))
		}
		known = true
		fresh := token{name: "Authorization", value: got.Type() + " " + got.AccessToken}
		if !got.Expiry.IsZero() {
			fresh.end = got.Expiry.Add(-tokenLeeway)
		}
		return fresh, nil
	}
}
