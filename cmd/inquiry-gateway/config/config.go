// Package config reads the gateway's one YAML file and the files that it names.
package config

import (
	"crypto/tls"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream"
)

//go:generate go test -run UpToDate . -update

// Config is the whole configuration file. Make it with Load, or with Default
// for a program without a file; the zero value is not usable. It is not
// changed after Load and may be shared between goroutines.
type Config struct {
	Listen string `yaml:"listen"` // host:port of the public API
	Ops    Ops    `yaml:"ops"`    // the second listener
	// MaxConnections is how many connections to listen may be open at a time. At the limit idle ones are
	// closed for new ones, at first those on which nobody has authenticated. Each is an open file:
	// what the process may have, less 512, is the most.
	MaxConnections int `yaml:"max_connections"`
	// MaxStreams is how many requests a caller may have under way at a time on one connection
	// of HTTP/2. Each takes about 17 KiB while it waits for its answer, or for the caller to
	// read it.
	MaxStreams     int           `yaml:"max_streams"`
	TLS            TLS           `yaml:"tls"`             // of the public API
	RequestTimeout time.Duration `yaml:"request_timeout"` // of one public request, the legacy included
	// ShutdownDelay is how long a stopping gateway still takes requests, while
	// /readyz says that it drains and each answer closes its connection. It must
	// be longer than the balancer takes to see that. Zero: none.
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`
	ShutdownGrace time.Duration `yaml:"shutdown_grace"` // after the delay, for requests still running
	Gateway       Gateway       `yaml:"gateway"`
	Auth          auth.Config   `yaml:"auth"`
	RateLimit     rate.Config   `yaml:"rate_limit"`

	Log      Log                `yaml:"log"`
	Redis    redisclient.Config `yaml:"redis"`
	Cache    cache.Config       `yaml:"cache"`
	Upstream upstream.Config    `yaml:"upstream"`
	Canary   Canary             `yaml:"canary"`

	path    string   // the configuration file itself, absolute; "" without one
	written ast.Node // what the file says, variables as they are written; nil without one
}

// Ops is the listener for operators: health, metrics, purge, explain.
type Ops struct {
	Listen    string          `yaml:"listen"`     // host:port for operators
	TokenFile secretfile.File `yaml:"token_file"` // the operators' bearer token, for everything; none: on loopback only
	// ReadTokenFile is a second bearer token, for /metrics alone: the one for Prometheus. Empty: there is none.
	ReadTokenFile secretfile.File `yaml:"read_token_file"`
}

// Tokens are that of operators and that for the metrics; empty: there is none.
func (o Ops) Tokens() (operator, read string) {
	return strings.TrimSpace(o.TokenFile.Text()), strings.TrimSpace(o.ReadTokenFile.Text())
}

// TLS is the certificate of the public API; both empty: clear text.
type TLS struct {
	CertFile secretfile.File `yaml:"cert_file"` // PEM, with the chain
	KeyFile  secretfile.File `yaml:"key_file"`  // PEM
}

// Certificate is the certificate with its key; nil without one.
func (t TLS) Certificate() (*tls.Certificate, error) {
	var problems invalid.Problems
	c := secretfile.TLS{CertFile: t.CertFile, KeyFile: t.KeyFile}.Config("tls", &problems)
	if len(c.Certificates) == 0 {
		return nil, problems.Err()
	}
	return &c.Certificates[0], problems.Err()
}

// Gateway is how the public API treats requests.
type Gateway struct {
	UnknownParameters string `yaml:"unknown_parameters" enum:"reject,ignore"` // of query parameters that the API does not know: reject or ignore
	Docs              bool   `yaml:"docs"`                                    // serve /docs and /openapi.json
	// HitLane answers fresh hits of HTTP/1.1 before the HTTP library reads the request, for less CPU. Callers see no
	// difference.
	HitLane        string   `yaml:"hit_lane" enum:"on,off"`
	TrustedProxies []string `yaml:"trusted_proxies"` // addresses or CIDRs whose X-Forwarded-For is trusted
}

// Log is what the log has of requests.
type Log struct {
	// SampleHits keeps one of so many records of fresh hits; errors, misses and
	// stale answers always have one. 0 and 1: all.
	SampleHits int `yaml:"sample_hits"`
	// RefusedKeys is how many records of requests without a good key one client
	// address gets for each reason within 10 s; one more counts the others. 0: all.
	RefusedKeys int `yaml:"refused_keys"`
	// AccessKeys is "hashed" to log what the TTL lab needs to read the log later:
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

// On is the default of gateway.hit_lane; its other value is "off".
const On = "on"

// defaultKeysFile is read where no other source of keys is chosen.
const defaultKeysFile = "keys.yaml"

// Default gives the configuration of an empty file. It is valid but for the
// upstream section, which has no default.
func Default() Config {
	return Config{
		Listen:         "127.0.0.1:8080",
		Ops:            Ops{Listen: "127.0.0.1:9090"},
		MaxConnections: 10_000,
		MaxStreams:     100, // the least that RFC 9113, section 6.5.2, recommends
		RequestTimeout: 5 * time.Second,
		ShutdownDelay:  5 * time.Second,
		ShutdownGrace:  20 * time.Second,
		Gateway:        Gateway{UnknownParameters: RejectUnknown, Docs: true, HitLane: On},
		Auth:           auth.Config{KeysFile: defaultKeysFile},
		Log:            Log{RefusedKeys: 10},
		Redis:          redisclient.DefaultConfig(),
		Cache:          cache.DefaultConfig(),
		Upstream:       upstream.DefaultConfig(),
		Canary:         Canary{Every: 30 * time.Second},
	}
}

// Files lists every file the configuration was read from or names, absolute,
// each once and sorted: what a watcher must watch.
func (c Config) Files() []string {
	files := []string{c.path}
	for _, ref := range fileRefs(reflect.ValueOf(&c).Elem(), "") {
		files = append(files, ref.path())
	}
	slices.Sort(files)
	return slices.Compact(slices.DeleteFunc(files, func(path string) bool { return path == "" }))
}

// Path is the configuration file, absolute; empty where there is none.
func (c Config) Path() string { return c.path }
