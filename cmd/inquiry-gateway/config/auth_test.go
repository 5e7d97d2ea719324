package config

import (
	"testing"
	"time"

	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysredis"
)

// A key that cannot be looked up again is good for 30 s from Redis and for 10 s from an
// authorization server, unless the configuration says otherwise.
func TestTTLOfKeys(t *testing.T) {
	second := time.Second
	for want, a := range map[time.Duration]Auth{
		30 * second: {Redis: &keysredis.Config{}}, 10 * second: {Introspection: &introspect.Config{}}, second: {Introspection: &introspect.Config{}, CacheTTL: &second},
	} {
		if got := a.TTL(); got != want {
			t.Errorf("%+v: %v, want %v", a, got, want)
		}
	}
}
