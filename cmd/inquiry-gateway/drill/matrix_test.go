package drill

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

// everything is a configuration in which each part can fail.
func everything() config.Config {
	c, keys := config.Default(), auth.DefaultIntrospectionConfig()
	c.Auth, c.Redis.Addrs = auth.Config{Introspection: &keys}, []string{"192.0.2.1:6379"}
	return c
}

// Every combination of at most two parts in trouble is drilled, once, with and
// without a list that is known.
func TestCells(t *testing.T) {
	inRedis, inFile := everything(), everything()
	inRedis.Auth, inFile.Auth = auth.Config{Redis: &auth.RedisConfig{}}, auth.Config{KeysFile: "keys.yaml"}
	for name, tc := range map[string]struct {
		config       config.Config
		redis        bool
		cells, pairs int
	}{
		"all parts":         {everything(), true, 37, 27},
		"without Redis":     {everything(), false, 16, 9},
		"keys in Redis":     {inRedis, true, 16, 9},
		"keys in lost data": {inRedis, false, 4, 0},
		"keys in a file":    {inFile, true, 18, 9},
	} {
		terms, m := termsOf(tc.config, tc.redis), Declared()
		terms.adapt(m)
		seen, pairs := map[Cell]bool{}, 0
		for _, c := range terms.cells() {
			if seen[c] {
				t.Errorf("%s: %+v comes twice", name, c)
			}
			seen[c] = true
			if len(c.troubles()) == 2 {
				pairs++
			}
			for _, when := range []Case{Warm, Cold} {
				if _, ok := terms.expect(m, c, when); !ok {
					t.Errorf("%s: nothing is declared for %+v, %s", name, c, when)
				}
			}
		}
		if len(seen) != tc.cells || pairs != tc.pairs {
			t.Errorf("%s: %d cells, %d of them pairs", name, len(seen), pairs)
		}
	}
}

func TestStricterRowWins(t *testing.T) {
	usual, inRedis, noStale, noKeys := everything(), everything(), everything(), everything()
	inRedis.Auth = auth.Config{Redis: &auth.RedisConfig{}}
	noStale.Cache.Buyer.StaleIfError = 0
	noKeys.Auth.Introspection.TTL = 0
	for _, tc := range []struct {
		config config.Config
		cell   Cell
		when   Case
		want   Outcome
	}{
		{usual, Cell{Up, Up, Up}, Cold, Miss},
		{usual, Cell{Down, Slow, Up}, Warm, Stale},
		{usual, Cell{Down, Slow, Up}, Cold, TooSlow},
		{usual, Cell{Garbage, Garbage, Up}, Cold, Invalid},
		{usual, Cell{Up, Down, Slow}, Warm, Stale},
		{usual, Cell{Up, Down, Slow}, Cold, KeysUnavailable},
		{usual, Cell{Slow, Up, Garbage}, Warm, Hit},
		{usual, Cell{Slow, Up, Garbage}, Cold, KeysUnavailable},
		{inRedis, Cell{Down, Up, Up}, Cold, KeysUnavailable},
		{inRedis, Cell{Down, Up, Up}, Later, Miss},
		{noStale, Cell{Up, Down, Up}, Warm, Failed},
		{noKeys, Cell{Up, Up, Down}, Warm, KeysUnavailable},
	} {
		terms, m := termsOf(tc.config, true), Declared()
		terms.adapt(m)
		if e, ok := terms.expect(m, tc.cell, tc.when); !ok || e.Outcome != tc.want {
			t.Errorf("%+v, %s: %q, want %q", tc.cell, tc.when, e.Outcome, tc.want)
		}
	}
}
