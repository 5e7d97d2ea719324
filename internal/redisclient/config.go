package redisclient

import (
	"cmp"
	"crypto/tls"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
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
)

// Config is the `redis:` section. Without Addrs there is no Redis and the
// cache stays in the process.
type Config struct {
	// Addrs are host:port of the server, of nodes of a Cluster, or of sentinels.
	Addrs []string `yaml:"addrs" form:"host-port"`
	// Mode is what the addresses are. auto means sentinel with a master_name, cluster with several addresses, and single
	// otherwise.
	Mode string `yaml:"mode" enum:",auto,single,sentinel,cluster"`
	// MasterName is the name of the master at the sentinels.
	MasterName string `yaml:"master_name"`
	// Without a name it is the default user.
	setting.User `yaml:",inline"`
	// SentinelUsername is the user at the sentinels.
	SentinelUsername string `yaml:"sentinel_username"`
	// SentinelPasswordFile is the file with the password for the sentinels.
	SentinelPasswordFile setting.File `yaml:"sentinel_password_file"`
	// TLS encrypts the connections. Any key of it turns that on. A certificate must have the name in addrs, or the one that
	// sentinels and nodes of a Cluster announce.
	TLS TLS `yaml:"tls"`
	// Prefix is the beginning of every key, so that installations can share a Redis. Empty: iq.
	Prefix string `yaml:"prefix"`
	// Timeout is the longest time of one call. A new connection takes two round trips more, or four with TLS: set it to a few
	// times as much. A miss waits for Redis for one and a half of it at most.
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"5s" zero:"100ms"`
}

// TLS says how to reach Redis over TLS. Any field set turns it on.
type TLS struct {
	// Enabled turns TLS on if no other key of this section is set.
	Enabled bool        `yaml:"enabled"`
	Files   setting.TLS `yaml:",inline"`
}

// KeyPrefix is what begins every key and channel.
func (c Config) KeyPrefix() string { return cmp.Or(c.Prefix, defaultPrefix) }

// DefaultConfig is no Redis.
func DefaultConfig() Config {
	return Config{Mode: modeAuto, Prefix: defaultPrefix, Timeout: defaultTimeout}
}

// Validate returns all contradictions as [setting.Problems]. That each value keeps the bounds of its tag is for
// the reader of the file to check.
func (c Config) Validate() error {
	var p setting.Problems
	c.validateMode(&p)
	c.TLS.config(&p)
	p.AddIf(c.Username != "" && c.UsernameFile.Set(), "username_file", "username is set, too; remove one of the two")
	p.AddIf(c.UsernameFile.Set() && c.UsernameFile.Secret() == "", "username_file", "the file is empty")
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

// validateMode reports what does not go together with the mode.
func (c Config) validateMode(p *setting.Problems) {
	mode := c.mode()
	p.AddIf(mode == modeSingle && len(c.Addrs) > 1, "addrs", "a single Redis has one address; for several set mode to cluster or sentinel")
	p.AddIf(mode == modeSentinel && c.MasterName == "", "master_name", "sentinels need the name of their master")
	if mode != modeSingle && mode != modeCluster {
		return
	}
	for field, value := range map[string]string{"master_name": c.MasterName,
		"sentinel_username": c.SentinelUsername, "sentinel_password_file": c.SentinelPasswordFile.Path()} {
		p.AddIf(value != "", field, "is for mode sentinel only")
	}
}

// config is nil without TLS.
func (t TLS) config(p *setting.Problems) *tls.Config {
	if t == (TLS{}) {
		return nil
	}
	return t.Files.Config("tls", p)
}
