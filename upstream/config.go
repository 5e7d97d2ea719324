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
	// BaseURL is the address of the legacy system, http or https, without a query.
	BaseURL string `yaml:"base_url" required:"the address of the legacy system, such as https://legacy.internal"`
	// Timeout is that of one whole fetch of a list, repeats and pages included.
	Timeout time.Duration `yaml:"timeout" above:"0s"`
	// MaxResponseBytes bounds all replies to one fetch together, after decompression. The whole list is kept in memory.
	MaxResponseBytes int64 `yaml:"max_response_bytes" above:"0" max:"1GiB"`
	// MaxRecords is how many records one list may have; one with more is refused.
	MaxRecords int `yaml:"max_records" min:"1"`
	// MaxConcurrent is how many fetches run at a time; one more is refused, never queued.
	MaxConcurrent int `yaml:"max_concurrent" min:"1"`
	// Headers are sent with every request. They hold no secrets: those go into auth.
	Headers map[string]string `yaml:"headers"`
	// Auth is how the gateway signs in at the legacy system.
	Auth AuthConfig `yaml:"auth"`
	// TLS is for a legacy system behind a private CA or one that asks for a client
	// certificate. It counts for the token endpoint of auth, too, so ca_file must
	// hold its authority besides where that is another one.
	TLS secretfile.TLS `yaml:"tls"`
	// Retry bounds the repeats of a request that was refused or answered with 502, 503, or a 429 that tells when to come back.
	Retry RetryConfig `yaml:"retry"`
	// Breaker is when to stop asking a legacy system that does not answer.
	Breaker BreakerConfig `yaml:"breaker"`
	// Buyer is how the lists of buyers are asked for and read.
	Buyer mapping.EndpointConfig `yaml:"buyer"`
	// Seller is how the lists of sellers are asked for and read.
	Seller mapping.EndpointConfig `yaml:"seller"`

	// MaxRequestsPerSecond is how many requests all nodes together may send to the
	// legacy in any second, of every sort: pages, further requests, repeats, refreshes,
	// sign-ins. About nine tenths of it can be used steadily. 0: no bound.
	MaxRequestsPerSecond int `yaml:"max_requests_per_second" min:"0" max:"1000000"`
	// MaxNodes is how many nodes share max_requests_per_second while Redis is away; 0: 3,
	// or 1 without Redis.
	MaxNodes int `yaml:"max_nodes" min:"0" max:"1000"`

	// MaxConcurrentPerAccount is how many of max_concurrent one account may take,
	// so that none can keep the others from the legacy. 0: a quarter, at least 1.
	MaxConcurrentPerAccount int `yaml:"max_concurrent_per_account" min:"0"`
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
	// Attempts is how often a request is sent in all, the first included; 1 means no repeat.
	Attempts int `yaml:"attempts" min:"1"`
	// Budget is how many repeats there may be for each request: 0.1 lets one request in ten be repeated. 3 more may come at once, none with 0.
	Budget float64 `yaml:"budget" min:"0" max:"1"`
}

// BreakerConfig is when to stop asking a legacy system that does not answer.
type BreakerConfig struct {
	// Window is the time over which failure_ratio is taken.
	Window time.Duration `yaml:"window" min:"10ms"`
	// MinRequests is how many requests the window must have; below it the ratio says nothing.
	MinRequests int `yaml:"min_requests" min:"1"`
	// FailureRatio opens the breaker: 0.5 when half of the requests fail.
	FailureRatio float64 `yaml:"failure_ratio" above:"0" max:"1"`
	// OpenFor is how long no request is sent; then one is let through as a probe.
	OpenFor time.Duration `yaml:"open_for" above:"0s"`
}

// defaultEndpoint is a list of which nothing is written.
func defaultEndpoint() mapping.EndpointConfig {
	return mapping.EndpointConfig{
		Filtering:       mapping.FilterUpstream,
		RepliesConfig:   mapping.RepliesConfig{Paging: mapping.PagingConfig{Style: mapping.PageNone}},
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
