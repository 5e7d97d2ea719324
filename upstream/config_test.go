package upstream

import (
	"errors"
	"os"
	"strings"
	"testing"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
)

// wrongKeys gives the mistakes in a joined error by their keys.
func wrongKeys(err error) map[string]string {
	wrong := map[string]string{}
	problems, _ := errors.AsType[setting.Problems](err)
	for _, one := range problems {
		wrong[one.Key] += one.Message
	}
	return wrong
}

// Each mistake is told at its key, with what to write instead.
func TestMistakes(t *testing.T) {
	text, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		keys, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // a comment
		}
		key, says, _ := strings.Cut(want, ": ")
		cfg := configFrom(t, section)
		found := map[string]string{}
		for _, err := range []error{yamlfile.Decode(keys, &cfg), cfg.Validate()} {
			for key, message := range wrongKeys(err) {
				found[key] += message
			}
		}
		if !strings.Contains(found[key], says) || found[key] == "" {
			t.Errorf("%s: want %q about %s, got %v", keys, says, key, found)
		}
	}
}

// All mistakes are told at once, and nothing is made with one.
func TestAllMistakesAtOnce(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Buyer.ItemsOptional, cfg.Seller.ItemsOptional = true, true // something is written of both
	found := wrongKeys(cfg.Validate())
	for _, key := range []string{
		"buyer.path", "buyer.items", "buyer.fields.title", "seller.fields.created_at", "buyer.fields.responses.fields.responder_type",
	} {
		if found[key] == "" {
			t.Errorf("nothing said about %s: %v", key, found)
		}
	}
	cfg = configFrom(t, section)
	cfg.Buyer, cfg.Seller = DefaultConfig().Buyer, DefaultConfig().Seller
	if _, err := New(cfg, Options{}); wrongKeys(err)["buyer"] == "" {
		t.Errorf("a configuration without a list: %v", err)
	}
	cfg = configFrom(t, section)
	cfg.TLS = certificate(t, newAuthority(t), "one")
	if found := wrongKeys(cfg.Validate()); found["tls"] == "" {
		t.Errorf("certificates without TLS: %v", found)
	}
	if err := configFrom(t, testkit.SampleYAML).Validate(); err != nil {
		t.Error(err)
	}
}
