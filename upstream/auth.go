package upstream

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream/mapping"
)

// AuthConfig says how the gateway identifies itself to the legacy system.
// Secrets are in files of one line each.
type AuthConfig struct {
	// Type is how the gateway signs in: basic, bearer and header send a fixed credential, oauth2_client_credentials and session get one first. none is the default.
	Type string `yaml:"type" enum:",none,basic,bearer,header,oauth2_client_credentials,session"`

	// Username is the user's name.
	Username string `yaml:"username" with:"type=basic,session"`
	// UsernameFile holds the user's name, such as an API key that is sent as one; instead of username.
	UsernameFile secretfile.File `yaml:"username_file" with:"type=basic,session"`
	// PasswordFile holds the password. basic without it sends an empty one.
	PasswordFile secretfile.File `yaml:"password_file" with:"type=basic,session!"`
	// TokenFile holds the bearer token.
	TokenFile secretfile.File `yaml:"token_file" with:"type=bearer!"`
	// Header is the name of the header with the credential. For a session it is the one that the token is sent in, default token_header.
	Header string `yaml:"header" with:"type=header!,session"`
	// ValueFile holds the value of header.
	ValueFile secretfile.File `yaml:"value_file" with:"type=header!"`

	// TokenURL is the token endpoint of the authorization server (RFC 6749, 4.4).
	TokenURL string `yaml:"token_url" with:"type=oauth2_client_credentials!"`
	// ClientID is the name of the gateway at the authorization server.
	ClientID string `yaml:"client_id" with:"type=oauth2_client_credentials!"`
	// ClientSecretFile holds the secret of client_id.
	ClientSecretFile secretfile.File `yaml:"client_secret_file" with:"type=oauth2_client_credentials!"`
	// Scopes are asked for with the token.
	Scopes []string `yaml:"scopes" with:"type=oauth2_client_credentials"`
	// Params are further parameters of the token request, such as audience.
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
	// Cookie is the name of the cookie that the token is sent in; default token_cookie.
	Cookie string `yaml:"cookie" with:"type=session"`
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
	// header gives its name and value, which is another one than refused; an empty
	// name: none.
	header(ctx context.Context, refused string) (name, value string, err error)
	// refuses tells whether a reply says that the value is not good any more.
	refuses(reply) bool
	// renews tells whether another value may be had after this one was refused to a
	// request for the account.
	renews(value, account string) bool
}

// method is one type of credentials: all that is particular to it.
type method interface {
	// keys are those that the configuration may have, and with a "!" those that it needs.
	keys() string
	// secret is the key and the file of the one secret; an empty key: there is none.
	secret() (key string, file secretfile.File)
	// check notes what else is wrong. base is the address of the legacy system.
	check(base string, p *invalid.Problems)
	// credentials are made once, when nothing is wrong.
	credentials(signInOptions) credentials
}

// signInOptions are what credentials that sign in need besides their configuration.
type signInOptions struct {
	Options
	base    string
	timeout time.Duration // of one sign-in
	client  *http.Client  // without cookies, redirects or a proxy of the environment
	metrics signInMetrics
}

// method gives what the type stands for; nil: there is no such type.
func (a AuthConfig) method() method {
	switch a.Type {
	case "", authNone:
		return noAuth{}
	case authBasic:
		return basicAuth{a}
	case authBearer:
		return bearerAuth{a}
	case authHeader:
		return headerAuth{a}
	case authOAuth2:
		return oauth{a}
	case authSession:
		return session{a}
	}
	return nil
}

// check reports keys that a type of credentials needs and lacks, or that it
// would ignore: an ignored secret is a mistake somebody will look for.
func (a AuthConfig) check(base string, p *invalid.Problems) {
	p.Enums("auth", a)
	m := a.method()
	if m == nil {
		return
	}
	with := "type " + authNone
	if a.Type != "" {
		with = "type " + a.Type
	}
	p.Keys("auth", a, with, append(strings.Fields(m.keys()), "type")...)
	p.AddIf(a.Username != "" && a.UsernameFile.Set(), "auth.username_file", "username is set, too; remove one of the two")
	p.AddIf(severalLines(a.UsernameFile), "auth.username_file", "the file holds more than one line")
	key, file := m.secret()
	p.AddIf(severalLines(file), "auth."+key, "the file of the secret holds more than one line")
	p.AddIf(a.Header != "" && !validHeader(a.Header, ""), "auth.header", "not a valid name of an HTTP header")
	m.check(base, p)
}

