package auth

import (
	"net/netip"
	"net/url"
	"time"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/setting"
)

// Config is the `auth:` section: where keys come from, exactly one of the three.
type Config struct {
	// KeysFile is the file of the keys.
	KeysFile string `yaml:"keys_file"`
	// Redis takes keys from the Redis of the section redis.
	Redis *RedisConfig `yaml:"redis"`
	// Introspection asks an authorization server about each key (RFC 7662).
	Introspection *IntrospectionConfig `yaml:"introspection"`
	// PepperFile holds a secret that makes digests of keys HMAC-SHA-256. Empty: SHA-256.
	PepperFile setting.File `yaml:"pepper_file"`
	// CacheTTL is how long a key in Redis or at an authorization server is good that cannot be looked up again, never past its
	// end: so long may a revoked one be used. Left out: 30s with redis, 10s with introspection.
	CacheTTL *time.Duration `yaml:"cache_ttl" min:"0s" max:"10m"`
	// UnknownKeys is how many keys that do not exist one client address may send to a node. More are answered with 429.
	UnknownKeys rate.Plan `yaml:"unknown_keys"`
}

const (
	// An unknown key is not asked for again so long: who makes a key may use it 2 s later.
	negativeTTL = 2 * time.Second
	// So many good keys are stored on a node; of more the ones used least are asked for again.
	maxKeys = 100_000
)

// RedisConfig is the `auth.redis:` section. `{}` means the defaults.
type RedisConfig struct {
	// Timeout is how long a lookup in Redis may take.
	Timeout time.Duration `yaml:"timeout" min:"10ms" max:"10s"`
	// Poll is how often each node asks Redis whether a key has changed, for what its messages
	// lose. It is no key of the file.
	Poll time.Duration `yaml:"-"`
}

// IntrospectionConfig is the `auth.introspection:` section (RFC 7662).
type IntrospectionConfig struct {
	// URL is that of the introspection endpoint: https, or http on loopback.
	URL string `yaml:"url" required:"the introspection endpoint, such as https://id.example.com/oauth2/introspect"`
	// Without a client the gateway does not sign in.
	setting.Client `yaml:",inline"`
	// ClientAuth is how the gateway sends client_id and secret: basic (default) or post (RFC 6749, 2.3.1).
	ClientAuth string `yaml:"client_auth" enum:"basic,post"`
	setting.CA `yaml:",inline"`
	// Timeout is how long the server may take to answer.
	Timeout time.Duration `yaml:"timeout" min:"10ms" max:"10s"`
	// Claims names the members of the server's answer. A name that is no member is read as a GJSON path.
	Claims ClaimsConfig `yaml:"claims"`
}

// ClaimsConfig names the members of the introspection answer. A name that is
// no member of the answer itself is read as a GJSON path. The names of scope, exp and jti
// are those of RFC 7662, 2.2.
type ClaimsConfig struct {
	// Account is the member that names the account: a text or a number.
	Account string `yaml:"account" required:"the member of the answer that names the account"`
	// Kind is the member that holds buyer or seller.
	Kind string `yaml:"kind" required:"the member of the answer that holds buyer or seller"`
	// APIAccess is the member that says whether the account has paid: "paid", or true.
	APIAccess string `yaml:"api_access" required:"the member of the answer that says whether the account has paid"`
	// Plan is the member that names the plan of rate_limit; an answer may lack it.
	Plan string `yaml:"plan"`
}

// How the gateway authenticates itself at the introspection endpoint.
const (
	ClientAuthBasic = "basic"
	ClientAuthPost  = "post"
)

// DefaultConfig is what is left out of `auth:`.
func DefaultConfig() Config {
	return Config{
		KeysFile:    "keys.yaml",
		UnknownKeys: rate.Plan{PerSecond: 5, Burst: 50},
	}
}

