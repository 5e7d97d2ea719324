package auth

import (
	"net/netip"
	"net/url"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
)

// Config is the `auth:` section: where keys come from, exactly one of the
// three, and whether their digests have a pepper.
type Config struct {
	KeysFile      string               `yaml:"keys_file"`     // the file of the keys
	Redis         *RedisConfig         `yaml:"redis"`         // keys in the Redis of the section redis
	Introspection *IntrospectionConfig `yaml:"introspection"` // keys that an authorization server knows (RFC 7662)
	PepperFile    secretfile.File      `yaml:"pepper_file"`   // makes digests HMAC-SHA-256; empty: SHA-256

	// UnknownKeys is for a keys file; the other sources have one of their own.
	// Nil: the defaults.
	UnknownKeys *AttemptsConfig `yaml:"unknown_keys"`
}

// Attempts is the limit of the source that is set.
func (c Config) Attempts() AttemptsConfig {
	switch {
	case c.Redis != nil:
		return c.Redis.UnknownKeys
	case c.Introspection != nil:
		return c.Introspection.UnknownKeys
	case c.UnknownKeys != nil:
		return *c.UnknownKeys
	}
	return defaultAttempts()
}

// RedisConfig is the `auth.redis:` section. `{}` means the defaults.
type RedisConfig struct {
	TTL         time.Duration  `yaml:"ttl"`          // how long a key is good without Redis being reached
	NegativeTTL time.Duration  `yaml:"negative_ttl"` // how long an unknown key is not asked for again
	Timeout     time.Duration  `yaml:"timeout"`      // of one lookup
	Poll        time.Duration  `yaml:"poll"`         // how often the version is read, for what pub/sub loses
	MaxKeys     int            `yaml:"max_keys"`     // how many keys are stored on a node
	UnknownKeys AttemptsConfig `yaml:"unknown_keys"`
}

// IntrospectionConfig is the `auth.introspection:` section (RFC 7662).
type IntrospectionConfig struct {
	URL              string          `yaml:"url"`                           // https, or http on loopback
	ClientID         string          `yaml:"client_id"`                     // empty: no client authentication
	ClientSecretFile secretfile.File `yaml:"client_secret_file"`            // with client_id
	ClientAuth       string          `yaml:"client_auth" enum:"basic,post"` // basic (default) or post (RFC 6749, 2.3.1)
	CAFile           secretfile.File `yaml:"ca_file"`                       // PEM; empty: the system's
	Timeout          time.Duration   `yaml:"timeout"`                       // of one lookup
	TTL              time.Duration   `yaml:"ttl"`                           // how long an answer is good, never past exp
	NegativeTTL      time.Duration   `yaml:"negative_ttl"`                  // how long an inactive key is not asked for again
	MaxKeys          int             `yaml:"max_keys"`                      // how many keys are stored on a node
	Claims           ClaimsConfig    `yaml:"claims"`
	UnknownKeys      AttemptsConfig  `yaml:"unknown_keys"`
}

// ClaimsConfig names the members of the introspection answer. A name that is
// no member of the answer itself is read as a GJSON path.
type ClaimsConfig struct {
	Account   string `yaml:"account"`    // a string or a number
	Kind      string `yaml:"kind"`       // buyer or seller
	Scope     string `yaml:"scope"`      // a string with blanks, or an array
	APIAccess string `yaml:"api_access"` // paid, or true
	Plan      string `yaml:"plan"`       // a string; may be absent
	KeyID     string `yaml:"key_id"`     // a string for logs; may be absent
}

// AttemptsConfig limits how many keys that do not exist one client address may
// send; more are answered with 429, and the store is not asked about them.
// PerSecond 0 means no limit.
type AttemptsConfig struct {
	PerSecond float64 `yaml:"per_second"`
	Burst     int     `yaml:"burst"`
}

// UnmarshalYAML decodes over the defaults.
func (c *AttemptsConfig) UnmarshalYAML(unmarshal func(any) error) error {
	type plain AttemptsConfig // without this method
	*c = defaultAttempts()
	return unmarshal((*plain)(c))
}

// How the gateway authenticates itself at the introspection endpoint.
const (
	ClientAuthBasic = "basic"
	ClientAuthPost  = "post"
)

// DefaultRedisConfig is what `redis: {}` means.
func DefaultRedisConfig() RedisConfig {
	return RedisConfig{
		TTL: 30 * time.Second, NegativeTTL: 2 * time.Second, Timeout: 250 * time.Millisecond,
		Poll: 500 * time.Millisecond, MaxKeys: 100_000, UnknownKeys: defaultAttempts(),
	}
}

// DefaultIntrospectionConfig is what is left out of `introspection:`.
func DefaultIntrospectionConfig() IntrospectionConfig {
	return IntrospectionConfig{
		ClientAuth: ClientAuthBasic, Timeout: 500 * time.Millisecond,
		TTL: 10 * time.Second, NegativeTTL: 2 * time.Second, MaxKeys: 100_000,
		Claims: ClaimsConfig{
			Account: "sub", Kind: "kind", Scope: "scope", APIAccess: "api_access", Plan: "plan", KeyID: "jti",
		},
		UnknownKeys: defaultAttempts(),
	}
}

func defaultAttempts() AttemptsConfig { return AttemptsConfig{PerSecond: 5, Burst: 50} }

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
	if c.UnknownKeys != nil {
		c.UnknownKeys.validate("unknown_keys", &errs)
		if c.Redis != nil || c.Introspection != nil {
			errs.Add("unknown_keys", "is for a keys file: put it into redis or introspection, whichever is set")
		}
	}
	if c.Redis != nil {
		c.Redis.validate(&errs)
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

// validate reports what would keep the store from working, or a revoked key good for long.
func (c RedisConfig) validate(errs *invalid.Problems) {
	errs.Within("redis.ttl", c.TTL, time.Second, maxTTL)
	errs.Within("redis.negative_ttl", c.NegativeTTL, 0, maxNegativeTTL)
	errs.Within("redis.timeout", c.Timeout, minTimeout, maxTimeout)
	errs.Within("redis.poll", c.Poll, minPoll, maxPoll)
	validateMemory("redis", c.MaxKeys, c.UnknownKeys, errs)
}

// validate reports what is wrong with the section. The files that it names have been read
// already.
func (c IntrospectionConfig) validate(errs *invalid.Problems) {
	c.validateURL(errs)
	errs.Within("introspection.timeout", c.Timeout, minTimeout, maxTimeout)
	errs.Within("introspection.ttl", c.TTL, 0, maxTTL)
	errs.Within("introspection.negative_ttl", c.NegativeTTL, 0, maxNegativeTTL)
	validateMemory("introspection", c.MaxKeys, c.UnknownKeys, errs)
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

func validateMemory(section string, maxKeys int, a AttemptsConfig, errs *invalid.Problems) {
	errs.AddIf(maxKeys < 1, section+".max_keys", "is %d: use 1 or more", maxKeys)
	a.validate(section+".unknown_keys", errs)
}

func (a AttemptsConfig) validate(section string, errs *invalid.Problems) {
	errs.AddIf(a.PerSecond < 0, section+".per_second", "is %v: use 0 (no limit) or more", a.PerSecond)
	errs.AddIf(a.PerSecond > 0 && a.Burst < 1, section+".burst", "is %d: use 1 or more", a.Burst)
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
