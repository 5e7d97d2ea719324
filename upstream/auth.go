package upstream

import (
	"cmp"
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
	// refuses tells whether a reply says that the value is not good any more: a status
	// other than 200, or the body of a 200.
	refuses(status int, body string) bool
	// renews tells whether another value may be had after this one was refused to a
	// request for the account.
	renews(value, account string) bool
}

// authKeys are the keys that each type of credentials may have, and those with a "!"
// that it needs.
func authKeys(kind string) (keys []string, known bool) {
	all, known := map[string]string{
		authNone:   "",
		authBasic:  "username username_file password_file",
		authBearer: "token_file!",
		authHeader: "header! value_file!",
		authOAuth2: "token_url! client_id! client_secret_file! scopes params",

		authSession: "username username_file password_file! login! token token_header token_cookie send_as header cookie renew_on renew_if ttl",
	}[kind]
	return append(strings.Fields(all), "type"), known
}

// check reports keys that a type of credentials needs and lacks, or that it
// would ignore: an ignored secret is a mistake somebody will look for.
func (a AuthConfig) check(base string, p *invalid.Problems) {
	kind := a.Type
	kind = cmp.Or(kind, authNone)
	keys, known := authKeys(kind)
	p.Enums("auth", a)
	if !known {
		return
	}
	p.Keys("auth", a, "type "+kind, keys...)
	a.checkUser(kind, p)
	key, file := a.secret()
	p.AddIf(strings.ContainsAny(strings.TrimSpace(file.Text()), "\r\n\x00"), "auth."+key, "the file of the secret holds more than one line")
	p.AddIf(a.Header != "" && !validHeader(a.Header, ""), "auth.header", "not a valid name of an HTTP header")
	p.AddIf(a.TokenURL != "" && !absolute(a.TokenURL), "auth.token_url", "must be an absolute http or https URL")
	if kind == authSession && invalid.Says(a.Login) {
		a.checkSession(base, p)
	}
}

// checkUser checks the user's name, which stands in the configuration or in a file.
func (a AuthConfig) checkUser(kind string, p *invalid.Problems) {
	p.AddIf(kind == authBasic && a.Username == "" && !a.UsernameFile.Set(), "auth.username", "missing: type basic needs it, or username_file")
	p.AddIf(a.Username != "" && a.UsernameFile.Set(), "auth.username_file", "username is set, too; remove one of the two")
	p.AddIf(strings.ContainsAny(strings.TrimSpace(a.UsernameFile.Text()), "\r\n\x00"), "auth.username_file", "the file holds more than one line")
}

// user is the user's name.
func (a AuthConfig) user() string {
	if a.UsernameFile.Set() {
		return strings.TrimSpace(a.UsernameFile.Text())
	}
	return a.Username
}

// absolute tells whether a text is the URL of an HTTP server.
func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// secret gives the key and the file of the type's one secret.
func (a AuthConfig) secret() (key string, file secretfile.File) {
	switch a.Type {
	case authBasic, authSession:
		return "password_file", a.PasswordFile
	case authBearer:
		return "token_file", a.TokenFile
	case authHeader:
		return "value_file", a.ValueFile
	case authOAuth2:
		return "client_secret_file", a.ClientSecretFile
	}
	return "", secretfile.File{}
}

func (a AuthConfig) secretText() string {
	_, file := a.secret()
	return strings.TrimSpace(file.Text())
}

// newCredentials makes what the type of c's configuration says. Sign-ins go through t.
func newCredentials(c Config, t http.RoundTripper, opts Options) (credentials, error) {
	cfg := c.Auth
	key, _ := cfg.secret()
	secret := cfg.secretText()
	if _, file := cfg.secret(); key != "" && secret == "" && (cfg.Type != authBasic || file.Set()) {
		return nil, mistake("auth."+key, "the file of the secret is empty; with type basic leave the key out for an empty password")
	}
	if cfg.UsernameFile.Set() && cfg.user() == "" {
		return nil, mistake("auth.username_file", "the file is empty")
	}
	m := newSignInMetrics(opts.Registerer) // of every type, so that the series are there
	switch cfg.Type {
	case authBasic:
		return fixedHeader{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(cfg.user()+":"+secret))}, nil
	case authBearer:
		return fixedHeader{"Authorization", "Bearer " + secret}, nil
	case authHeader:
		return fixedHeader{cfg.Header, secret}, nil
	case authOAuth2:
		return newTokens(oauth(cfg, t), []int{http.StatusUnauthorized}, nil, c.Timeout, m, opts), nil
	case authSession:
		return newTokens(session(cfg, c.BaseURL, t, opts.Now), cfg.statuses(), cfg.RenewIf, c.Timeout, m, opts), nil
	}
	return fixedHeader{}, nil
}

// fixedHeader is a header made of one secret, or none where its name is empty.
type fixedHeader struct{ name, value string }

func (h fixedHeader) header(context.Context, string) (name, value string, err error) {
	return h.name, h.value, nil
}

// refuses is false: there is nothing better.
func (h fixedHeader) refuses(int, string) bool { return false }

func (h fixedHeader) renews(_, _ string) bool { return false }
