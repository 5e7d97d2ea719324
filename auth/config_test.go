package auth

import (
	"slices"
	"testing"
	"time"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/yamlfile"
)

func TestConfigYAML(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		check func(Config) bool
	}{
		"file":  {"keys_file: keys.yaml", func(c Config) bool { return c.KeysFile == "keys.yaml" && !c.PepperFile.Set() && c.Redis == nil }},
		"redis": {"redis: {}", func(c Config) bool { return c.Redis != nil && *c.Redis == DefaultRedisConfig() }},
		"redis with a ttl": {"redis: {timeout: 250ms}\ncache_ttl: 5s\nunknown_keys: {per_second: 0}", func(c Config) bool {
			return c.CachePolicy() == CachePolicy{5 * time.Second, 2 * time.Second, 100_000, 250 * time.Millisecond} &&
				c.UnknownKeys == rate.Plan{Burst: 50}
		}},
		"introspection": {"introspection: {url: https://id.example.com/i, timeout: 300ms, claims: {account: org}}", func(c Config) bool {
			want := DefaultIntrospectionConfig()
			want.URL, want.Timeout, want.Claims.Account = "https://id.example.com/i", 300*time.Millisecond, "org"
			return *c.Introspection == want && c.CachePolicy().TTL == 10*time.Second
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			if name != "file" {
				c.KeysFile = "" // as config does
			}
			if err := yamlfile.Decode(tt.text, &c); err != nil {
				t.Fatal(err)
			}
			if !tt.check(c) {
				t.Errorf("decoded %+v", c)
			}
			if err := c.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, text := range []string{"redis: {tll: 5s}", "introspection: {claims: {acount: x}}", "keys: x", "redis: 5"} {
		c := Config{}
		if err := yamlfile.Decode(text, &c); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := DefaultConfig()
		change(&c)
		return c
	}
	intro := func(change func(*IntrospectionConfig)) Config {
		c := DefaultIntrospectionConfig()
		c.URL = "https://id.example.com/introspect"
		change(&c)
		return with(func(all *Config) { all.KeysFile, all.Introspection = "", &c })
	}
	url := func(u string) Config { return intro(func(c *IntrospectionConfig) { c.URL = u }) }
	rc, ic := DefaultRedisConfig(), DefaultIntrospectionConfig()
	tests := map[string]struct {
		cfg  Config
		want []string // fields
	}{
		"file":             {DefaultConfig(), nil},
		"nothing":          {with(func(c *Config) { c.KeysFile = "" }), []string{"keys_file"}},
		"two":              {with(func(c *Config) { c.Redis = &rc }), []string{"keys_file"}},
		"all, no URL":      {with(func(c *Config) { c.Redis, c.Introspection, c.PepperFile = &rc, &ic, secretfile.New("p", testPepper) }), []string{"keys_file", "introspection.url", "pepper_file"}},
		"no certificate":   {intro(func(c *IntrospectionConfig) { c.CAFile = secretfile.New("ca.pem", "no PEM") }), []string{"introspection.ca_file"}},
		"http":             {url("http://id.example.com/"), []string{"introspection.url"}},
		"http to itself":   {url("http://127.0.0.1:9/"), nil},
		"http to itself 6": {url("http://[::1]:9/"), nil},
		"http localhost":   {url("http://localhost:9/"), nil},
		"ftp":              {url("ftp://127.0.0.1/"), []string{"introspection.url"}},
		"password":         {url("https://a:b@id.example.com/"), []string{"introspection.url"}},
		"no URL":           {url("introspect"), []string{"introspection.url"}},
		"not parsable":     {url("https://a b/%%"), []string{"introspection.url"}},
		"half a client":    {intro(func(c *IntrospectionConfig) { c.ClientID = "x" }), []string{"introspection.client_id"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			if err := tt.cfg.Validate(); err != nil {
				for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
					got = append(got, e.(interface{ Field() string }).Field())
					if e.Error() == "" {
						t.Error("an error without a text")
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("problems with %q, want %q", got, tt.want)
			}
		})
	}
}
