package upstream

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// Config is the upstream section of the configuration file: where the legacy
// system is, how hard it may be asked, and how its JSON becomes inquiries.
type Config struct {
	// BaseURL is the address of the legacy system, http or https, without a query.
	BaseURL string `yaml:"base_url" required:"the address of the legacy system, such as https://legacy.internal"`
	// Timeout is that of one attempt of one request; a whole list has request_timeout.
	Timeout time.Duration `yaml:"timeout" above:"0s"`
	// MaxResponseBytes bounds all replies to one fetch together, after decompression. The whole list is kept in memory.
	MaxResponseBytes int64 `yaml:"max_response_bytes" above:"0" max:"1GiB"`
	// MaxRecords is how many records one list may have; one with more is refused.
	MaxRecords int `yaml:"max_records" min:"1"`
	// MaxConcurrent is how many requests are under way at a time, of every sort. A list that would be one more is refused, never
	// queued. What a list asks for besides (pages, details, responses) takes up to half of them, and else waits for its own others.
	MaxConcurrent int `yaml:"max_concurrent" min:"1"`
	// Headers are sent with every request. They hold no secrets: those go into auth.
	Headers map[string]string `yaml:"headers"`
	// Auth is how the gateway signs in at the legacy system.
	Auth AuthConfig `yaml:"auth"`
	// TLS is for a legacy system behind a private CA or one that asks for a client
	// certificate. It counts for the token endpoint of auth, too, so ca_file must
	// hold its authority besides where that is another one.
	TLS setting.TLS `yaml:"tls"`
	// Attempts is how often a request is sent in all that was refused or answered with 502, 503, or a 429 that tells when to come
	// back. One request in ten may be repeated at all. 1, for a legacy system that bears no repeat: none.
	Attempts int `yaml:"attempts" min:"1"`
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

	// MaxConcurrentPerAccount is how many of max_concurrent one account may take, in the same way,
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

// BreakerWindow is the time over which breaker.min_requests and breaker.failure_ratio are taken.
const BreakerWindow = 10 * time.Second

// BreakerConfig is when to stop asking a legacy system that does not answer.
type BreakerConfig struct {
	// MinRequests is how many fetches there must be in 10 s; of fewer the ratio says nothing. Less is for few callers.
	MinRequests int `yaml:"min_requests" min:"1"`
	// FailureRatio opens the breaker: with 0.5 an account fails when half of its fetches do, and the legacy when half of the accounts do.
	// One account that fails beside others that work opens nothing; one that fails alone is held alone.
	FailureRatio float64 `yaml:"failure_ratio" above:"0" max:"1"`
	// OpenFor is how long nothing is fetched, so that the legacy can recover; then one list at a time is, as a probe.
	OpenFor time.Duration `yaml:"open_for" above:"0s"`
}

// defaultEndpoint is a list of which nothing is written.
func defaultEndpoint() mapping.EndpointConfig {
	return mapping.EndpointConfig{
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
		Attempts:         2,
		Breaker:          BreakerConfig{MinRequests: 20, FailureRatio: 0.5, OpenFor: 5 * time.Second},
		Buyer:            defaultEndpoint(),
		Seller:           defaultEndpoint(),
	}
}

// Validate reports every mistake, joined. Each of the joined errors is an
// [*setting.Error] with the key's path within the section.
func (c Config) Validate() error {
	p := &setting.Problems{}
	c.checkLimits(p)
	c.checkBaseURL(p)
	c.checkHeaders(p)
	c.Auth.check(c.BaseURL, p)
	c.checkOwnHeaders("auth.login.headers.", c.Auth.Login.Headers, p)
	c.TLS.Config("tls", p)
	p.AddIf(c.TLS != (setting.TLS{}) && strings.HasPrefix(strings.ToLower(c.BaseURL), "http:"), "tls",
		"base_url is plain http, so the files would not be used; change base_url or empty them")
	p.AddIf(len(c.Kinds()) == 0, "buyer", "missing, as is seller: add one of the two lists, or both")
	for kind, ec := range c.endpoints() {
		mapping.Compile(kind, ec, c.BaseURL, c.MaxRecords, p)
		c.checkOwnHeaders(kind+".headers.", ec.Headers, p)
		c.checkOwnHeaders(kind+".fields.responses.fetch.headers.", ec.Fields.Responses.Fetch.Headers, p)
		c.checkOwnHeaders(kind+".details.fetch.headers.", ec.Details.Fetch.Headers, p)
	}
	return p.Err()
}

// checkLimits checks what bounds of how hard the legacy may be asked contradict each other.
func (c Config) checkLimits(p *setting.Problems) {
	p.AddIf(c.MaxConcurrentPerAccount > c.MaxConcurrent, "max_concurrent_per_account",
		"must be between 1 and max_concurrent (%d); leave it out for a quarter of that", c.MaxConcurrent)
	p.AddIf(c.MaxNodes > 0 && c.MaxRequestsPerSecond == 0, "max_nodes", "has no meaning without max_requests_per_second; remove it")
}

// checkBaseURL wants an address to which paths can be added. Its messages do not repeat the
// text: it may have a password in it.
func (c Config) checkBaseURL(p *setting.Problems) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "": // its tag tells
	case err != nil:
		p.Add("base_url", "not a URL; write something like https://legacy.internal")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.Add("base_url", "must be an absolute http or https URL such as https://legacy.internal")
	case u.User != nil:
		p.Add("base_url", "must not hold a user or password; use auth")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		p.Add("base_url", "must not hold a query; put parameters under query of the endpoint")
	}
}

// checkHeaders checks the headers of every request. A header with a placeholder would be
// sent as it stands, so it is refused.
func (c Config) checkHeaders(p *setting.Problems) {
	placeholders := strings.NewReplacer("{"+address.Account+"}", "", "{"+address.Status+"}", "", "{"+address.Type+"}", "")
	for name, value := range c.Headers {
		field := "headers." + name
		switch {
		case !validHeader(name, value):
			p.Add(field, "not a valid HTTP header")
		case placeholders.Replace(value) != value:
			p.Add(field, "placeholders have a meaning in path, query and body only; a header is the same for every request")
		}
	}
	c.checkOwnHeaders("headers.", c.Headers, p)
}

// checkOwnHeaders finds headers that have a meaning of their own.
func (c Config) checkOwnHeaders(at string, headers map[string]string, p *setting.Problems) {
	for name := range headers {
		p.AddIf(reserved(name), at+name, "the gateway sets this header itself; remove it (for credentials use auth)")
		p.AddIf(http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(c.Auth.headerName()), at+name, "auth sets this header; remove it here")
	}
}

// validHeader tells whether name and value can be sent (RFC 9110, 5.1 and
// 5.5). net/http would refuse the others, but only with the first request.
func validHeader(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// reserved names the headers whose meaning this package depends on.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept-Encoding", "Connection", "Content-Length", "Cookie", "Host", "Transfer-Encoding", "Via", "X-Request-Id", "Range",
		"If-None-Match", "If-Modified-Since", "Authorization", "Proxy-Authorization":
		return true
	}
	return false
}
