package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// A reload takes over the whole file or nothing of it. Files count with their content.
func TestReloadIsWholeOrRefused(t *testing.T) {
	path := folder(t, example(t))
	authority, err := testkit.NewAuthority("gateway")
	must(t, err)
	cert, key, err := authority.Issue("gateway")
	must(t, err)
	write(t, filepath.Join(filepath.Dir(path), "pair.pem"), string(cert)+string(key))
	running, err := Load(path, Options{})
	must(t, err)
	write(t, path, example(t, "listen: 127.0.0.1:8080", "listen: 127.0.0.1:8081", "prefix: iq", "prefix: other", "request_timeout: 5s", "request_timeout: 6s",
		`tls: {cert_file: "", key_file: ""`, "tls: {cert_file: pair.pem, key_file: pair.pem"))
	_, err = running.Reload()
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("four keys need a restart: %v", err)
	}
	for _, key := range []string{"listen", "tls.cert_file", "tls.key_file", "redis.prefix"} {
		if err != nil && !strings.Contains(err.Error(), ": "+key+": cannot change while the gateway runs") {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
	write(t, path, example(t, "request_timeout: 5s", "request_timeout: 6s"))
	if next, err := running.Reload(); err != nil || next.RequestTimeout != 6*time.Second {
		t.Errorf("%v, %v", next.RequestTimeout, err)
	}
	must(t, os.Remove(running.Auth.KeysFile.Path()))
	if _, err := running.Reload(); err != nil {
		t.Errorf("without a keys file: %v", err)
	}
}
