package redisclient

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/setting"
)

// fields lists the keys that a configuration error names.
func fields(err error) (names []string) {
	problems, _ := errors.AsType[setting.Problems](err)
	for _, p := range problems {
		names = append(names, p.Key)
	}
	slices.Sort(names)
	return names
}

func TestEveryProblemOfTheRedisSectionIsNamed(t *testing.T) {
	one, two, noPEM := []string{"127.0.0.1:1"}, []string{"a:1", "b:1"}, setting.NewFile("file", "no PEM")
	for _, tt := range []struct {
		name string
		c    Config
		want []string
	}{
		{"none", Config{}, nil},
		{"a prefix with braces", Config{Prefix: "a{b"}, []string{"prefix"}},
		{"sentinel without a master", Config{Mode: "sentinel"}, []string{"master_name"}},
		{"single with sentinel's keys", Config{Mode: "single", MasterName: "m", SentinelUsername: "u", Addrs: two},
			[]string{"addrs", "master_name", "sentinel_username"}},
		{"two user names", Config{User: setting.User{Username: "gw", UsernameFile: setting.NewFile("user", "gw\n")}}, []string{"username_file"}},
		{"an empty user name", Config{User: setting.User{UsernameFile: setting.NewFile("user", "\n")}}, []string{"username_file"}},
		{"half a certificate", Config{TLS: TLS{Files: setting.TLS{Pair: setting.Pair{CertFile: noPEM}}}}, []string{"tls.key_file"}},
		{"no certificates", Config{Addrs: one, TLS: TLS{Files: setting.TLS{CA: setting.CA{CAFile: noPEM}, Pair: setting.Pair{CertFile: noPEM, KeyFile: noPEM}}}},
			[]string{"tls.ca_file", "tls.cert_file"}},
	} {
		rdb, err := Open(tt.c, Options{})
		if got := fields(err); rdb != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: a client, %t; problems in %v, want %v", tt.name, rdb != nil, got, tt.want)
		}
	}
	for mode, c := range map[string]Config{"single": {Addrs: one}, "cluster": {Addrs: two}, "sentinel": {Addrs: two, MasterName: "m"}} {
		if got := c.mode(); got != mode || c.Validate() != nil {
			t.Errorf("mode %s, want %s; %v", got, mode, c.Validate())
		}
	}
}

// Wherever the password of a URL stands, no error shows it.
func TestParseURLHidesThePassword(t *testing.T) {
	if u, err := ParseURL("rediss://u:hunter2@h:1/0"); err != nil || u != (URL{"h:1", "u", "hunter2", true}) {
		t.Errorf("%+v, %v", u, err)
	}
	for _, text := range []string{
		"redis://u:hunter2@h:port", "redis://u:hunt/hunter2@h:1", "redis://u:hunter2%zz@h:1", "redis:// u:hunter2@h:1", "hunter2",
		"http://u:hunter2@h:1", "redis://u:hunter2@h:1/x", "redis://u:p@h:1/hunter2", "redis://u:hunter2@h:1/3", "redis://h:1?hunter2=1", "\x00hunter2",
	} {
		if _, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "write it as redis://") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
