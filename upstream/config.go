package upstream

import (
	"reflect"
	"time"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream/mapping"
)

// Config is the upstream section of the configuration file: where the legacy
// system is, how hard it may be asked, and how its JSON becomes inquiries.
type Config struct {
	BaseURL          string            `yaml:"base_url"`           // http or https, no query
	Timeout          time.Duration     `yaml:"timeout"`            // of one whole fetch, retries and pages included
	MaxResponseBytes int64             `yaml:"max_response_bytes"` // of all replies to one fetch together, after decompression
	MaxRecords       int               `yaml:"max_records"`        // of one list
	MaxConcurrent    int               `yaml:"max_concurrent"`     // fetches at a time; one more is refused, never queued
	Headers          map[string]string `yaml:"headers"`            // sent with every request; no secrets, those go into auth
	Auth             AuthConfig        `yaml:"auth"`
	// TLS is for a legacy system behind a private CA or one that asks for a client
	// certificate. It counts for the token endpoint of auth, too, so ca_file must
	// hold its authority besides where that is another one.
	TLS     secretfile.TLS         `yaml:"tls"`
	Retry   RetryConfig            `yaml:"retry"`
	Breaker BreakerConfig          `yaml:"breaker"`
	Buyer   mapping.EndpointConfig `yaml:"buyer"` // left out: no list of buyers is served
	Seller  mapping.EndpointConfig `yaml:"seller"`

	// MaxRequestsPerSecond is how many requests all nodes together may send to the
	// legacy in any second, of every sort: pages, further requests, repeats, refreshes,
	// sign-ins. About nine tenths of it can be used steadily. 0: no bound.
	MaxRequestsPerSecond int `yaml:"max_requests_per_second"`
	// MaxNodes is how many nodes share MaxRequestsPerSecond while Redis is away; zero: 3,
	// or 1 without Redis.
	MaxNodes int `yaml:"max_nodes"`

	// MaxConcurrentPerAccount is how many of max_concurrent one account may take,
	// so that none can keep the others from the legacy. 0: a quarter, at least 1.
	MaxConcurrentPerAccount int `yaml:"max_concurrent_per_account"`
}

// perAccount is the bound in force for one account.
func (c *Config) perAccount() int {
	if c.MaxConcurrentPerAccount > 0 {
		return c.MaxConcurrentPerAccount
	}
	return max(1, c.MaxConcurrent/4)
}

// Endpoint is the section of one list, to read or to change.
func (c *Config) Endpoint(kind string) *mapping.EndpointConfig {
	if kind == "seller" {
		return &c.Seller
	}
	return &c.Buyer
}

// Kinds are the lists that the configuration has: one of the two sections may be left out.
func (c Config) Kinds() (kinds []string) {
	for _, kind := range []string{"buyer", "seller"} {
		if ec := c.Endpoint(kind); !reflect.DeepEqual(*ec, defaultEndpoint()) && !reflect.DeepEqual(*ec, mapping.EndpointConfig{}) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// endpoints are the configurations of these lists, by kind.
func (c Config) endpoints() map[string]mapping.EndpointConfig {
	all := map[string]mapping.EndpointConfig{}
	for _, kind := range c.Kinds() {
		all[kind] = *c.Endpoint(kind)
	}
	return all
}

// RetryConfig bounds the repeats of a request that was refused or answered
// with 502, 503, or a 429 that tells when to come back. Nothing else is ever repeated.
type RetryConfig struct {
	Attempts int     `yaml:"attempts"` // in all, the first included; 1 means no repeat
	Budget   float64 `yaml:"budget"`   // repeats per request, 0 to 1; 3 more may come at once, none with 0
}

// BreakerConfig is when to stop asking a legacy system that does not answer.
type BreakerConfig struct {
	Window       time.Duration `yaml:"window"`        // over which the ratio is taken
	MinRequests  int           `yaml:"min_requests"`  // below it the ratio says nothing
	FailureRatio float64       `yaml:"failure_ratio"` // above 0, at most 1
	OpenFor      time.Duration `yaml:"open_for"`      // then one request is let through as a probe
}

// defaultEndpoint is a list of which nothing is written.
func defaultEndpoint() mapping.EndpointConfig {
	return mapping.EndpointConfig{
		Filtering:       mapping.FilterUpstream,
		Paging:          mapping.PagingConfig{Style: mapping.PageNone},
		OnInvalidRecord: "fail",
		OnForeignRecord: "fail",
	}
}

// DefaultConfig is everything that has a usable default. The base URL and the
// two endpoints have none.
func DefaultConfig() Config {
	return Config{
		Timeout:          2 * time.Second,
		MaxResponseBytes: 16 << 20,
		MaxRecords:       10_000,
		MaxConcurrent:    64,
		Auth:             AuthConfig{Type: "none"},
		Retry:            RetryConfig{Attempts: 2, Budget: 0.1},
		Breaker: BreakerConfig{
			Window: 10 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 5 * time.Second,
		},
		Buyer:  defaultEndpoint(),
		Seller: defaultEndpoint(),
	}
}
