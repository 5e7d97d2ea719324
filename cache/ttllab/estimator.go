// Package ttllab tells what another TTL would do.
package ttllab

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

const (
	defaultKeys     = 4096
	maxKeys         = 1 << 20
	defaultHalfLife = 12 * time.Hour
)

// Kind is one group of lists that has a TTL of its own: a kind of the gateway,
// or the lists of one status where that status has its own ttl.
type Kind struct {
	Name   string
	Kind   string // of the gateway; for a Lab
	Status string // of the lists; empty: all that have no Kind of their own
	Policy Policy
}

// Options are what an Estimator is built from.
type Options struct {
	// Kinds are addressed by their index in all calls. At least one.
	Kinds []Kind
	// Keys bounds the watched keys of each kind, a quarter of them hot ones. 0:
	// 4,096. It is rounded up to a multiple of 64.
	Keys int
	// HalfLife is the time after which what was counted counts half, so that the
	// figures follow the traffic. 0: 12 h; negative: nothing is ever forgotten.
	HalfLife time.Duration
	Config   Config // until SetConfig gives another
}

// Estimator watches the look-ups and fills of a cache, and runs a bounded sample of
// the keys through 24 candidate TTLs at once by the rules of the real cache:
// freshness counted from the legacy's answer, stale-while-revalidate, jitter. All
// methods are safe for concurrent use. Calls that name an unknown kind do nothing.
//
// # Sampling
//
// A key is watched when its hash is below a threshold that falls as more keys
// are seen, so that the number of watched keys stays within Options.Keys
// (SHARDS: Waldspurger, Park, Garthwaite, Ahmad: "Efficient MRC Construction
// with SHARDS", FAST 2015). All look-ups of a watched key are seen and none of
// the others, so a key's history is whole, and a key that leaves takes its
// counts with it. Figures are scaled up by the inverse of the sampling rate and
// then corrected with what is known exactly about all keys, the look-ups and
// the fills (the regression estimator: Särndal, Swensson, Wretman, "Model
// Assisted Survey Sampling", 1992, 6.4). A quarter of the places is for the
// keys that the look-ups themselves keep turning up: these hot keys stand for
// nobody but themselves. Without either, one hot key more or less in the sample
// would decide the hit ratio.
//
// The standard errors are those of this sampling. They tell how well the sample
// stands for the traffic that was watched, not how well that traffic stands for
// tomorrow's. Where every key is watched they are zero. In the first thousands
// of look-ups, before the hot keys are found, they can be too small by half.
//
// # How often lists change
//
// Each time a body is seen again its hash tells "changed" or "not changed" since
// the last time: several changes between two looks show as one, and the looks
// come when callers and TTLs make them. Counting changes over time would
// therefore be biased low; the rate is the maximum likelihood estimate for
// irregular looks of Cho and Garcia-Molina, "Estimating Frequency of Change",
// ACM TOIT 3(3), 2003, 4.3, with their correction for few looks; each list gets
// its own, drawn towards the mean of its kind while its looks are few. What
// stays: it takes changes to come at random and independently of the look-ups, a
// change that was taken back is not seen, and lists that change many times per
// look give no more than a lower bound. Re-checks look sooner than the TTL does
// and so narrow that gap.
//
// # What it does not know
//
// Entries that are evicted for want of space, purges and stale-if-error: an estimate is
// about a legacy in health, but for Outage. Without Share it is about one node; nodes that share their
// look-ups, or logs of all nodes merged by time, give the estimate for the fleet. There
// a node may serve an older copy than the newest one while it refreshes it, which the
// ages do not have.
//
// # Cost
//
// A look-up of a key that is not watched costs one hash, one atomic addition
// and two atomic reads; one in 16 of them, and all of a watched key, a short lock
// of one of 64 shards, under which it is noted; of every sixth, or once a second,
// all that were noted are simulated. Nothing is allocated once the sample is full.
// An Estimator holds at most about 1,750 bytes per watched key and 1,050 KiB per kind,
// so 16 MiB with the defaults and two kinds. It has no goroutine.
type Estimator struct {
	kinds  []*kindLab
	goals  atomic.Pointer[GoalsConfig]
	share  atomic.Uint64 // of the answers that are re-checked, of 2^64; 0: none
	picker picker
	fleet  fleet

	control controller
	kept    atomic.Pointer[ttls] // of the plan; nil: the configured ones count
}

