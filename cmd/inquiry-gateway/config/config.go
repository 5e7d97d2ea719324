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

// Config is the whole configuration file. Make it with Load, or with Default
// for a program without a file; the zero value is not usable. It is not
// changed after Load and may be shared between goroutines.
type Config struct {
	// Listen is host:port of the public API. With an empty host it is every address of the machine.
	Listen string `yaml:"listen" form:"listen"`
	// Ops is the second listener, for operators.
	Ops Ops `yaml:"ops"`
	// MaxConnections is how many connections to listen may be open at a time. At the limit others are
	// closed for new ones: those on which nobody has authenticated, and only then idle ones of known callers.
	// Each is an open file: what the process may have, less 512, is the most.
	MaxConnections int `yaml:"max_connections" min:"1"`
	// TLS is the certificate of the public API. Without it the API is plain HTTP.
	TLS setting.Pair `yaml:"tls"`
	// RequestTimeout is how long one public request may take, its requests to the legacy system included.
	RequestTimeout time.Duration `yaml:"request_timeout" above:"0s"`
	// ShutdownDelay is how long a stopping gateway still takes requests, while
	// /readyz says that it drains and each answer closes its connection. It must
	// be longer than the balancer takes to see that. 0s: none.
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`
	// ShutdownGrace is how long, after shutdown_delay, requests that still run may take.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" above:"0s"`
	// Gateway is how the public API treats requests.
	Gateway Gateway `yaml:"gateway"`
	// Auth is where the keys of callers come from: exactly one of keys_file, redis and introspection.
	Auth Auth `yaml:"auth"`
	// RateLimit is how many requests one account may send, counted over all nodes. Each node may let
	// a tenth of the burst pass besides, which it charges later.
	RateLimit rate.Config `yaml:"rate_limit"`
	// Log is which requests the log has a record of.
	Log Log `yaml:"log"`
	// Redis is where nodes share lists, keys and limits. Without addrs each node is on its own.
	Redis redisclient.Config `yaml:"redis"`
	// Cache is how long lists are fresh, and how much of them is stored.
	Cache cache.Config `yaml:"cache"`
	// Upstream is the legacy system: where it is, how hard it may be asked, and how its replies become inquiries.
	Upstream upstream.Config `yaml:"upstream"`

	path     string                 // the configuration file itself, absolute; "" without one
	files    map[string]fs.FileInfo // see Files
	file     *yamlfile.File         // what it says; nil without one
	warnings Problems
}

// Ops is the listener for operators: health, metrics, purge, explain.
type Ops struct {
	// Listen is host:port of the second listener. Where other machines can reach it, token_file must be set.
	Listen string `yaml:"listen" form:"listen"`
	// TokenFile holds the operators' bearer token, for everything. Without it the listener takes requests from this machine only.
	TokenFile setting.File `yaml:"token_file"`
	// ReadTokenFile holds a second bearer token, for /metrics alone: the one for Prometheus. Empty: there is none.
	ReadTokenFile setting.File `yaml:"read_token_file"`
}

// Tokens are that of operators and that for the metrics; empty: there is none.
func (o Ops) Tokens() (operator, read string) {
	return strings.TrimSpace(o.TokenFile.Text()), strings.TrimSpace(o.ReadTokenFile.Text())
}

// Proxies are TrustedProxies as networks; a single address is a network of its own.
func (g Gateway) Proxies() []netip.Prefix {
	networks := make([]netip.Prefix, len(g.TrustedProxies))
	for i, text := range g.TrustedProxies {
		networks[i] = yamlfile.ParseNetwork(text)
	}
	return networks
}

// Certificate is that of the public API with its key; nil: clear text.
func (c Config) Certificate() (*tls.Certificate, error) {
	var problems setting.Problems
	certificate := c.TLS.Certificate("tls", &problems)
	return certificate, problems.Err()
}

// Gateway is how the public API treats requests.
type Gateway struct {
	// UnknownParameters says what becomes of a request with a query parameter that the API does not know: reject answers 400, ignore serves it.
	UnknownParameters string `yaml:"unknown_parameters" enum:"reject,ignore"`
	// Docs serves /docs and /openapi.json. false is for those who publish the API elsewhere.
	Docs bool `yaml:"docs"`
	// FastPath answers requests for lists over HTTP/1.1 before the HTTP library reads the request, for less CPU. Callers see no
	// difference; off is for finding out whether a fault lies there.
	FastPath string `yaml:"fast_path" enum:"on,off"`
	// TrustedProxies are addresses or networks of proxies whose X-Forwarded-For names the caller.
	TrustedProxies []string `yaml:"trusted_proxies" form:"network"`
}

// Log is what the log has of requests.
type Log struct {
	// SampleHits keeps one of so many records of fresh hits; errors, misses and
	// stale answers always have one. 0 and 1: all.
	SampleHits int `yaml:"sample_hits" min:"0"`
	// AccessKeys is "hashed" to log what `inquiry-gateway ttl --log` needs to read the log later:
	// kind, a hash of the list's name, and the entity tag. Empty: not.
	AccessKeys string `yaml:"access_keys" enum:",hashed"`
}

// LogHashedKeys is the one value of log.access_keys besides none.
const LogHashedKeys = "hashed"

// What to do with a query parameter that the API does not know.
const (
	RejectUnknown = "reject" // answer 400
	IgnoreUnknown = "ignore"
)

// On is the default of gateway.fast_path; its other value is "off".
const On = "on"

// Default gives the configuration of an empty file. It is valid but for the
// upstream section, which has no default.
func Default() Config {
	return Config{
		Listen:         "127.0.0.1:8080",
		Ops:            Ops{Listen: "127.0.0.1:9090"},
		MaxConnections: 10_000,
		RequestTimeout: 5 * time.Second,
		ShutdownDelay:  5 * time.Second,
		ShutdownGrace:  20 * time.Second,
		Gateway:        Gateway{UnknownParameters: RejectUnknown, Docs: true, FastPath: On},
		Auth:           Auth{KeysFile: "keys.yaml"},
		Redis:          redisclient.DefaultConfig(),
		Cache:          cache.DefaultConfig(),
		Upstream:       upstream.DefaultConfig(),
	}
}

// Files are the files that the configuration was read from, the configuration file included,
// by absolute path: each as it was just before it was read; nil: it was not there. They are
// what a watcher must watch. The map must not be changed.
func (c Config) Files() map[string]fs.FileInfo { return c.files }

// Warnings are what is doubtful, and keeps nothing from working.
func (c Config) Warnings() Problems { return c.warnings }

// Path is the configuration file, absolute; empty where there is none.
func (c Config) Path() string { return c.path }