func severalLines(f secretfile.File) bool {
	return strings.ContainsAny(strings.TrimSpace(f.Text()), "\r\n\x00")
}

// user is the user's name, which stands in the configuration or in a file.
func (a AuthConfig) user() string {
	if a.UsernameFile.Set() {
		return strings.TrimSpace(a.UsernameFile.Text())
	}
	return a.Username
}

// newCredentials makes what the type of c's configuration says. Sign-ins go through t.
func newCredentials(c Config, t http.RoundTripper, opts Options) (credentials, error) {
	m := c.Auth.method()
	key, file := m.secret()
	var wrong invalid.Problems
	wrong.AddIf(key != "" && secretOf(m) == "" && (file.Set() || c.Auth.Type != authBasic), "auth."+key,
		"the file of the secret is empty; with type basic leave the key out for an empty password")
	wrong.AddIf(c.Auth.UsernameFile.Set() && c.Auth.user() == "", "auth.username_file", "the file is empty")
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	return m.credentials(signInOptions{
		Options: opts, base: c.BaseURL, timeout: c.Timeout,
		client:  &http.Client{Transport: t, CheckRedirect: noRedirect},
		metrics: newSignInMetrics(opts.Registerer), // of every type, so that the series are there
	}), nil
}

// secretOf is the text of a type's secret.
func secretOf(m method) string {
	_, file := m.secret()
	return strings.TrimSpace(file.Text())
}

// noAuth is type none.
type noAuth struct{}

func (noAuth) keys() string                            { return "" }
func (noAuth) secret() (key string, _ secretfile.File) { return "", secretfile.File{} }
func (noAuth) check(string, *invalid.Problems)         {}
func (noAuth) credentials(signInOptions) credentials   { return fixedHeader{} }

// basicAuth is type basic.
type basicAuth struct{ AuthConfig }

func (basicAuth) keys() string                              { return "username username_file password_file" }
func (b basicAuth) secret() (key string, _ secretfile.File) { return "password_file", b.PasswordFile }

func (b basicAuth) check(_ string, p *invalid.Problems) {
	p.AddIf(b.Username == "" && !b.UsernameFile.Set(), "auth.username", "missing: type basic needs it, or username_file")
}

func (b basicAuth) credentials(signInOptions) credentials {
	return fixedHeader{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(b.user()+":"+secretOf(b)))}
}

// bearerAuth is type bearer.
type bearerAuth struct{ AuthConfig }

func (bearerAuth) keys() string                              { return "token_file!" }
func (b bearerAuth) secret() (key string, _ secretfile.File) { return "token_file", b.TokenFile }
func (bearerAuth) check(string, *invalid.Problems)           {}

func (b bearerAuth) credentials(signInOptions) credentials {
	return fixedHeader{"Authorization", "Bearer " + secretOf(b)}
}

// headerAuth is type header.
type headerAuth struct{ AuthConfig }

func (headerAuth) keys() string                              { return "header! value_file!" }
func (h headerAuth) secret() (key string, _ secretfile.File) { return "value_file", h.ValueFile }
func (headerAuth) check(string, *invalid.Problems)           {}

func (h headerAuth) credentials(signInOptions) credentials {
	return fixedHeader{h.Header, secretOf(h)}
}

// fixedHeader is a header made of one secret, or none where its name is empty.
type fixedHeader struct{ name, value string }

func (h fixedHeader) header(context.Context, string) (name, value string, err error) {
	return h.name, h.value, nil
}

// refuses is false: there is nothing better.
func (fixedHeader) refuses(reply) bool { return false }

func (fixedHeader) renews(_, _ string) bool { return false }

// absolute tells whether a text is the URL of an HTTP server.
func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}
