package redisclient

import (
	"crypto/tls"
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
	defaultPrefix  = "iq"
	defaultTimeout = 100 * time.Millisecond // unless configured
	maxTimeout     = 5 * time.Second
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
	p.AddIf(c.Timeout != 0 && (c.Timeout < time.Millisecond || c.Timeout > maxTimeout), "timeout", "must be between 1ms and 5s")
	p.AddIf(c.DB < 0, "db", "must not be negative")
	p.AddIf(strings.ContainsAny(c.Prefix, "{} \r\n"), "prefix", "must hold no spaces or braces")
	return p.Err()
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

// validateMode reports what does not go together with the mode, or that there is no such
// mode.
func (c Config) validateMode(p *invalid.Problems) {
	mode := c.mode()
	p.Enums("", c)
	p.AddIf(mode == modeSingle && len(c.Addrs) > 1, "addrs", "a single Redis has one address; for several set mode to cluster or sentinel")
	p.AddIf(mode == modeSentinel && c.MasterName == "", "master_name", "sentinels need the name of their master")
	p.AddIf(mode == modeCluster && c.DB > 0, "db", "a cluster has database 0 only")
	if mode != modeSingle && mode != modeCluster {
		return
	}
	for field, value := range map[string]string{"master_name": c.MasterName,
		"sentinel_username": c.SentinelUsername, "sentinel_password_file": c.SentinelPasswordFile.Path()} {
		p.AddIf(value != "", field, "is for mode sentinel only")
	}
}

// config is nil without TLS.
func (t TLS) config(p *invalid.Problems) *tls.Config {
	if t == (TLS{}) {
		return nil
	}
	c := t.Files.Config("tls", p)
	c.ServerName = t.ServerName
	return c
}
