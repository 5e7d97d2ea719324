package redistier

import (
	"fmt"
	"net"
	"strings"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
)

// The modes of a [Config].
const (
	modeAuto     = "auto"
	modeSingle   = "single"
	modeSentinel = "sentinel"
	modeCluster  = "cluster"
)

const (
	defaultTimeout = 100 * time.Millisecond // unless configured
	maxTimeout     = 5 * time.Second
	maxReplicas    = 16 // that a purge can wait for
)

// Config is the `redis:` section. Without Addrs there is no Redis and the
// cache stays in the process.
type Config struct {
	Addrs []string `yaml:"addrs"` // host:port of the server, of cluster nodes, or of sentinels
	// Mode is auto, single, sentinel or cluster. Auto is sentinel with a
	// master_name, cluster with several addresses, and single otherwise.
	Mode                 string          `yaml:"mode" enum:",auto,single,sentinel,cluster"`
	MasterName           string          `yaml:"master_name"` // sentinel's name of the master
	Username             string          `yaml:"username"`
	UsernameFile         secretfile.File `yaml:"username_file"` // instead of username
	PasswordFile         secretfile.File `yaml:"password_file"`
	SentinelUsername     string          `yaml:"sentinel_username"`
	SentinelPasswordFile secretfile.File `yaml:"sentinel_password_file"`
	TLS                  TLS             `yaml:"tls"`
	DB                   int             `yaml:"db"`     // not in a cluster
	Prefix               string          `yaml:"prefix"` // of every key and channel; empty: iq
	// Timeout bounds one call, connecting included. A miss waits for Redis no
	// longer than one and a half of it, whatever Redis does. 0: 100ms.
	Timeout time.Duration `yaml:"timeout"`
	// MinReplicas is how many replicas of Redis must have taken a purge before it
	// is acknowledged, so that a fail-over to one of them does not lose it. With
	// fewer in time the purge is in force, but reported as failed. 0: a purge does
	// not wait for replicas.
	MinReplicas int `yaml:"min_replicas"`
}

// TLS says how to reach Redis over TLS. Any field set turns it on.
type TLS struct {
	Enabled    bool           `yaml:"enabled"`
	Files      secretfile.TLS `yaml:",inline"`
	ServerName string         `yaml:"server_name"` // empty: the address's host
}

// DefaultConfig is no Redis.
func DefaultConfig() Config {
	return Config{Mode: modeAuto, Prefix: defaultPrefix, Timeout: defaultTimeout}
}

// Validate returns all problems joined; each has a method Field() string.
func (c Config) Validate() error {
	var p invalid.Problems
	for i, addr := range c.Addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			p.Add(fmt.Sprintf("addrs[%d]", i), "%q is not host:port", addr)
		}
	}
	c.validateMode(&p)
	c.TLS.config(&p)
	p.AddIf(c.Username != "" && c.UsernameFile.Set(), "username_file", "username is set, too; remove one of the two")
	p.AddIf(c.UsernameFile.Set() && c.UsernameFile.Secret() == "", "username_file", "the file is empty")
	if c.Timeout != 0 && (c.Timeout < time.Millisecond || c.Timeout > maxTimeout) {
		p.Add("timeout", "must be between 1ms and 5s")
	}
	if c.MinReplicas < 0 || c.MinReplicas > maxReplicas {
		p.Add("min_replicas", "must be between 0 and %d", maxReplicas)
	}
	if c.DB < 0 {
		p.Add("db", "must not be negative")
	}
	if strings.ContainsAny(c.Prefix, "{} \r\n") {
		p.Add("prefix", "must hold no spaces or braces")
	}
	return p.Err()
}

// user is the user's name; empty: the default user.
func (c Config) user() string {
	if c.UsernameFile.Set() {
		return c.UsernameFile.Secret()
	}
	return c.Username
}

// mode is c.Mode with auto resolved.
func (c Config) mode() string {
	switch {
	case c.Mode != "" && c.Mode != modeAuto:
		return c.Mode
	case c.MasterName != "":
		return modeSentinel
	case len(c.Addrs) > 1:
		return modeCluster
	}
	return modeSingle
}

func (c Config) validateMode(p *invalid.Problems) {
	switch mode := c.mode(); mode {
	case modeSingle:
		if len(c.Addrs) > 1 {
			p.Add("addrs", "a single Redis has one address; for several set mode to cluster or sentinel")
		}
	case modeSentinel:
		if c.MasterName == "" {
			p.Add("master_name", "sentinels need the name of their master")
		}
	case modeCluster:
		if c.DB > 0 {
			p.Add("db", "a cluster has database 0 only")
		}
	default:
		p.Enums("", c)
		return
	}
	if c.mode() == modeSentinel {
		return
	}
	for field, value := range map[string]string{"master_name": c.MasterName,
		"sentinel_username": c.SentinelUsername, "sentinel_password_file": c.SentinelPasswordFile.Path()} {
		if value != "" {
			p.Add(field, "is for mode sentinel only")
		}
	}
}
