package cache

import (
	"maps"
	"slices"
	"time"

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/setting"
)

const (
	maxLifetime = 7 * 24 * time.Hour // of an entry: ttl and stale window together
	compressMin = 1 << 10            // a smaller body gets no gzip and zstd: it would save no packet
)

// Config is the `cache:` section. Its zero value is not usable; start from
// [DefaultConfig].
type Config struct {
	// MaxBytes is the size of the cache in the memory of each node: lists, their compressed forms, keys and overhead.
	MaxBytes int64 `yaml:"max_bytes" min:"1MiB"`
	// Buyer is how long the lists of buyers are served.
	Buyer KindConfig `yaml:"buyer"`
	// Seller is how long the lists of sellers are served.
	Seller KindConfig `yaml:"seller"`
	// Jitter is the largest part by which each ttl is shortened at random, so that lists fetched together do not expire
	// together.
	Jitter float64 `yaml:"jitter" min:"0" max:"0.9"`
	// MaxEntryBytes is the largest list, without its compressed forms, that is stored in memory and in Redis. A larger one is
	// served, but not stored: raise it if inquiry_gateway_cache_unstored_total counts too_big. Compressed forms are kept in
	// memory only, and count for max_bytes.
	MaxEntryBytes int64 `yaml:"max_entry_bytes" min:"1KiB" max:"256MiB"`
	// SealingKeysFile is a file with AES-256 keys, one per line in base64 or hex. Entries in Redis are encrypted with the
	// first key and decrypted with any. One key may encrypt 2^32 entries; rotate it long before (at 1,000 fetches/s, each
	// month).
	SealingKeysFile setting.File `yaml:"sealing_keys_file"`
	// RechecksPerSecond is how many cached lists per second, over all kinds, a node compares with the legacy system, to
	// measure how many responses are outdated. 0: none.
	RechecksPerSecond float64 `yaml:"rechecks_per_second" min:"0" max:"1000"`
}

// Freshness are the three times that govern a list, counted from the legacy's answer.
type Freshness struct {
	// TTL is how long a list is fresh. 0: never; each look-up asks the legacy system.
	TTL time.Duration `yaml:"ttl" max:"168h"`
	// StaleWhileRevalidate is how long after its ttl a list is still served while it is refreshed.
	StaleWhileRevalidate time.Duration `yaml:"stale_while_revalidate" max:"168h"`
	// StaleIfError is how long after its ttl a list is served while it cannot be fetched.
	StaleIfError time.Duration `yaml:"stale_if_error" max:"168h"`
}

// lifetime is how long after the legacy's answer a list can be of any use.
func (t Freshness) lifetime() time.Duration {
	return t.TTL + max(t.StaleWhileRevalidate, t.StaleIfError)
}

// KindConfig is the freshness policy of one kind of list.
type KindConfig struct {
	Freshness `yaml:",inline"`
	// ByStatus overrides the policy for lists filtered by a status.
	ByStatus map[string]StatusConfig `yaml:"by_status"`
}

// StatusConfig overrides any of a kind's times. Nil: the kind's.
type StatusConfig struct {
	// TTL is the ttl of lists filtered by this status.
	TTL *time.Duration `yaml:"ttl" max:"168h"`
	// StaleWhileRevalidate is the same time for lists filtered by this status.
	StaleWhileRevalidate *time.Duration `yaml:"stale_while_revalidate" max:"168h"`
	// StaleIfError is the same time for lists filtered by this status.
	StaleIfError *time.Duration `yaml:"stale_if_error" max:"168h"`
}

// For is what governs the lists filtered by a status: the kind's times, with what the status
// overrides.
func (c KindConfig) For(status string) Freshness {
	t, override := c.Freshness, c.ByStatus[status]
	for _, of := range []struct{ time, by *time.Duration }{
		{&t.TTL, override.TTL}, {&t.StaleWhileRevalidate, override.StaleWhileRevalidate}, {&t.StaleIfError, override.StaleIfError},
	} {
		if of.by != nil {
			*of.time = *of.by
		}
	}
	return t
}

// DefaultConfig returns the policy of a file without a `cache:` section.
func DefaultConfig() Config {
	kind := KindConfig{Freshness: Freshness{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * time.Minute}}
	return Config{
		MaxBytes: 256 << 20, Buyer: kind, Seller: kind,
		Jitter: 0.1, MaxEntryBytes: 8 << 20,
	}
}

