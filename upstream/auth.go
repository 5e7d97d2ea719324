package upstream

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/mapping"
)

// AuthConfig says how the gateway identifies itself to the legacy system.
// Secrets are in files of one line each.
type AuthConfig struct {
	// Type is how the gateway signs in: basic, bearer and header send a fixed credential, oauth2_client_credentials and session get one first. none is the default.
	Type string `yaml:"type" enum:",none,basic,bearer,header,oauth2_client_credentials,session"`

	setting.User `yaml:",inline" with:"type=basic,session"`
	// TokenFile holds the bearer token, or the value of the header.
	TokenFile setting.File `yaml:"token_file" with:"type=bearer!,header!"`
	// Name is that of the header with the credential; of a session that of the header or cookie that the token is sent in, default the one that it came in.
	Name string `yaml:"name" with:"type=header!,session"`

	// TokenURL is the token endpoint of the authorization server (RFC 6749, 4.4).
	TokenURL       string `yaml:"token_url" with:"type=oauth2_client_credentials!"`
	setting.Client `yaml:",inline" with:"type=oauth2_client_credentials!"`
	// Params are further parameters of the token request, such as scope or audience.
	Params map[string]string `yaml:"params" with:"type=oauth2_client_credentials"`

	// Login opens a session: one sign-in for all callers, and again when the legacy
	// says that the session has ended.
	Login LoginConfig `yaml:"login" with:"type=session!"`
	// Token is the GJSON path of the token in the reply to the login.
	Token string `yaml:"token" form:"gjson" with:"type=session"`
	// TokenHeader is the response header that has the token; instead of token.
	TokenHeader string `yaml:"token_header" with:"type=session"`
	// TokenCookie is the cookie that has the token; instead of token. No other cookie is kept.
	TokenCookie string `yaml:"token_cookie" with:"type=session"`
	// SendAs says how the token is sent: bearer, header or cookie. Default: as it came, bearer for token.
	SendAs string `yaml:"send_as" enum:",bearer,header,cookie" with:"type=session"`
	// RenewOn are statuses that say that the session has ended; default 401. For a 200 see renew_if.
	RenewOn []int `yaml:"renew_on" min:"300" max:"499" with:"type=session"`
	// RenewIf is for a legacy that says with status 200 that the session has ended: a
	// reply that meets one of these conditions.
	RenewIf []mapping.Condition `yaml:"renew_if" with:"type=session"`
	// TTL is how long a session is used before the next sign-in. 0s: until the legacy says that it has ended.
	TTL time.Duration `yaml:"ttl" with:"type=session"`
}

// Values of auth.type.
const (
	authNone    = "none"
	authBasic   = "basic"
	authBearer  = "bearer"
	authHeader  = "header"
	authOAuth2  = "oauth2_client_credentials"
	authSession = "session"
)

// credentials give the header that identifies the gateway.
type credentials interface {
	// header gives it, made after refused; an empty name: none.
	header(ctx context.Context, refused token) (token, error)
	// refuses tells whether a reply says that it is not good any more.
	refuses(reply) bool
	// renews tells whether another one may be had after this one was refused to a
	// request for the account.
	renews(refused token, account string) bool
}

// method is one type of credentials: all that is particular to it.
type method struct {
	secretKey   string // that names the file of the one secret; empty: there is none
	secret      setting.File
	optional    bool                                   // the file may be left out
	check       func(base string, p *setting.Problems) // notes what else is wrong; nil: nothing can be
	credentials func(o signInOptions) credentials      // once, when nothing is wrong
}

// signInOptions are what credentials that sign in need besides their configuration.
type signInOptions struct {
	Options
	base    string
	timeout time.Duration // of one sign-in
	client  *http.Client  // without cookies, redirects or a proxy of the environment
	places  *bulkhead
	metrics signInMetrics
}

