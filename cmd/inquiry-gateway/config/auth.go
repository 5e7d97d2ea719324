package config

import (
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/setting"
)

// Auth is the `auth:` section: where keys come from, exactly one of the three.
type Auth struct {
	// KeysFile is the file with the hashes of the keys.
	KeysFile setting.File `yaml:"keys_file"`
	// Redis reads keys from the Redis of the section redis; write {}.
	Redis *keysredis.Config `yaml:"redis"`
	// Introspection asks an authorization server about each key (RFC 7662).
	Introspection *introspect.Config `yaml:"introspection"`
	// PepperFile is a file with a secret, with which keys are hashed by HMAC-SHA-256. Without it: SHA-256.
	PepperFile setting.File `yaml:"pepper_file"`
	// CacheTTL is how long a known key stays valid if it cannot be looked up again, and at most how long a revoked one may be
	// used. Default: 30s with redis, 10s with introspection.
	CacheTTL *time.Duration `yaml:"cache_ttl" min:"0s" max:"10m"`
}

// TTL returns CacheTTL or its default.
func (a Auth) TTL() time.Duration {
	switch {
	case a.CacheTTL != nil:
		return *a.CacheTTL
	case a.Introspection != nil:
		return 10 * time.Second
	}
	return 30 * time.Second
}

// SameStore reports whether keys that are cached under one configuration are valid under the other: the key store, the digests
// and the meaning of its answers are the same.
func (a Auth) SameStore(o Auth) bool {
	if a.PepperFile.Secret() != o.PepperFile.Secret() || a.KeysFile != o.KeysFile || (a.Redis != nil) != (o.Redis != nil) {
		return false
	}
	if a.Introspection == nil || o.Introspection == nil {
		return a.Introspection == o.Introspection
	}
	return a.Introspection.KeepsGrants(*o.Introspection)
}

// Validate returns all contradictions as [setting.Problems]. It does not check the rules of the tags.
func (a Auth) Validate() error {
	var p setting.Problems
	stores := 0
	for _, set := range []bool{a.KeysFile.Set(), a.Redis != nil, a.Introspection != nil} {
		if set {
			stores++
		}
	}
	p.AddIf(stores == 0, "keys_file", "no key store is configured: set one of keys_file, redis, introspection")
	p.AddIf(stores > 1, "keys_file", "more than one key store is configured: leave out all but one of keys_file, redis, introspection")
	if _, err := auth.HasherOf(a.PepperFile); err != nil {
		p.Add("pepper_file", "%v", err)
	}
	if a.Introspection != nil {
		a.Introspection.Check("introspection", &p)
		p.AddIf(a.PepperFile.Set(), "pepper_file", "cannot be used with introspection, which stores no digests: leave it out")
	}
	return p.Err()
}
