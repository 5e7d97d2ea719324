package cache

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"inquiry-gateway/internal/setting"
)

const (
	maxLifetime = 7 * 24 * time.Hour // of an entry: ttl and stale window together
	compressMin = 1 << 10            // a smaller body gets no gzip and zstd: it would save no packet
	// hintStaleFor is how long after a soft hint a list of before is still served while it is
	// refreshed, at most the list's stale_while_revalidate. Who cannot wait sends a hard hint.
	hintStaleFor = time.Second
)

var statusName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Config is the `cache:` section. Its zero value is not usable; start from
// [DefaultConfig].
type Config struct {
	// MaxBytes bounds the store in the memory of each node: lists, their compressed forms, keys and overhead.
	MaxBytes int64 `yaml:"max_bytes" min:"1MiB"`
	// Buyer is how long the lists of buyers are served.
	Buyer KindConfig `yaml:"buyer"`
	// Seller is how long the lists of sellers are served.
	Seller KindConfig `yaml:"seller"`
	// Jitter shortens each ttl by a random part of up to this share, so that
	// lists filled together do not expire together. 0 turns it off.
	Jitter float64 `yaml:"jitter" min:"0" max:"0.9"`
	// MaxEntryBytes bounds one list without its compressed forms, in memory and in Redis. Those are kept in
	// memory only, each smaller than the list, and count for max_bytes. A
	// bigger list is served, but not stored: raise it where inquiry_gateway_cache_unstored_total
	// counts too_big. Redis takes twice the most as one value.
	MaxEntryBytes int64 `yaml:"max_entry_bytes" min:"1KiB" max:"256MiB"`
	// SealingKeysFile holds AES-256 keys, one per line in base64 or hex. Set:
	// entries in Redis are sealed by the first key and opened by any. A key may
	// seal 2^32 entries; rotate it long before (at 1,000 fills/s, each month).
	SealingKeysFile setting.File `yaml:"sealing_keys_file"`
	// RechecksPerSecond is how many cached lists per second, over all kinds, the TTL lab may
	// compare with the legacy. 0: none; more than 1000 would be no sample.
	RechecksPerSecond float64 `yaml:"rechecks_per_second" min:"0" max:"1000"`
	// Goals mark the ttls in the TTL lab's report that keep them.
	Goals GoalsConfig `yaml:"goals"`
}

// GoalsConfig is what a ttl shall keep. Zero: no such goal.
type GoalsConfig struct {
	// MaxUpstreamPerSecond is the most requests per second that the legacy shall
	// get for all kinds together.
	MaxUpstreamPerSecond float64 `yaml:"max_upstream_per_second" json:"max_upstream_per_second" min:"0" max:"1e9"`
	// MaxOutdated is the largest share of answers, 0 to 1, that may differ from
	// what the legacy would say at that moment.
	MaxOutdated float64 `yaml:"max_outdated" json:"max_outdated" min:"0" max:"1"`
}

// KindConfig is the freshness policy of one kind of list. All times are counted
// from the legacy's answer.
type KindConfig struct {
	// TTL is how long a list is fresh. 0: never; each look-up asks the legacy.
	TTL time.Duration `yaml:"ttl" max:"168h"`
	// StaleWhileRevalidate is how long after its ttl a list is still served
	// while one refresh runs.
	StaleWhileRevalidate time.Duration `yaml:"stale_while_revalidate" max:"168h"`
	// StaleIfError is how long after its ttl a list is served when the legacy
	// cannot be asked.
	StaleIfError time.Duration `yaml:"stale_if_error" max:"168h"`
	// ByStatus overrides the policy for lists filtered by a status.
	ByStatus map[string]StatusConfig `yaml:"by_status"`
}

// StatusConfig overrides any of a kind's times. Nil: the kind's.
type StatusConfig struct {
	// TTL is that of lists filtered by this status.
	TTL *time.Duration `yaml:"ttl" max:"168h"`
	// StaleWhileRevalidate is that of lists filtered by this status.
	StaleWhileRevalidate *time.Duration `yaml:"stale_while_revalidate" max:"168h"`
	// StaleIfError is that of lists filtered by this status.
	StaleIfError *time.Duration `yaml:"stale_if_error" max:"168h"`
}

