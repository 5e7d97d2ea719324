// Package config reads the gateway's one YAML file and the files that it names.
package config

import (
	"crypto/tls"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
)

//go:generate go run ./gen

// Config is the whole configuration file, as returned by Load or, without a file, by Default. It is immutable after Load and may
// be shared between goroutines.
type Config struct {
	// Listen is host:port of the public API. Without a host it is every address of the machine.
	Listen string `yaml:"listen" form:"listen"`
	// Ops is the second listener, for operators.
	Ops Ops `yaml:"ops"`
	// MaxConnections is the maximum of open connections to listen. At the limit unauthenticated connections are closed for
	// new ones; if all are authenticated, new ones are closed. At most the open files that the process may have, less 512.
	MaxConnections int `yaml:"max_connections" min:"1"`
	// TLS is the certificate of the public API. Without it the API is plain HTTP.
	TLS setting.Pair `yaml:"tls"`
	// RequestTimeout is the longest time of one public request, its requests to the legacy system included.
	RequestTimeout time.Duration `yaml:"request_timeout" above:"0s"`
	// ShutdownDelay is how long a stopping gateway still serves requests, while /readyz fails and each response closes its
	// connection. It must be longer than the load balancer needs to notice. 0s: none.
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`
	// ShutdownGrace is how long requests in flight may take after shutdown_delay.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" above:"0s"`
	// Gateway is how the public API treats requests.
	Gateway Gateway `yaml:"gateway"`
	// Auth is the store of API keys: exactly one of keys_file, redis and introspection.
	Auth Auth `yaml:"auth"`
	// RateLimit is the rate limit of each account, over all nodes. Nodes report to Redis in the background, so a burst to
	// several nodes at once may pass once on each.
	RateLimit rate.Config `yaml:"rate_limit"`
	// Log is which requests have a log record.
	Log Log `yaml:"log"`
	// Redis is what the nodes share lists, keys and limits in. Without addrs each node is on its own.
	Redis redisclient.Config `yaml:"redis"`
	// Cache is how long lists are fresh, and how much of them is stored.
	Cache cache.Config `yaml:"cache"`
	// Upstream is the legacy system: its address, the limits on requests to it, and the mapping of its replies.
	Upstream upstream.Config `yaml:"upstream"`

	path     string                 // of the configuration file, absolute; "" without one
	files    map[string]fs.FileInfo // see Files
	file     *yamlfile.File         // nil without one
	warnings Problems
}

// Ops is the listener for operators, with health, metrics, purge and explain.
type Ops struct {
	// Listen is host:port of the second listener. If other machines can reach it, token_file is required.
	Listen string `yaml:"listen" form:"listen"`
	// TokenFile is the file with the operators' bearer token, which allows everything. Without it the listener accepts only requests
	// from this machine.
	TokenFile setting.File `yaml:"token_file"`
	// ReadTokenFile is a file with a second bearer token, for /metrics only.
	ReadTokenFile setting.File `yaml:"read_token_file"`
}

// Tokens returns the operators' token and that for the metrics; empty if there is none.
func (o Ops) Tokens() (operator, read string) {
	return strings.TrimSpace(o.TokenFile.Text()), strings.TrimSpace(o.ReadTokenFile.Text())
}

// Proxies returns TrustedProxies as networks; a single address becomes a network.
func (g Gateway) Proxies() []netip.Prefix {
	networks := make([]netip.Prefix, len(g.TrustedProxies))
	for i, text := range g.TrustedProxies {
		networks[i] = yamlfile.ParseNetwork(text)
	}
	return networks
}

// Certificate returns the certificate of the public API with its key; nil without TLS.
func (c Config) Certificate() (*tls.Certificate, error) {
	var problems setting.Problems
	certificate := c.TLS.Certificate("tls", &problems)
	return certificate, problems.Err()
}

// Gateway is how the public API treats requests.
type Gateway struct {
	// UnknownParameters is what happens to a request with an unknown query parameter: reject answers 400, ignore serves it.
	UnknownParameters string `yaml:"unknown_parameters" enum:"reject,ignore"`
	// Docs serves /docs and /openapi.json.
	Docs bool `yaml:"docs"`
	// FastPath answers requests for lists over HTTP/1.1 before the HTTP library reads the request, for less CPU. Clients see
	// no difference; turn it off to find out whether it causes a fault.
	FastPath string `yaml:"fast_path" enum:"on,off"`
	// TrustedProxies are addresses or networks of proxies whose X-Forwarded-For names the client's address.
	TrustedProxies []string `yaml:"trusted_proxies" form:"network"`
}

// Log is what the log has of requests.
type Log struct {
	// SampleHits keeps the records of one in this many fresh hits; errors, misses and stale responses always have one. 0 and
	// 1: all.
	SampleHits int `yaml:"sample_hits" min:"0"`
	// AccessKeys is "hashed" to log what `inquiry-gateway ttl --log` needs: the kind, a hash of the list's key, and the
	// entity tag.
	AccessKeys string `yaml:"access_keys" enum:",hashed"`
}

// LogHashedKeys is the value of log.access_keys besides the empty one.
const LogHashedKeys = "hashed"

// What to do with a query parameter that the API does not know.
const (
	RejectUnknown = "reject" // answer 400
	IgnoreUnknown = "ignore"
)

// On is the default of gateway.fast_path; its other value is "off".
const On = "on"

// Default returns the configuration of an empty file. Only its upstream section, which has no default, is not valid.
func Default() Config {
	return Config{
		Listen:         "127.0.0.1:8080",
		Ops:            Ops{Listen: "127.0.0.1:9090"},
		MaxConnections: 10_000,
		RequestTimeout: 5 * time.Second,
		ShutdownDelay:  5 * time.Second,
		ShutdownGrace:  20 * time.Second,
		Gateway:        Gateway{UnknownParameters: RejectUnknown, Docs: true, FastPath: On},
		Auth:           Auth{KeysFile: setting.NewFile("keys.yaml", "")},
		Redis:          redisclient.DefaultConfig(),
		Cache:          cache.DefaultConfig(),
		Upstream:       upstream.DefaultConfig(),
	}
}

// Files returns the files that the configuration was read from, the configuration file included, by absolute path: each as it
// was just before it was read, or nil if it did not exist. A watcher must watch them. The map must not be changed.
func (c Config) Files() map[string]fs.FileInfo { return c.files }

// Warnings returns what is probably wrong, but keeps nothing from working.
func (c Config) Warnings() Problems { return c.warnings }

// Path returns the absolute path of the configuration file; empty without one.
func (c Config) Path() string { return c.path }