// Validate reads the sealing keys, if any, and returns all contradictions as [setting.Problems].
// That each value keeps the bounds of its tag is for the reader of the
// file to check.
func (c Config) Validate() error {
	var p setting.Problems
	p.AddIf(c.MaxEntryBytes > c.MaxBytes, "max_entry_bytes", "must not be above max_bytes")
	if _, err := c.sealing(); err != nil {
		p.Add("sealing_keys_file", "%v", err)
	}
	c.Buyer.validate("buyer", &p)
	c.Seller.validate("seller", &p)
	return p.Err()
}

// sealing reads the sealing keys; nil without a file.
func (c Config) sealing() (*ring, error) {
	if !c.SealingKeysFile.Set() {
		return nil, nil
	}
	return parseRing(c.SealingKeysFile.Text())
}

// validate checks the times of the kind, and of each status. A list must not outlive what
// Redis remembers of purges.
func (c KindConfig) validate(path string, p *setting.Problems) {
	bound := func(t Freshness, path string) {
		p.AddIf(t.lifetime() > maxLifetime, path+".ttl", "together with its stale window it must not be above 168h")
	}
	bound(c.Freshness, path)
	for _, status := range slices.Sorted(maps.Keys(c.ByStatus)) {
		field := path + ".by_status." + status
		if !filters.Valid(status) {
			p.Add(field, "is no status: 1 to 64 of letters, digits, '.', '_' and '-'")
			continue
		}
		bound(c.For(status), field)
	}
}

// Fills is what a cache is told of the fills to come.
type Fills struct {
	Timeout  time.Duration      // the deadline of a detached fill; 0: 5 s
	Mappings map[string]Mapping // by kind
}

const defaultFillTimeout = 5 * time.Second

// compile validates a Config and reads its files.
func compile(c Config, fills Fills) (*policy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r, _ := c.sealing() // Validate has read it without an error
	if fills.Timeout <= 0 {
		fills.Timeout = defaultFillTimeout
	}
	p := &policy{ring: r, jitter: c.Jitter, maxEntry: int(c.MaxEntryBytes), fillTimeout: fills.Timeout}
	for i, kind := range []KindConfig{c.Buyer, c.Seller} {
		k := kindPolicy{Freshness: kind.Freshness, byStatus: map[string]Freshness{}, mapping: fills.Mappings[kindNames[i]], longest: kind.lifetime()}
		p.oldest = max(p.oldest, k.longest)
		for status := range kind.ByStatus {
			of := kind.For(status)
			k.byStatus[status] = of
			p.oldest = max(p.oldest, of.lifetime())
			if k.mapping.Status.Of(status) == filters.Local {
				k.longest = max(k.longest, of.lifetime())
			}
		}
		p.kinds[i] = k
	}
	return p, nil
}

// policy is a Config compiled for look-ups. It is immutable.
type policy struct {
	kinds       [kindCount]kindPolicy
	jitter      float64
	maxEntry    int
	ring        *ring // nil: entries are not sealed
	fillTimeout time.Duration
	oldest      time.Duration // how old a list can be that is of any use
}

// kindPolicy is what holds for the lists of one kind.
type kindPolicy struct {
	Freshness
	byStatus map[string]Freshness // with all that the kind has
	mapping  Mapping
	longest  time.Duration // how long a list without a filter by status can be of use, for those selected from it, too
}

// of returns the Freshness of a list with this status filter.
func (p *policy) of(i kindIndex, status string) Freshness {
	k := &p.kinds[i]
	if len(k.byStatus) > 0 {
		if t, ok := k.byStatus[status]; ok {
			return t
		}
	}
	return k.Freshness
}

// retention is how long a purge matters: no list whose fetch began before it is of use for longer.
func (p *policy) retention() time.Duration { return p.oldest + p.fillTimeout + time.Minute }

// maxReadBytes is how many bytes an entry of Redis may have.
func (p *policy) maxReadBytes() int { return p.maxEntry + sealOverhead }

// kindIndex is an array index; kinds other than the two have none.
type kindIndex int

const kindCount = 2

var kindNames = [kindCount]string{KindBuyer, KindSeller}

// indexOf is the index of a kind; false: it is unknown.
func indexOf(kind string) (kindIndex, bool) {
	switch kind {
	case KindBuyer:
		return 0, true
	case KindSeller:
		return 1, true
	}
	return 0, false
}
