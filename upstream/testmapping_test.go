package upstream

import (
	"testing"

	"github.com/goccy/go-yaml"
)

// configFrom decodes a section over the defaults, as the program does.
func configFrom(t testing.TB, section string) Config {
	t.Helper()
	cfg := DefaultConfig()
	if err := yaml.UnmarshalWithOptions([]byte(section), &cfg, yaml.Strict()); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return cfg
}
