package cache

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	redisDial     = 100 * time.Millisecond
	redisPoolWait = 80 * time.Millisecond
	redisConns    = 64
)

// RedisConfig is the `redis:` section. Without Addrs there is no Redis and the
// cache stays in the process.
type RedisConfig struct {
	Addrs        []string `yaml:"addrs"` // host:port
	Mode         string   `yaml:"mode"`  // auto, single, sentinel or cluster
	MasterName   string   `yaml:"master_name"`
	Username     string   `yaml:"username"`
	PasswordFile string   `yaml:"password_file"`
	TLS          RedisTLS `yaml:"tls"`
	DB           int      `yaml:"db"`
	Prefix       string   `yaml:"prefix"` // of every key
}

// RedisTLS says how to reach Redis over TLS. Any field set turns it on.
type RedisTLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"` // empty: the system's
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"` // empty: the address's host
}

// DefaultRedisConfig is no Redis.
func DefaultRedisConfig() RedisConfig { return RedisConfig{Mode: "auto", Prefix: defaultPrefix} }

// Validate returns all problems joined; each has a method Field() string.
func (c RedisConfig) Validate() error {
	var p problems
	for i, addr := range c.Addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			p.add(fmt.Sprintf("addrs[%d]", i), "%q is not host:port", addr)
		}
	}
	switch c.Mode {
	case "", "auto", "single":
		if len(c.Addrs) > 1 {
			p.add("addrs", "more than one address is not supported yet")
		}
	case "sentinel", "cluster":
		p.add("mode", "%s is not supported yet", c.Mode)
	default:
		p.add("mode", "must be auto, single, sentinel or cluster")
	}
	if c.MasterName != "" {
		p.add("master_name", "not supported yet")
	}
	if c.TLS != (RedisTLS{}) {
		p.add("tls", "not supported yet")
	}
	if c.DB < 0 {
		p.add("db", "must not be negative")
	}
	if c.Prefix == "" || strings.ContainsAny(c.Prefix, "{} \r\n") {
		p.add("prefix", "must not be empty and hold no spaces or braces")
	}
	return p.err()
}

// OpenRedis returns a client for the section, tuned to fail fast: every call is
// bounded, nothing is retried, and a breaker skips a Redis that does not
// answer. Redis does not need to be up. Without addresses both results are nil.
// The client's Close ends everything that it started.
func OpenRedis(c RedisConfig, reg prometheus.Registerer, log *slog.Logger) (redis.UniversalClient, error) {
	if err := c.Validate(); err != nil || len(c.Addrs) == 0 {
		return nil, err
	}
	password, err := readSecret(c.PasswordFile)
	if err != nil {
		return nil, &fieldError{"password_file", err.Error()}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	return guard(redis.NewUniversalClient(c.options(password)), reg, log)
}

func (c RedisConfig) options(password string) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: c.Addrs, DB: c.DB, Username: c.Username, Password: password,
		ContextTimeoutEnabled: true,
		DialTimeout:           redisDial, ReadTimeout: redisTimeout, WriteTimeout: redisTimeout,
		PoolTimeout: redisPoolWait, PoolSize: redisConns, MaxActiveConns: redisConns,
		MaxRetries: -1, DialerRetries: 1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// readSecret reads a file without the newline that editors put at its end.
func readSecret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
