package ttllab

import (
	"maps"
	"slices"
	"time"

	"inquiry-gateway/cache"
)

// Kind is one group of lists that has a ttl of its own: a kind of the gateway,
// or the lists of one status where that status has its own times.
type Kind struct {
	Name   string
	Kind   string // of the gateway
	Status string // of the lists; empty: all that have no group of their own
	Policy Policy
}

// Policy is what the real cache does today with one group of lists. The
// candidates take the place of TTL; the rest holds for all of them.
type Policy struct {
	TTL                  time.Duration // today's
	StaleWhileRevalidate time.Duration // how long after its ttl a list is served while one refresh runs
	StaleIfError         time.Duration // only decides how long an entry stays in Redis
	Jitter               float64       // the share, 0 to 1, by which a ttl is shortened at most
}

// Config is what the lab may ask of the legacy, and what its report marks.
type Config struct {
	RechecksPerSecond float64
	Goals             cache.GoalsConfig
}

// ConfigOf is the lab's part of the cache's configuration.
func ConfigOf(c cache.Config) Config { return Config{c.RechecksPerSecond, c.Goals} }

// KindsOf are the groups of lists that have a ttl of their own: the kinds by name, and
// each status that overrides its kind's.
func KindsOf(c cache.Config) (kinds []Kind) {
	for _, k := range []struct {
		name   string
		config cache.KindConfig
	}{{cache.KindBuyer, c.Buyer}, {cache.KindSeller, c.Seller}} {
		kinds = append(kinds, Kind{Name: k.name, Kind: k.name, Policy: policyOf(k.config, c.Jitter)})
		for _, status := range slices.Sorted(maps.Keys(k.config.ByStatus)) {
			kinds = append(kinds, Kind{Name: StatusName(k.name, status), Kind: k.name, Status: status, Policy: policyOf(k.config.For(status), c.Jitter)})
		}
	}
	return kinds
}

// StatusName is the name of the group of lists of one status.
func StatusName(kind, status string) string { return kind + " status=" + status }

func policyOf(c cache.KindConfig, jitter float64) Policy {
	return Policy{TTL: c.TTL, StaleWhileRevalidate: c.StaleWhileRevalidate, StaleIfError: c.StaleIfError, Jitter: jitter}
}
