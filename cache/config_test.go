package cache

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// fields lists the keys that a configuration error names.
func fields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is no joined error", err)
	}
	var names []string
	for _, e := range joined.Unwrap() {
		var f interface{ Field() string }
		if !errors.As(e, &f) {
			t.Fatalf("%v names no key", e)
		}
		if strings.Contains(e.Error(), f.Field()+":") || e.Error() == "" {
			t.Errorf("message %q", e)
		}
		names = append(names, f.Field())
	}
	slices.Sort(names)
	return names
}

func TestEveryProblemOfTheConfigurationIsNamed(t *testing.T) {
	day := 24 * time.Hour
	week := 7 * day
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"default", func(*Config) {}, nil},
		{"all zero times", func(c *Config) { c.Buyer, c.Seller = KindConfig{}, KindConfig{} }, nil},
		{"entry above the tier", func(c *Config) { c.MaxBytes = 4 << 20 }, []string{"max_entry_bytes"}},
		{"sum too long", func(c *Config) { c.Buyer.TTL, c.Buyer.StaleIfError = 4*day, 4*day }, []string{"buyer.ttl"}},
		{"status", func(c *Config) {
			c.Buyer.ByStatus = map[string]StatusConfig{"a b": {}, "ok": {TTL: &week}}
		}, []string{"buyer.by_status.a b", "buyer.by_status.ok.ttl"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			tt.change(&c)
			if got := fields(t, c.Validate()); !slices.Equal(got, tt.want) {
				t.Errorf("problems in %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTheSectionDecodesStrictly(t *testing.T) {
	const text = `
max_bytes: 1048576
buyer:  {ttl: 30s, stale_while_revalidate: 30s, stale_if_error: 10m, by_status: {pending: {ttl: 10s}, answered: {stale_if_error: 0s}}}
seller: {ttl: 1m}
jitter: 0.2
max_entry_bytes: 1048576
`
	c := DefaultConfig()
	if err := yaml.UnmarshalWithOptions([]byte(text), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := compile(c, Fills{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind   kindIndex
		status string
		want   terms
	}{
		{0, "", terms{ttl: 30 * time.Second, swr: 30 * time.Second, sie: 10 * time.Minute}},
		{0, "pending", terms{ttl: 10 * time.Second, swr: 30 * time.Second, sie: 10 * time.Minute}},
		{0, "answered", terms{ttl: 30 * time.Second, swr: 30 * time.Second, sie: 0}},
		{0, "other", terms{ttl: 30 * time.Second, swr: 30 * time.Second, sie: 10 * time.Minute}},
		{1, "pending", terms{ttl: time.Minute, swr: 30 * time.Second, sie: 10 * time.Minute}},
	} {
		if got := p.of(tt.kind, tt.status); got != tt.want {
			t.Errorf("%s %q: %v, want %v", kindNames[tt.kind], tt.status, got, tt.want)
		}
	}
}
