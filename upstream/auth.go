package upstream

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/invalid"
)

// AuthConfig says how the gateway identifies itself to the legacy system.
// Secrets are in files, one line each, and are read again when those change.
type AuthConfig struct {
	Type string `yaml:"type"` // none (default), basic, bearer, header or oauth2_client_credentials

	Username     string `yaml:"username"`      // basic
	PasswordFile string `yaml:"password_file"` // basic
	TokenFile    string `yaml:"token_file"`    // bearer
	Header       string `yaml:"header"`        // header: its name
	ValueFile    string `yaml:"value_file"`    // header: its value

	// For oauth2_client_credentials (RFC 6749, 4.4).
	TokenURL         string            `yaml:"token_url"`
	ClientID         string            `yaml:"client_id"`
	ClientSecretFile string            `yaml:"client_secret_file"`
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
	if !known {
		p.Add("auth.type", "%q is none of none, basic, bearer, header, oauth2_client_credentials", a.Type)
		return
	}
	for name, set := range map[string]bool{
		"username": a.Username != "", "password_file": a.PasswordFile != "", "token_file": a.TokenFile != "",
		"header": a.Header != "", "value_file": a.ValueFile != "", "token_url": a.TokenURL != "", "client_id": a.ClientID != "",
		"client_secret_file": a.ClientSecretFile != "", "scopes": len(a.Scopes) > 0, "params": len(a.Params) > 0,
	} {
		needed := slices.Contains(keys, name)
		p.AddIf(needed && !set, "auth."+name, "missing: type %s needs it", kind)
		p.AddIf(set && !needed && !slices.Contains(keys, name+"?"), "auth."+name, "has no meaning with type %s; remove it", kind)
	}
	p.AddIf(a.Header != "" && !validHeader(a.Header, ""), "auth.header", "not a valid name of an HTTP header")
	u, err := url.Parse(a.TokenURL)
	p.AddIf(a.TokenURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""), "auth.token_url",
		"must be an absolute http or https URL")
}

// newCredentials reads the secret once, so that a missing one is known at start.
func newCredentials(cfg AuthConfig, timeout time.Duration, t *transport, opts Options) (credentials, error) {
	secret := func(field, path string) (*secretFile, error) {
		s := &secretFile{path: path, now: opts.Now}
		if _, err := s.get(); err != nil {
			return nil, mistake("auth."+field, "the secret cannot be read: %v", err)
		}
		return s, nil
	}
	switch cfg.Type {
	case authBasic:
		s, err := secret("password_file", cfg.PasswordFile)
		return &fixedHeader{"Authorization", s, func(v string) string {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(cfg.Username+":"+v))
		}}, err
	case authBearer:
		s, err := secret("token_file", cfg.TokenFile)
		return &fixedHeader{"Authorization", s, func(v string) string { return "Bearer " + v }}, err
	case authHeader:
		s, err := secret("value_file", cfg.ValueFile)
		return &fixedHeader{cfg.Header, s, func(v string) string { return v }}, err
	case authOAuth2:
		s, err := secret("client_secret_file", cfg.ClientSecretFile)
		return &tokens{cfg: cfg, secret: s, timeout: timeout, transport: t, now: opts.Now, panics: opts.Panics}, err
	}
	return noCredentials{}, nil
}

// noCredentials is for a legacy that trusts the network.
type noCredentials struct{}

func (noCredentials) header(context.Context) (string, string, error) { return "", "", nil }
func (noCredentials) refused(string) bool                            { return false }

// fixedHeader is a header made of one secret.
type fixedHeader struct {
	name   string
	secret *secretFile
	format func(secret string) string
}

// header reads the secret anew if its file has changed.
func (h *fixedHeader) header(context.Context) (string, string, error) {
	v, err := h.secret.get()
	if err != nil {
		return "", "", err
	}
	return h.name, h.format(v), nil
}

// refused has nothing better to offer: the file is read again anyway.
func (h *fixedHeader) refused(string) bool { return false }