// kindLab is the lab of one kind.
type kindLab struct {
	name        string
	group       Group
	halfLife    int64
	first       atomic.Int64 // look-up, Unix ns; 0: none yet
	rules       atomic.Pointer[rules]
	kept        *atomic.Pointer[ttls] // the Estimator's
	latency     atomic.Int64          // how long the legacy takes, ns, smoothed
	timed       atomic.Int64          // fills that latency is of
	waited      atomic.Uint64         // look-ups that waited for the legacy
	failed      atomic.Uint64         // look-ups without an answer
	told        [4]uint64             // look-ups, fills, re-checks and unserved look-ups that the other nodes know of
	theirs      [4]atomic.Uint64      // fills, re-checks, look-ups and unserved ones of the other nodes, since the start
	differed    atomic.Int64          // when another node last had another TTL, Unix ns
	checks      checks
	regime      regime
	calibration calibration
	shards      [shardCount]shard
}

// New builds an Estimator. It starts no goroutine.
func New(o Options) (*Estimator, error) {
	if len(o.Kinds) == 0 {
		return nil, errors.New("ttllab: Options.Kinds is empty")
	}
	if o.Keys < 0 || o.Keys > maxKeys {
		return nil, fmt.Errorf("ttllab: Options.Keys must be between 0 and %d", maxKeys)
	}
	if o.Keys == 0 {
		o.Keys = defaultKeys
	}
	if o.HalfLife == 0 {
		o.HalfLife = defaultHalfLife
	}
	e := &Estimator{picker: picker{picked: make(chan Recheck, keptPicks)}}
	for _, k := range o.Kinds {
		lab := &kindLab{name: k.Name, group: GroupOf(k.Name), kept: &e.kept, halfLife: int64(max(o.HalfLife, 0))}
		lab.rules.Store(newRules(k.Policy))
		lab.checks.lab, lab.checks.aged.halfLife = lab, lab.halfLife
		for i := range lab.shards {
			lab.shards[i].init(lab, (o.Keys+shardCount-1)/shardCount, lab.halfLife)
		}
		e.kinds = append(e.kinds, lab)
	}
	e.SetConfig(o.Config)
	return e, nil
}

// Index returns the index of the kind with this name, or -1.
func (e *Estimator) Index(name string) int {
	for i, k := range e.kinds {
		if k.name == name {
			return i
		}
	}
	return -1
}

// SetConfig swaps the budget and the goals.
func (e *Estimator) SetConfig(c Config) {
	e.goals.Store(&c.Goals)
	if c.Goals.Mode != ModeKeep {
		e.kept.Store(nil)
	}
	e.picker.mu.Lock()
	defer e.picker.mu.Unlock()
	e.picker.budget.rate = c.Recheck.BudgetPerSecond
	e.retune()
}

// Config is the budget and the goals that count now.
func (e *Estimator) Config() Config {
	e.picker.mu.Lock()
	defer e.picker.mu.Unlock()
	return Config{Recheck: RecheckConfig{BudgetPerSecond: e.picker.budget.rate}, Goals: *e.goals.Load()}
}

// SetPolicy tells that the real cache has another policy for this kind from now
// on. What was counted is kept.
func (e *Estimator) SetPolicy(kind int, p Policy) {
	lab := e.lab(kind)
	if lab == nil {
		return
	}
	r := newRules(p)
	old := lab.rules.Swap(r)
	for i := range lab.shards {
		if old.policy != r.policy {
			lab.shards[i].forgetOutages()
		}
		if old.swr != r.swr {
			lab.shards[i].forgetAges() // the buckets mean other ages now
		}
	}
}

func (e *Estimator) lab(kind int) *kindLab {
	if kind < 0 || kind >= len(e.kinds) {
		return nil
	}
	return e.kinds[kind]
}