// For is the policy of the lists filtered by a status: the kind's, with what the status
// overrides.
func (c KindConfig) For(status string) KindConfig {
	t := c.ByStatus[status].over(c.terms())
	return KindConfig{TTL: t.ttl, StaleWhileRevalidate: t.swr, StaleIfError: t.sie}
}

// DefaultConfig returns the policy of a file without a `cache:` section.
func DefaultConfig() Config {
	kind := KindConfig{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * time.Minute}
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

// validate checks the kind's times, and those that each status has by its overrides.
func (c KindConfig) validate(path string, p *setting.Problems) {
	c.terms().validate(path, p)
	for _, status := range slices.Sorted(maps.Keys(c.ByStatus)) {
		field := path + ".by_status." + status
		if !statusName.MatchString(status) {
			p.Add(field, "is no status: 1 to 64 of letters, digits, '.', '_' and '-'")
			continue
		}
		c.ByStatus[status].over(c.terms()).validate(field, p)
	}
}

// validate bounds the times: an entry must not outlive what Redis remembers of purges.
func (t terms) validate(path string, p *setting.Problems) {
	p.AddIf(t.lifetime() > maxLifetime, path+".ttl", "together with its stale window it must not be above 168h")
}

// terms are the three times that govern one list.
type terms struct {
	ttl, swr, sie time.Duration
}

// lifetime is how long after the legacy's answer an entry can be of any use.
func (t terms) lifetime() time.Duration { return t.ttl + max(t.swr, t.sie) }

func (c KindConfig) terms() terms {
	return terms{ttl: c.TTL, swr: c.StaleWhileRevalidate, sie: c.StaleIfError}
}

// stricter takes the shorter of each time: what is fresh, or may be served stale,
// by the result is so by both.
func (t terms) stricter(o terms) terms {
	t.ttl, t.swr, t.sie = min(t.ttl, o.ttl), min(t.swr, o.swr), min(t.sie, o.sie)
	return t
}

// over returns base with what c overrides.
func (c StatusConfig) over(base terms) terms {
	override(&base.ttl, c.TTL)
	override(&base.swr, c.StaleWhileRevalidate)
	override(&base.sie, c.StaleIfError)
	return base
}

// override sets d, unless there is nothing to set it to.
func override(d *time.Duration, by *time.Duration) {
	if by != nil {
		*d = *by
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
	p := &policy{
		ring: r, jitter: c.Jitter, maxEntry: int(c.MaxEntryBytes),
		kinds: [kindCount]kindPolicy{newKindPolicy(c.Buyer), newKindPolicy(c.Seller)},
	}
	if fills.Timeout <= 0 {
		fills.Timeout = defaultFillTimeout
	}
	p.fills = fills
	for i, kind := range kindNames {
		p.kinds[i].mapping = fills.Mappings[kind]
	}
	return p, nil
}

// fingerprint is that of the mapping in force.
func (l *Lists) fingerprint(i kindIndex) string { return l.policy.Load().kinds[i].mapping.Fingerprint }

// policy is a Config compiled for look-ups. It is immutable.
type policy struct {
	kinds    [kindCount]kindPolicy
	jitter   float64
	maxEntry int
	ring     *ring // nil: entries are not sealed
	fills    Fills
}

// kindPolicy is what holds for the lists of one kind.
type kindPolicy struct {
	terms    terms
	byStatus map[string]terms
	mapping  Mapping
}

// newKindPolicy puts the overrides of each status over the kind's times once, so that a
// look-up finds them ready.
func newKindPolicy(c KindConfig) kindPolicy {
	p := kindPolicy{terms: c.terms()}
	if len(c.ByStatus) > 0 {
		p.byStatus = make(map[string]terms, len(c.ByStatus))
	}
	for status, s := range c.ByStatus {
		p.byStatus[status] = s.over(c.terms())
	}
	return p
}

// mostRead is how many bytes an entry of Redis may have.
func (p *policy) mostRead() int { return p.maxEntry + sealOverhead }

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

// of returns the terms of a list with this status filter.
func (p *policy) of(i kindIndex, status string) terms { return p.kinds[i].forStatus(status) }

func (k *kindPolicy) forStatus(status string) terms {
	if status != "" && k.byStatus != nil {
		if t, ok := k.byStatus[status]; ok {
			return t
		}
	}
	return k.terms
}