// DefaultRedisConfig is what `redis: {}` means.
func DefaultRedisConfig() RedisConfig {
	return RedisConfig{Timeout: 250 * time.Millisecond, Poll: 500 * time.Millisecond}
}

// DefaultIntrospectionConfig is what is left out of `introspection:`.
func DefaultIntrospectionConfig() IntrospectionConfig {
	return IntrospectionConfig{
		ClientAuth: ClientAuthBasic, Timeout: 500 * time.Millisecond,
		Claims: ClaimsConfig{Account: "sub", Kind: "kind", APIAccess: "api_access", Plan: "plan"},
	}
}

// CachePolicy is what the store of the source that is set works with.
func (c Config) CachePolicy() CachePolicy {
	p := CachePolicy{TTL: 30 * time.Second, NegativeTTL: negativeTTL, MaxKeys: maxKeys}
	switch {
	case c.Introspection != nil:
		p.TTL, p.Timeout = 10*time.Second, c.Introspection.Timeout
	case c.Redis != nil:
		p.Timeout = c.Redis.Timeout
	}
	if c.CacheTTL != nil {
		p.TTL = *c.CacheTTL
	}
	return p
}

// SameSource says whether what a node knows of keys by one configuration counts by the other: the
// same source is asked about the same digests, and what it says means the same. An authorization
// server may tell different clients different things (RFC 7662, 2.2).
func (c Config) SameSource(o Config) bool {
	if c.PepperFile.Secret() != o.PepperFile.Secret() || c.KeysFile != o.KeysFile || (c.Redis != nil) != (o.Redis != nil) {
		return false
	}
	a, b := c.Introspection, o.Introspection
	if a == nil || b == nil {
		return a == b
	}
	return a.URL == b.URL && a.Claims == b.Claims && a.ClientID == b.ClientID
}

// SetDefaults is what the file is read over.
func (c *RedisConfig) SetDefaults() { *c = DefaultRedisConfig() }

// SetDefaults is what the file is read over.
func (c *IntrospectionConfig) SetDefaults() { *c = DefaultIntrospectionConfig() }

// Validate reports all contradictions; each joined error has a method Field() with the
// key's path. That each value keeps the bounds of its tag is for the reader of the file to check.
func (c Config) Validate() error {
	var errs setting.Problems
	sources := 0
	for _, set := range []bool{c.KeysFile != "", c.Redis != nil, c.Introspection != nil} {
		if set {
			sources++
		}
	}
	switch {
	case sources == 0:
		errs.Add("keys_file", "no source of keys is set: set one of keys_file, redis, introspection")
	case sources > 1:
		errs.Add("keys_file", "more than one source of keys is set: leave one of keys_file, redis, introspection")
	}
	if _, err := HasherOf(c.PepperFile); err != nil {
		errs.Add("pepper_file", "%v", err)
	}
	if c.Introspection != nil {
		c.Introspection.validate(&errs)
		errs.AddIf(c.PepperFile.Set(), "pepper_file", "is of no use with introspection, which stores no digests: leave it out")
	}
	return errs.Err()
}

// validate reports what is wrong with the section. The files that it names have been read
// already.
func (c IntrospectionConfig) validate(errs *setting.Problems) {
	c.validateURL(errs)
	if (c.ClientID != "") != c.ClientSecretFile.Set() {
		errs.Add("introspection.client_id", "and client_secret_file belong together: set both or none")
	}
	setting.TLS{CA: c.CA}.Config("introspection", errs)
}

// validateURL insists on an encrypted way, since keys travel it.
func (c IntrospectionConfig) validateURL(errs *setting.Problems) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "":
		errs.Add("introspection.url", "must be a URL such as https://id.example.com/oauth2/introspect")
	case u.User != nil:
		errs.Add("introspection.url", "must not hold a user or a password: use client_id and client_secret_file")
	case u.Scheme == "http" && !loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		errs.Add("introspection.url", "must begin with https://, as keys are sent there")
	}
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
