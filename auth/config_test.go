package auth_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
)

// A key that cannot be looked up again is good for 30 s from Redis and for 10 s from an
// authorization server, unless the configuration says otherwise.
func TestCachePolicy(t *testing.T) {
	redis, introspection, second := auth.DefaultRedisConfig(), auth.DefaultIntrospectionConfig(), time.Second
	c := auth.DefaultConfig()
	c.Redis = &redis
	want := auth.CachePolicy{TTL: 30 * second, NegativeTTL: 2 * second, MaxKeys: 100_000, Timeout: 250 * time.Millisecond}
	if got := c.CachePolicy(); got != want {
		t.Errorf("redis: %+v, want %+v", got, want)
	}
	c.Redis, c.Introspection = nil, &introspection
	want.TTL, want.Timeout = 10*second, 500*time.Millisecond
	if got := c.CachePolicy(); got != want {
		t.Errorf("introspection: %+v, want %+v", got, want)
	}
	c.CacheTTL = &second
	if got := c.CachePolicy(); got.TTL != second {
		t.Errorf("ttl %v, want the configured %v", got.TTL, second)
	}
}

// Each contradiction is told at its key, and all of them at once.
func TestConfigValidate(t *testing.T) {
	with := func(change func(*auth.Config)) auth.Config {
		c := auth.DefaultConfig()
		change(&c)
		return c
	}
	introspecting := func(change func(*auth.IntrospectionConfig)) auth.Config {
		c := auth.DefaultIntrospectionConfig()
		c.URL = "https://id.example.com/introspect"
		change(&c)
		return with(func(all *auth.Config) { all.KeysFile, all.Introspection = "", &c })
	}
	redis, introspection := auth.DefaultRedisConfig(), auth.DefaultIntrospectionConfig()
	type test struct {
		cfg  auth.Config
		want []string // keys
	}
	tests := map[string]test{
		"file":    {auth.DefaultConfig(), nil},
		"nothing": {with(func(c *auth.Config) { c.KeysFile = "" }), []string{"keys_file"}},
		"all, no URL": {with(func(c *auth.Config) {
			c.Redis, c.Introspection, c.PepperFile = &redis, &introspection, setting.NewFile("p", testPepper)
		}), []string{"keys_file", "introspection.url", "pepper_file"}},
		"short pepper": {with(func(c *auth.Config) { c.PepperFile = setting.NewFile("p", "short") }), []string{"pepper_file"}},
		"half a client": {introspecting(func(c *auth.IntrospectionConfig) { c.ClientID = "x" }),
			[]string{"introspection.client_id"}},
		"no certificate": {introspecting(func(c *auth.IntrospectionConfig) { c.CAFile = setting.NewFile("ca.pem", "no PEM") }),
			[]string{"introspection.ca_file"}},
	}
	for _, url := range []string{"https://id.example.com/", "http://127.0.0.1:9/", "http://[::1]:9/", "http://localhost:9/"} {
		tests[url] = test{introspecting(func(c *auth.IntrospectionConfig) { c.URL = url }), nil}
	}
	for _, url := range []string{"http://id.example.com/", "ftp://127.0.0.1/", "https://a:b@id.example.com/", "introspect", "https://a b/%%"} {
		tests[url] = test{introspecting(func(c *auth.IntrospectionConfig) { c.URL = url }), []string{"introspection.url"}}
	}
	for name, tt := range tests {
		var got []string
		problems, _ := errors.AsType[setting.Problems](tt.cfg.Validate())
		for _, p := range problems {
			got = append(got, p.Key)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: problems with %q, want %q", name, got, tt.want)
		}
	}
}
