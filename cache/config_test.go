package cache

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
)

// fields lists the keys that a configuration error names.
func fields(t *testing.T, err error) (names []string) {
	t.Helper()
	problems, ok := errors.AsType[setting.Problems](err)
	if !ok && err != nil {
		t.Fatalf("%v names no key", err)
	}
	for _, p := range problems {
		names = append(names, p.Key)
	}
	slices.Sort(names)
	return names
}

func TestEveryProblemOfTheConfigurationIsNamed(t *testing.T) {
	for text, want := range map[string][]string{
		"{}": nil,
		"{buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}}": nil,
		"{max_bytes: 4194304}":                                                                   {"max_entry_bytes"},
		"{buyer: {ttl: 96h, stale_if_error: 96h}}":                                               {"buyer.ttl"},
		"{buyer: {by_status: {'a b': {}, ok: {ttl: 168h}}}}":                                     {"buyer.by_status.a b", "buyer.by_status.ok.ttl"},
		"{seller: {stale_if_error: 100h, by_status: {ok: {stale_if_error: 1h}, x: {ttl: 69h}}}}": {"seller.by_status.x.ttl"},
	} {
		c := DefaultConfig()
		if err := yaml.Load([]byte(text), &c, yaml.WithKnownFields()); err != nil {
			t.Fatal(err)
		}
		if got := fields(t, c.Validate()); !slices.Equal(got, want) {
			t.Errorf("%s: problems in %v, want %v", text, got, want)
		}
	}
}

func TestAStatusOverridesAnyTimeOfItsKind(t *testing.T) {
	const text = `
buyer: {ttl: 30s, stale_while_revalidate: 20s, stale_if_error: 10m, by_status: {pending: {ttl: 10s}, answered: {stale_if_error: 0s}}}
seller: {ttl: 1m}
`
	c := DefaultConfig()
	if err := yaml.Load([]byte(text), &c, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	p, err := compile(c, Fills{})
	if err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	for _, tt := range []struct {
		kind   kindIndex
		status string
		want   Freshness
	}{
		{0, "", Freshness{30 * s, 20 * s, 600 * s}},
		{0, "pending", Freshness{10 * s, 20 * s, 600 * s}},
		{0, "answered", Freshness{30 * s, 20 * s, 0}},
		{0, "other", Freshness{30 * s, 20 * s, 600 * s}},
		{1, "pending", Freshness{60 * s, 30 * s, 600 * s}},
	} {
		if got := p.of(tt.kind, tt.status); got != tt.want {
			t.Errorf("%s %q: %v, want %v", kindNames[tt.kind], tt.status, got, tt.want)
		}
	}
}
