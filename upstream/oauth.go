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

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
)

// oauth is type oauth2_client_credentials (RFC 6749, 4.4).
type oauth struct{ AuthConfig }

func (oauth) keys() string { return "token_url! client_id! client_secret_file! scopes params" }

func (o oauth) secret() (key string, file secretfile.File) {
	return "client_secret_file", o.ClientSecretFile
}

func (o oauth) check(_ string, p *invalid.Problems) {
	p.AddIf(o.TokenURL != "" && !absolute(o.TokenURL), "auth.token_url", "must be an absolute http or https URL")
}

// tokenLeeway is how long before its end an access token is not used any more.
const tokenLeeway = 10 * time.Second

func (o oauth) credentials(s signInOptions) credentials {
	params := url.Values{}
	for k, v := range o.Params {
		params.Set(k, v)
	}
	request := clientcredentials.Config{
		ClientID: o.ClientID, ClientSecret: secretOf(o), TokenURL: o.TokenURL, Scopes: o.Scopes, EndpointParams: params,
	}
	// The library would find out by itself how the endpoint wants the secret, by sending
	// each sign-in that fails twice. Here the next sign-in tries the other way, until one
	// has succeeded. It does not run twice at a time.
	request.AuthStyle = oauth2.AuthStyleInHeader
	known := false
	return newTokens(s, []int{http.StatusUnauthorized}, nil, func(ctx context.Context) (token, error) {
		got, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, s.client))
		var refused *oauth2.RetrieveError
		switch {
		case errors.As(err, &refused) && refused.Response != nil:
			if status := refused.Response.StatusCode; !known && (status == http.StatusBadRequest || status == http.StatusUnauthorized) {
				request.AuthStyle = oauth2.AuthStyleInHeader + oauth2.AuthStyleInParams - request.AuthStyle
			}
			// Its text holds the reply, which may repeat what was sent.
			return token{}, fmt.Errorf("the token endpoint answers status %d", refused.Response.StatusCode)
		case err != nil:
			return token{}, fmt.Errorf("no token: %w", withoutAddress(err))
		}
		known = true
		fresh := token{name: "Authorization", value: got.Type() + " " + got.AccessToken}
		if !got.Expiry.IsZero() {
			fresh.end = got.Expiry.Add(-tokenLeeway)
		}
		return fresh, nil
	})
}
