package config

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// A reload takes over what it can, and what it cannot waits each time. Files count with their
// content.
func TestReloadKeepsWhatNeedsARestart(t *testing.T) {
	path := folder(t, example(t, `pepper_file: ""`, "pepper_file: token"))
	authority, err := testkit.NewAuthority("gateway")
	must(t, err)
	cert, key, err := authority.Issue("gateway")
	must(t, err)
	write(t, filepath.Join(filepath.Dir(path), "pair.pem"), string(cert)+string(key))
	running, err := Load(path, Options{})
	must(t, err)
	first := running
	write(t, path, example(t, "listen: 127.0.0.1:8080", "listen: 127.0.0.1:8081", "prefix: iq", "prefix: other", "request_timeout: 5s", "request_timeout: 6s",
		`pepper_file: ""`, "pepper_file: token", `tls: {cert_file: "", key_file: ""`, "tls: {cert_file: pair.pem, key_file: pair.pem"))
	write(t, filepath.Join(filepath.Dir(path), "token"), "another one of 16 bytes\n")
	for range 2 {
		next, waiting, err := running.Reload(Options{})
		if err != nil || !slices.Equal(waiting, []string{"listen", "tls.cert_file", "tls.key_file", "redis.prefix"}) {
			t.Errorf("%q wait, %v", waiting, err)
		}
		if next.Listen != running.Listen || next.Redis.Prefix != "iq" || next.TLS.CertFile.Set() || next.RequestTimeout != 6*time.Second {
			t.Errorf("runs %s", next)
		}
		if next.Same(first, "auth") || !next.Same(first, "redis", "cache", "listen", "upstream") {
			t.Error("another pepper is the same, or what has not changed is another")
		}
		running = next
	}
}

func TestEffectOfAChange(t *testing.T) {
	for change, want := range map[Change]Effect{
		{"redis.addrs[0]", "", "h:1"}:         AfterRestart,
		{"upstream.buyer.fields.x", "a", "b"}: AfterReload,
		{"tls.cert_file", "a", "b"}:           AfterReload,
		{"tls.cert_file", "", "b"}:            AfterRestart,
		{"of.another.version", "a", ""}:       AfterRestart,
		{"listener", "a", "b"}:                AfterRestart,
		{"request_timeout", "1s", "2s"}:       AfterReload,
	} {
		if got := change.Effect(); got != want {
			t.Errorf("%+v: %s", change, got)
		}
	}
}
