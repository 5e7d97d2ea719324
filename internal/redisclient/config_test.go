package redisclient

import (
	"errors"
	"slices"
	"testing"

	"inquiry-gateway/internal/secretfile"
)

// fields lists the keys that a configuration error names.
func fields(err error) (names []string) {
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil {
		return nil
	}
	for _, e := range joined.Unwrap() {
		var f interface{ Field() string }
		if errors.As(e, &f) {
			names = append(names, f.Field())
		}
	}
	slices.Sort(names)
	return names
}

func TestEveryProblemOfTheRedisSectionIsNamed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"default", func(*Config) {}, nil},
		{"single", func(c *Config) { c.Addrs = []string{"127.0.0.1:6379"} }, nil},
		{"a prefix with braces", func(c *Config) { c.Prefix = "a{b" }, []string{"prefix"}},
		{"cluster", func(c *Config) { c.Addrs = []string{"a:1", "b:1"} }, nil},
		{"sentinel", func(c *Config) { c.Addrs, c.MasterName = []string{"a:1", "b:1"}, "m" }, nil},
		{"sentinel without a master", func(c *Config) { c.Mode = "sentinel" }, []string{"master_name"}},
		{"single with sentinel's keys", func(c *Config) {
			c.Mode, c.MasterName, c.SentinelUsername, c.Addrs = "single", "m", "u", []string{"a:1", "b:1"}
		}, []string{"addrs", "master_name", "sentinel_username"}},
		{"two user names", func(c *Config) { c.Username, c.UsernameFile = "gw", secretfile.New("user", "gw\n") }, []string{"username_file"}},
		{"an empty user name", func(c *Config) { c.UsernameFile = secretfile.New("user", "\n") }, []string{"username_file"}},
		{"half a certificate", func(c *Config) { c.TLS.Files.CertFile = secretfile.New("cert.pem", "") }, []string{"tls.key_file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			tt.change(&c)
			if got := fields(c.Validate()); !slices.Equal(got, tt.want) {
				t.Errorf("problems in %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFilesThatHoldNoCertificatesAreNamed(t *testing.T) {
	c := DefaultConfig()
	c.Addrs = []string{"127.0.0.1:1"}
	text := secretfile.New("file", "no PEM")
	c.TLS.Files = secretfile.TLS{CA: secretfile.CA{CAFile: text}, Pair: secretfile.Pair{CertFile: text, KeyFile: text}}
	rdb, err := Open(c, Options{})
	if got := fields(err); rdb != nil || !slices.Equal(got, []string{"tls.ca_file", "tls.cert_file"}) {
		t.Errorf("a client, %t; problems in %v", rdb != nil, got)
	}
}
