package auth

import (
	"net/netip"
	"net/url"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
)

// Config is the `auth:` section: where keys come from, exactly one of the three.
type Config struct {
	KeysFile      string               `yaml:"keys_file"`     // the file of the keys
	Redis         *RedisConfig         `yaml:"redis"`         // keys in the Redis of the section redis
	Introspection *IntrospectionConfig `yaml:"introspection"` // keys that an authorization server knows (RFC 7662)
	PepperFile    secretfile.File      `yaml:"pepper_file"`   // makes digests HMAC-SHA-256; empty: SHA-256
	Cache         CacheConfig          `yaml:"cache"`         // what a node stores of answers about keys in Redis or at an authorization server
	UnknownKeys   UnknownKeysConfig    `yaml:"unknown_keys"`  // how many keys that do not exist one client address may send; more get 429
}

// CacheConfig is the `auth.cache:` section.
type CacheConfig struct {
	TTL         *time.Duration `yaml:"ttl"`          // how long a key is good that cannot be looked up again, never past its end; left out: 30s with redis, 10s with introspection
	NegativeTTL time.Duration  `yaml:"negative_ttl"` // how long an unknown key is not asked for again
	MaxKeys     int            `yaml:"max_keys"`     // how many keys are stored on a node
}

// UnknownKeysConfig is the `auth.unknown_keys:` section.
type UnknownKeysConfig struct {
	PerSecond float64 `yaml:"per_second"` // unknown keys of one address in the long run; 0: no limit
	Burst     int     `yaml:"burst"`      // unknown keys of one address at once
}

// RedisConfig is the `auth.redis:` section. `{}` means the defaults.
type RedisConfig struct {
	Timeout time.Duration `yaml:"timeout"` // how long a lookup in Redis may take
	Poll    time.Duration `yaml:"poll"`    // how often the version is read, for what pub/sub loses
}

// IntrospectionConfig is the `auth.introspection:` section (RFC 7662).
type IntrospectionConfig struct {
	URL              string          `yaml:"url"`                           // of the introspection endpoint: https, or http on loopback
	ClientID         string          `yaml:"client_id"`                     // the gateway's own name at the server; empty: no client authentication
	ClientSecretFile secretfile.File `yaml:"client_secret_file"`            // the gateway's own secret, with client_id
	ClientAuth       string          `yaml:"client_auth" enum:"basic,post"` // how the gateway sends client_id and secret: basic (default) or post (RFC 6749, 2.3.1)
	CAFile           secretfile.File `yaml:"ca_file"`                       // PEM of the authorities that the server's certificate is checked against; empty: the system's
	Timeout          time.Duration   `yaml:"timeout"`                       // how long the server may take to answer
	Claims           ClaimsConfig    `yaml:"claims"`                        // the members of the server's answer
}

// ClaimsConfig names the members of the introspection answer. A name that is
// no member of the answer itself is read as a GJSON path.
type ClaimsConfig struct {
	Account   string `yaml:"account"`    // names the account: a string or a number
	Kind      string `yaml:"kind"`       // holds the kind: buyer or seller
	Scope     string `yaml:"scope"`      // holds the scopes: a string with blanks, or an array
	APIAccess string `yaml:"api_access"` // says whether the account has paid: "paid", or true
	Plan      string `yaml:"plan"`       // names the plan of rate_limit; may be absent
	KeyID     string `yaml:"key_id"`     // names the key in logs; may be absent
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
		Cache:       CacheConfig{NegativeTTL: 2 * time.Second, MaxKeys: 100_000},
		UnknownKeys: UnknownKeysConfig{PerSecond: 5, Burst: 50},
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
		Claims: ClaimsConfig{Account: "sub", Kind: "kind", Scope: "scope", APIAccess: "api_access", Plan: "plan", KeyID: "jti"},
	}
}

// CachePolicy is what the store of the source that is set works with.
func (c Config) CachePolicy() CachePolicy {
	p := CachePolicy{TTL: 30 * time.Second, NegativeTTL: c.Cache.NegativeTTL, MaxKeys: c.Cache.MaxKeys}
	switch {
	case c.Introspection != nil:
		p.TTL, p.Timeout = 10*time.Second, c.Introspection.Timeout
	case c.Redis != nil:
		p.Timeout = c.Redis.Timeout
	}
	if c.Cache.TTL != nil {
		p.TTL = *c.Cache.TTL
	}
	return p
}

// SameSource says whether what a node knows of keys by one configuration counts by the other:
// both ask the same sort of store about the same digests.
func (c Config) SameSource(o Config) bool {
	return c.PepperFile.Secret() == o.PepperFile.Secret() &&
		(c.Redis != nil && o.Redis != nil || c.Introspection != nil && o.Introspection != nil)
}

// UnmarshalYAML decodes over the defaults.
func (c *RedisConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain RedisConfig
	*c = DefaultRedisConfig()
	return unmarshal((*plain)(c))
}

// UnmarshalYAML decodes over the defaults.
func (c *IntrospectionConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain IntrospectionConfig
	*c = DefaultIntrospectionConfig()
	return unmarshal((*plain)(c))
}

// Validate reports everything that is wrong; each joined error has a method
// Field() with the key's path.
func (c Config) Validate() error {
	var errs invalid.Problems
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
	if c.Cache.TTL != nil {
		errs.Within("cache.ttl", *c.Cache.TTL, 0, maxTTL)
	}
	errs.Within("cache.negative_ttl", c.Cache.NegativeTTL, 0, maxNegativeTTL)
	errs.AddIf(c.Cache.MaxKeys < 1, "cache.max_keys", "is %d: use 1 or more", c.Cache.MaxKeys)
	errs.AddIf(c.UnknownKeys.PerSecond < 0, "unknown_keys.per_second", "is %v: use 0 (no limit) or more", c.UnknownKeys.PerSecond)
	errs.AddIf(c.UnknownKeys.PerSecond > 0 && c.UnknownKeys.Burst < 1, "unknown_keys.burst", "is %d: use 1 or more", c.UnknownKeys.Burst)
	if c.Redis != nil {
		errs.Within("redis.timeout", c.Redis.Timeout, minTimeout, maxTimeout)
		errs.Within("redis.poll", c.Redis.Poll, minPoll, maxPoll)
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

// The bounds of times that decide how long a revoked key stays good.
const (
	maxTTL         = 10 * time.Minute
	maxNegativeTTL = time.Minute
	minTimeout     = 10 * time.Millisecond
	maxTimeout     = 10 * time.Second
	minPoll        = 50 * time.Millisecond
	maxPoll        = 30 * time.Second
)

// validate reports what is wrong with the section. The files that it names have been read
// already.
func (c IntrospectionConfig) validate(errs *invalid.Problems) {
	c.validateURL(errs)
	errs.Within("introspection.timeout", c.Timeout, minTimeout, maxTimeout)
	errs.Enums("introspection", c)
	if (c.ClientID != "") != c.ClientSecretFile.Set() {
		errs.Add("introspection.client_id", "and client_secret_file belong together: set both or none")
	}
	secretfile.TLS{CAFile: c.CAFile}.Config("introspection", errs)
	for field, claim := range map[string]string{"account": c.Claims.Account, "kind": c.Claims.Kind, "scope": c.Claims.Scope, "api_access": c.Claims.APIAccess} {
		errs.AddIf(claim == "", "introspection.claims."+field, "is empty: name the member of the answer that holds it")
	}
}

// validateURL insists on an encrypted way, since keys travel it.
func (c IntrospectionConfig) validateURL(errs *invalid.Problems) {
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
