package upstream

import (
	"testing"

	"inquiry-gateway/internal/yamlfile"
)

// configFrom decodes a section over the defaults, as the program does.
func configFrom(t testing.TB, section string) Config {
	t.Helper()
	cfg := DefaultConfig()
	if err := yamlfile.Decode(section, &cfg); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return cfg
}