// Lookup tells of one look-up, whatever comes of it; if it is not answered out of the
// cache, Waited or Failed tells of its end. key is a hash of everything that names the
// list; equal lists must have equal hashes for as long as the Estimator lives. It
// allocates only while new keys join the sample.
func (e *Estimator) Lookup(kind int, key uint64, now time.Time) {
	if lab := e.lab(kind); lab != nil {
		lab.lookup(mix(key), now.UnixNano(), sighting{})
	}
}

// Hit is Lookup and Served in one.
func (e *Estimator) Hit(kind int, k *List, a *Answer, body *Sum, now time.Time) {
	lab := e.lab(kind)
	if lab == nil {
		return
	}
	n := lab.lookup(mix(a.Hash), now.UnixNano(), sighting{a.At, a.Source})
	if weight, ok := e.drawn(n); ok {
		e.pick(recheckOf(kind, k, a, body, weight), now)
	}
}

// Served tells that a look-up was answered out of the cache.
func (e *Estimator) Served(kind int, k *List, a *Answer, body *Sum, now time.Time) {
	lab := e.lab(kind)
	if lab == nil {
		return
	}
	h := mix(a.Hash)
	s := &lab.shards[h%shardCount]
	if s.wants(h) {
		s.served(h, sighting{a.At, a.Source})
	}
	if weight, ok := e.drawn(mix(h ^ uint64(now.UnixNano()))); ok {
		e.pick(recheckOf(kind, k, a, body, weight), now)
	}
}

func recheckOf(kind int, k *List, a *Answer, body *Sum, weight float64) Recheck {
	return Recheck{
		Kind: kind, List: *k, AnsweredAt: time.Unix(0, a.At), hash: mix(a.Hash), body: body.Short(),
		selected: body.Short() != a.Source, weight: weight,
	}
}

// Waited tells that a look-up was answered by the legacy.
func (e *Estimator) Waited(kind int) {
	if lab := e.lab(kind); lab != nil {
		lab.waited.Add(1)
	}
}

// Failed tells that a look-up got no answer.
func (e *Estimator) Failed(kind int) {
	if lab := e.lab(kind); lab != nil {
		lab.failed.Add(1)
	}
}

// lookup returns a number that no other look-up of the kind has.
func (lab *kindLab) lookup(h uint64, now int64, answer sighting) uint64 {
	i := h % shardCount
	s := &lab.shards[i]
	n := s.seen.Add(1)
	drawn := n%drawEvery == 0
	if drawn || s.wants(h) {
		s.lookup(h, drawn, now, answer)
	}
	return n<<shardBits | i
}

// Fill is one body that the cache has got.
type Fill struct {
	Key        uint64        // the same hash as in Lookup
	AnsweredAt time.Time     // when the legacy's answer was complete
	Took       time.Duration // how long the legacy took; 0: unknown
	Body       uint64        // a hash of the body; equal bodies, equal hashes
	Bytes      int           // of the stored entry, variants included; 0: unknown
	// Shared says that another node asked the legacy and this one took the entry
	// from Redis.
	Shared bool
}

// Filled tells of a fill, a background refresh, or an entry taken from Redis.
func (e *Estimator) Filled(kind int, f Fill) {
	lab := e.lab(kind)
	if lab == nil {
		return
	}
	if !f.Shared {
		lab.smooth(f.Took)
	}
	h := mix(f.Key)
	s := &lab.shards[h%shardCount]
	if !f.Shared {
		s.filled.Add(1)
	}
	if s.wants(h) {
		s.fill(h, f)
	}
}

// smooth is the average of the first fills, then an exponential one: a first fill,
// which often opens a connection, must not stand for all. Two fills at once may lose
// one of them, which an average forgives.
func (lab *kindLab) smooth(took time.Duration) {
	if took <= 0 {
		return
	}
	old, weight := lab.latency.Load(), max(0.05, 1/float64(lab.timed.Add(1)))
	lab.latency.Store(int64(math.Round(float64(old) + weight*(float64(took)-float64(old)))))
}
