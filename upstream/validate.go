package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Validate reports every mistake, joined. Each of the joined errors has a
// method Field() string with the key's path within the section, and a text that
// says what is wrong and what to do.
func (c Config) Validate() error {
	p := &problems{}
	c.check(p)
	compileEndpoint("buyer", c.Buyer, p)
	compileEndpoint("seller", c.Seller, p)
	return p.err()
}

// check reports what is wrong outside of the two endpoints.
func (c Config) check(p *problems) {
	c.checkAddress(p)
	positive := func(field string, ok bool, example string) {
		if !ok {
			p.add(field, "must be greater than zero, for instance %s", example)
		}
	}
	positive("timeout", c.Timeout > 0, "2s")
	positive("max_response_bytes", c.MaxResponseBytes > 0, "16MiB")
	if c.MaxResponseBytes > 1<<30 {
		p.add("max_response_bytes", "must be at most 1GiB; the whole list is kept in memory")
	}
	positive("max_records", c.MaxRecords > 0, "10000")
	positive("max_concurrent", c.MaxConcurrent > 0, "64")
	if n := c.MaxConcurrentPerAccount; n < 0 || n > max(c.MaxConcurrent, 0) {
		p.add("max_concurrent_per_account", "must be between 1 and max_concurrent (%d); leave it out for a quarter of that", c.MaxConcurrent)
	}
	positive("retry.attempts", c.Retry.Attempts > 0, "2; 1 means no repeat")
	positive("breaker.window", c.Breaker.Window >= 10*time.Millisecond, "10s")
	positive("breaker.min_requests", c.Breaker.MinRequests > 0, "20")
	positive("breaker.open_for", c.Breaker.OpenFor > 0, "5s")
	if !(c.Retry.Budget >= 0 && c.Retry.Budget <= 1) {
		p.add("retry.budget", "must be between 0 and 1; 0.1 lets one request in ten be repeated")
	}
	if r := c.Breaker.FailureRatio; !(r > 0 && r <= 1) {
		p.add("breaker.failure_ratio", "must be above 0 and at most 1; 0.5 opens it when half of the requests fail")
	}
	c.Auth.check(p)
	c.TLS.check(c.BaseURL, p)
}

// checkAddress checks where requests go and what they carry.
func (c Config) checkAddress(p *problems) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		p.add("base_url", "missing: the address of the legacy system, such as https://legacy.internal")
	case err != nil:
		p.add("base_url", "not a URL; write something like https://legacy.internal")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.add("base_url", "must be an absolute http or https URL such as https://legacy.internal")
	case u.User != nil:
		p.add("base_url", "must not hold a user or password; use auth")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		p.add("base_url", "must not hold a query; put parameters under query of the endpoint")
	}
	for name, value := range c.Headers {
		field := "headers." + name
		switch {
		case !validHeader(name, value):
			p.add(field, "not a valid HTTP header")
		case strings.Contains(value, "{"+varAccount+"}") || strings.Contains(value, "{"+varStatus+"}") || strings.Contains(value, "{"+varType+"}"):
			p.add(field, "placeholders have a meaning in path and query only; a header is the same for every request")
		case reserved(name):
			p.add(field, "the gateway sets this header itself; remove it (for credentials use auth)")
		case http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(c.Auth.Header):
			p.add(field, "auth sets this header; remove it here")
		}
	}
}

// validHeader tells whether name and value can be sent (RFC 9110, 5.1 and
// 5.5). net/http would refuse the others, but only with the first request.
func validHeader(name, value string) bool {
	if name == "" || strings.ContainsAny(value, "\r\n\x00") {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// reserved names the headers whose meaning this package depends on.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept-Encoding", "Connection", "Content-Length", "Cookie", "Host", "Transfer-Encoding", "Via", "X-Request-Id", "Range", "If-None-Match", "If-Modified-Since":
		return true
	case "Authorization", "Proxy-Authorization":
		return true
	}
	return false
}
