package introspect

import (
	"net/netip"
	"net/url"
	"time"

	"inquiry-gateway/internal/setting"
)

// Config is the `auth.introspection:` section (RFC 7662).
type Config struct {
	// URL is the introspection endpoint: https, or http on loopback.
	URL string `yaml:"url" required:"the introspection endpoint, such as https://id.example.com/oauth2/introspect"`
	// Without a client the gateway does not sign in.
	setting.Client `yaml:",inline"`
	// ClientAuth is how the gateway sends client_id and secret: basic (default) or post (RFC 6749, 2.3.1).
	ClientAuth string `yaml:"client_auth" enum:"basic,post"`
	setting.CA `yaml:",inline"`
	// Timeout is the longest time of one request to the server.
	Timeout time.Duration `yaml:"timeout" min:"10ms" max:"10s"`
	// Claims are the names of members in the server's response. A name that is not a member is read as a GJSON path.
	Claims Claims `yaml:"claims"`
}

// Claims names the members of the introspection answer. A name that is
// no member of the answer itself is read as a GJSON path. The names of scope, exp and jti
// are those of RFC 7662, 2.2.
type Claims struct {
	// Account is the member with the account's id: a text or a number.
	Account string `yaml:"account" required:"the member of the answer that names the account"`
	// Kind is the member with buyer or seller.
	Kind string `yaml:"kind" required:"the member of the answer that holds buyer or seller"`
	// APIAccess is the member that says whether the account has paid: "paid", or true.
	APIAccess string `yaml:"api_access" required:"the member of the answer that says whether the account has paid"`
	// Plan is the member with the plan of rate_limit; optional.
	Plan string `yaml:"plan"`
}

// How the gateway authenticates itself at the introspection endpoint.
const (
	ClientAuthBasic = "basic"
	ClientAuthPost  = "post"
)

// DefaultConfig is what is left out of `introspection:`.
func DefaultConfig() Config {
	return Config{
		ClientAuth: ClientAuthBasic, Timeout: 500 * time.Millisecond,
		Claims: Claims{Account: "sub", Kind: "kind", APIAccess: "api_access", Plan: "plan"},
	}
}

// SetDefaults is what the file is read over.
func (c *Config) SetDefaults() { *c = DefaultConfig() }

// KeepsGrants says whether what one server says by one configuration means the same by the other. It may
// tell different clients different things (RFC 7662, 2.2).
func (c Config) KeepsGrants(o Config) bool {
	return c.URL == o.URL && c.Claims == o.Claims && c.ClientID == o.ClientID
}

// Check reports all contradictions in the section of that name. The files that it names have been
// read already.
func (c Config) Check(section string, p *setting.Problems) {
	c.checkURL(section+".url", p)
	p.AddIf((c.ClientID != "") != c.ClientSecretFile.Set(), section+".client_id", "and client_secret_file belong together: set both or none")
	setting.TLS{CA: c.CA}.Config(section, p)
}

// checkURL insists on an encrypted way, since keys travel it.
func (c Config) checkURL(key string, p *setting.Problems) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "":
		p.Add(key, "must be a URL such as https://id.example.com/oauth2/introspect")
	case u.User != nil:
		p.Add(key, "must not hold a user or a password: use client_id and client_secret_file")
	case u.Scheme == "http" && !loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		p.Add(key, "must begin with https://, as keys are sent there")
	}
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
