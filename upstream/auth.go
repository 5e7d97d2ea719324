package upstream

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
)

// AuthConfig says how the gateway identifies itself to the legacy system.
// Secrets are in files of one line each.
type AuthConfig struct {
	Type string `yaml:"type" enum:",none,basic,bearer,header,oauth2_client_credentials"` // none (default), basic, bearer, header or oauth2_client_credentials

	Username     string          `yaml:"username"`      // basic
	PasswordFile secretfile.File `yaml:"password_file"` // basic
	TokenFile    secretfile.File `yaml:"token_file"`    // bearer
	Header       string          `yaml:"header"`        // header: its name
	ValueFile    secretfile.File `yaml:"value_file"`    // header: its value

	// For oauth2_client_credentials (RFC 6749, 4.4).
	TokenURL         string            `yaml:"token_url"`
	ClientID         string            `yaml:"client_id"`
	ClientSecretFile secretfile.File   `yaml:"client_secret_file"`
	Scopes           []string          `yaml:"scopes"`
	Params           map[string]string `yaml:"params"` // further parameters of the token request, such as audience
}

// Values of auth.type.
const (
	authNone   = "none"
	authBasic  = "basic"
	authBearer = "bearer"
	authHeader = "header"
	authOAuth2 = "oauth2_client_credentials"
)

// credentials give the header that identifies the gateway.
type credentials interface {
	// header gives its name and value; an empty name: none.
	header(ctx context.Context) (name, value string, err error)
	// refused says that the legacy answered 401 to the value, and tells whether
	// another one may be had by asking again.
	refused(value string) bool
}

// authKeys are the keys that each type of credentials needs, and those with a "?"
// that it may have.
func authKeys(kind string) (keys []string, known bool) {
	all, known := map[string]string{
		authNone:   "",
		authBasic:  "username password_file",
		authBearer: "token_file",
		authHeader: "header value_file",
		authOAuth2: "token_url client_id client_secret_file scopes? params?",
	}[kind]
	return strings.Fields(all), known
}

// check reports keys that a type of credentials needs and lacks, or that it
// would ignore: an ignored secret is a mistake somebody will look for.
func (a AuthConfig) check(p *invalid.Problems) {
	kind := a.Type
	if kind == "" {
		kind = authNone
	}
	keys, known := authKeys(kind)
	p.Enums("auth", a)
	if !known {
		return
	}
	for name, set := range map[string]bool{
		"username": a.Username != "", "password_file": a.PasswordFile.Set(), "token_file": a.TokenFile.Set(),
		"header": a.Header != "", "value_file": a.ValueFile.Set(), "token_url": a.TokenURL != "", "client_id": a.ClientID != "",
		"client_secret_file": a.ClientSecretFile.Set(), "scopes": len(a.Scopes) > 0, "params": len(a.Params) > 0,
	} {
		needed := slices.Contains(keys, name)
		p.AddIf(needed && !set, "auth."+name, "missing: type %s needs it", kind)
		p.AddIf(set && !needed && !slices.Contains(keys, name+"?"), "auth."+name, "has no meaning with type %s; remove it", kind)
	}
	key, file := a.secret()
	p.AddIf(strings.ContainsAny(strings.TrimSpace(file.Text()), "\r\n\x00"), "auth."+key, "the file of the secret holds more than one line")
	p.AddIf(a.Header != "" && !validHeader(a.Header, ""), "auth.header", "not a valid name of an HTTP header")
	u, err := url.Parse(a.TokenURL)
	p.AddIf(a.TokenURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""), "auth.token_url",
		"must be an absolute http or https URL")
}

// secret gives the key and the file of the type's one secret.
func (a AuthConfig) secret() (key string, file secretfile.File) {
	switch a.Type {
	case authBasic:
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

// newCredentials makes what the type says. Requests for tokens go through t.
func newCredentials(cfg AuthConfig, timeout time.Duration, t http.RoundTripper, opts Options) (credentials, error) {
	key, file := cfg.secret()
	secret := strings.TrimSpace(file.Text())
	if key != "" && secret == "" {
		return nil, mistake("auth."+key, "the file of the secret is empty")
	}
	switch cfg.Type {
	case authBasic:
		return fixedHeader{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(cfg.Username+":"+secret))}, nil
	case authBearer:
		return fixedHeader{"Authorization", "Bearer " + secret}, nil
	case authHeader:
		return fixedHeader{cfg.Header, secret}, nil
	case authOAuth2:
		return &tokens{cfg: cfg, secret: secret, timeout: timeout, transport: t, now: opts.Now, panics: opts.Panics}, nil
	}
	return fixedHeader{}, nil
}

// fixedHeader is a header made of one secret, or none where its name is empty.
type fixedHeader struct{ name, value string }

func (h fixedHeader) header(context.Context) (name, value string, err error) {
	return h.name, h.value, nil
}

// refused has nothing better to offer.
func (h fixedHeader) refused(string) bool { return false }