// method gives what the type stands for; false: there is no such type.
func (a AuthConfig) method() (m method, known bool) {
	fixed := func(name, value string) func(signInOptions) credentials {
		return func(signInOptions) credentials { return fixedHeader{name: name, value: value} }
	}
	switch cmp.Or(a.Type, authNone) {
	case authNone:
		m.credentials = fixed("", "")
	case authBasic:
		m = method{secretKey: "password_file", secret: a.PasswordFile, optional: true}
		m.check = func(_ string, p *setting.Problems) {
			p.AddIf(a.Username == "" && !a.UsernameFile.Set(), "auth.username", "missing: type basic needs it, or username_file")
		}
		m.credentials = fixed("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.user()+":"+oneLine(a.PasswordFile))))
	case authBearer:
		m = method{secretKey: "token_file", secret: a.TokenFile}
		m.credentials = fixed("Authorization", "Bearer "+oneLine(a.TokenFile))
	case authHeader:
		m = method{secretKey: "token_file", secret: a.TokenFile}
		m.credentials = fixed(a.Name, oneLine(a.TokenFile))
	case authOAuth2:
		o := oauth{a}
		m = method{secretKey: "client_secret_file", secret: a.ClientSecretFile, check: o.check, credentials: o.credentials}
	case authSession:
		s := session{a}
		m = method{secretKey: "password_file", secret: a.PasswordFile, check: s.check, credentials: s.credentials}
	}
	return m, m.credentials != nil
}

// check reports what contradicts in the credentials. Keys that a type needs and lacks, or
// that it would ignore, are told by their tags.
func (a AuthConfig) check(base string, p *setting.Problems) {
	m, known := a.method()
	if !known {
		return
	}
	p.AddIf(a.Username != "" && a.UsernameFile.Set(), "auth.username_file", "username is set, too; remove one of the two")
	p.AddIf(strings.ContainsAny(oneLine(a.UsernameFile), "\r\n\x00"), "auth.username_file", "the file holds more than one line")
	p.AddIf(strings.ContainsAny(oneLine(m.secret), "\r\n\x00"), "auth."+m.secretKey, "the file of the secret holds more than one line")
	p.AddIf(a.Name != "" && !validHeader(a.Name, ""), "auth.name", "not a valid name of an HTTP header or cookie")
	if m.check != nil {
		m.check(base, p)
	}
}

// oneLine is what a file of one line holds.
func oneLine(f setting.File) string { return strings.TrimSpace(f.Text()) }

// headerName is the header that the credential is sent in, where the file names it.
func (a AuthConfig) headerName() string {
	if a.Type == authSession {
		if as, name := (session{a}).sendAs(); as == sendHeader {
			return name
		}
		return ""
	}
	return a.Name
}

// user is the user's name, which stands in the configuration or in a file.
func (a AuthConfig) user() string { return cmp.Or(a.Username, oneLine(a.UsernameFile)) }

// newCredentials makes what the type of c's configuration says. Sign-ins go through t.
func newCredentials(c Config, t http.RoundTripper, places *bulkhead, opts Options) (credentials, error) {
	m, _ := c.Auth.method()
	var wrong setting.Problems
	wrong.AddIf(m.secretKey != "" && oneLine(m.secret) == "" && (m.secret.Set() || !m.optional), "auth."+m.secretKey,
		"the file of the secret is empty; with type basic leave the key out for an empty password")
	wrong.AddIf(c.Auth.UsernameFile.Set() && c.Auth.user() == "", "auth.username_file", "the file is empty")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return m.credentials(signInOptions{
		Options: opts, base: c.BaseURL, timeout: c.Timeout, places: places,
		client:  &http.Client{Transport: withHeaders{t, c.common(opts, "application/json")}, CheckRedirect: noRedirect},
		metrics: newSignInMetrics(opts.Registerer), // of every type, so that the series are there
	}), nil
}

// withHeaders adds headers where a request has none of these names.
type withHeaders struct {
	http.RoundTripper
	headers http.Header
}

// RoundTrip implements http.RoundTripper.
func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.headers {
		if r.Header[name] == nil {
			r.Header[name] = values
		}
	}
	return h.RoundTripper.RoundTrip(r)
}

// fixedHeader is a header made of one secret, or none where its name is empty.
type fixedHeader token

func (h fixedHeader) header(context.Context, token) (token, error) { return token(h), nil }

// refuses is false: there is nothing better.
func (fixedHeader) refuses(reply) bool { return false }

func (fixedHeader) renews(token, string) bool { return false }

// absolute tells whether a text is the URL of an HTTP server.
func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// oauth is type oauth2_client_credentials (RFC 6749, 4.4).
type oauth struct{ AuthConfig }

func (o oauth) check(_ string, p *setting.Problems) {
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
		ClientID: o.ClientID, ClientSecret: oneLine(o.ClientSecretFile), TokenURL: o.TokenURL, EndpointParams: params,
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
