package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
)

// wrongIn gives the mistakes of a section by their keys.
func wrongIn(t testing.TB, section string) map[string]string {
	t.Helper()
	cfg := DefaultConfig()
	found, _ := errors.AsType[yamlfile.Problems](yamlfile.Decode(section, &cfg))
	wrong := wrongKeys(t, cfg.Validate())
	for _, p := range found {
		wrong[p.Key] = p.Message
	}
	return wrong
}

// wrongKeys gives the mistakes in a joined error by their keys.
func wrongKeys(t testing.TB, err error) map[string]string {
	t.Helper()
	wrong := map[string]string{}
	if err == nil {
		return wrong
	}
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		var mistake *invalid.Error
		if !errors.As(one, &mistake) {
			t.Fatalf("error without a key: %v", one)
		}
		wrong[mistake.Field()] = one.Error()
	}
	return wrong
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, from, to string // a replacement in the good section
		field, says    string
	}{
		{"no base", "base_url: http://legacy.test", "", "base_url", "missing"},
		{"relative base", "http://legacy.test", "legacy.test", "base_url", "absolute"},
		{"base with query", "http://legacy.test", "http://legacy.test?x=1", "base_url", "query"},
		{"base with password", "http://legacy.test", "http://u:p@legacy.test", "base_url", "auth"},
		{"timeout", "base_url:", "timeout: 0s\nbase_url:", "timeout", "more than 0s"},
		{"bytes", "base_url:", "max_response_bytes: 0\nbase_url:", "max_response_bytes", "more than 0"},
		{"one account's part above all", "base_url:", "max_concurrent_per_account: 65\nbase_url:", "max_concurrent_per_account", "max_concurrent (64)"},
		{"one account's part below zero", "base_url:", "max_concurrent_per_account: -1\nbase_url:", "max_concurrent_per_account", "0 or more"},
		{"attempts", "base_url:", "attempts: 0\nbase_url:", "attempts", "1 or more"},
		{"ratio", "base_url:", "breaker: {failure_ratio: 0}\nbase_url:", "breaker.failure_ratio", "more than 0"},
		{"header", "base_url:", "headers: {\"a b\": c}\nbase_url:", "headers.a b", "valid"},
		{"placeholder in a header", "base_url:", "headers: {x-customer: \"{account}\"}\nbase_url:", "headers.x-customer", "path, query and body"},
		{"too many bytes", "base_url:", "max_response_bytes: 2000000000\nbase_url:", "max_response_bytes", "1GiB"},
		{"own header", "base_url:", "headers: {via: c}\nbase_url:", "headers.via", "itself"},
		{"own header of details", "buyer:", "buyer:\n  details: {fetch: {path: \"/d/{id}\", headers: {if-none-match: x}}}", "buyer.details.fetch.headers.if-none-match", "itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			section := strings.Replace(testkit.SampleYAML, tc.from, tc.to, 1)
			if section == testkit.SampleYAML {
				t.Fatal("the replacement changed nothing")
			}
			found := wrongIn(t, section)
			if !strings.Contains(found[tc.field], tc.says) {
				t.Errorf("want %q about %s, got %v", tc.says, tc.field, found)
			}
		})
	}
}

func TestValidateReportsEverything(t *testing.T) {
	empty := DefaultConfig()
	empty.Buyer.ItemsOptional, empty.Seller.ItemsOptional = true, true // something is written of both
	found := wrongKeys(t, empty.Validate())
	for _, field := range []string{"buyer.path", "buyer.items", "buyer.fields.title", "seller.fields.created_at", "buyer.fields.responses.fields.responder_type"} {
		if found[field] == "" {
			t.Errorf("nothing said about %s", field)
		}
	}
	if _, err := New(DefaultConfig(), Options{}); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func TestDefaultConfig(t *testing.T) {
	cfg := configFrom(t, testkit.SampleYAML)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	if cfg.Timeout != 2*time.Second || cfg.MaxResponseBytes != 16<<20 || cfg.MaxRecords != 10000 || cfg.Retry.Attempts != 2 || cfg.Breaker.OpenFor != 5*time.Second {
		t.Errorf("defaults: %+v", cfg)
	}
}
