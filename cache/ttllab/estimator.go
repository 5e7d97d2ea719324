// Package ttllab tells what another TTL would do.
//
// A [Lab] watches the look-ups and fills of a cache, and runs a bounded sample of the keys
// through 24 candidate TTLs at once by the rules of the real cache: freshness counted
// from the legacy's answer, stale-while-revalidate, jitter. [FromLog] does the same with
// a log of look-ups.
//
// # Sampling
//
// A key is watched when its hash is below a threshold that falls as more keys
// are seen, so that the number of watched keys stays within 4,096 a kind
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
// about a legacy in health. Without Share it is about one node; nodes that share their
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
// It takes at most about 1,750 bytes per watched key and 1,050 KiB per kind, so 16 MiB
// with two kinds.
package ttllab

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"inquiry-gateway/cache"
)

const (
	defaultKeys     = 4096
	defaultHalfLife = 12 * time.Hour
)

// Kind is one group of lists that has a TTL of its own: a kind of the gateway,
// or the lists of one status where that status has its own ttl.
type Kind struct {
	Name   string
	Kind   string // of the gateway
	Status string // of the lists; empty: all that have no Kind of their own
	Policy Policy
}

// options are what an estimator is built from.
type options struct {
	kinds []Kind
	// keys bounds the watched keys of each kind, a quarter of them hot ones. 0:
	// 4,096. It is rounded up to a multiple of 64.
	keys int
	// halfLife is the time after which what was counted counts half, so that the figures
	// follow the traffic. 0: nothing is ever forgotten.
	halfLife time.Duration
	config   Config // until setConfig gives another
}

// estimator holds the groups of lists, and what is done with the figures. All methods are
// safe for concurrent use.
//
// Of its locks, that of calibration is taken first, then that of fleet, and in the end
// those of a shard and of checks, which need no other. That of picker is taken by itself.
type estimator struct {
	kinds     []*kindLab
	goals     atomic.Pointer[cache.GoalsConfig]
	drawShare atomic.Uint64 // of the answers that are re-checked, of 2^64; 0: none
	picker    picker
	fleet     fleet
}

// kindLab is the lab of one kind, or of the lists of one status that has a TTL of its own.
// Look-ups touch its shards and counters only; all else reads these once in a while.
type kindLab struct {
	name, kind  string
	status      string // empty: of all lists of the kind that have no group of their own
	halfLife    int64
	first       atomic.Int64 // look-up, Unix ns; 0: none yet
	rules       atomic.Pointer[rules]
	e           *estimator
	latency     atomic.Int64           // how long the legacy takes, ns, smoothed
	timed       atomic.Int64           // fills that latency is of
	waited      atomic.Uint64          // look-ups that waited for the legacy
	failed      atomic.Uint64          // look-ups without an answer
	told        counts                 // what the other nodes know of
	theirs      atomic.Pointer[counts] // of the other nodes
	differed    atomic.Int64           // when another node last had another TTL, Unix ns
	checks      checks
	calibration calibration
	shards      [shardCount]shard
}

// newEstimator starts no goroutine.
func newEstimator(o options) *estimator {
	places := (cmp.Or(o.keys, defaultKeys) + shardCount - 1) / shardCount
	e := &estimator{picker: picker{picked: make(chan recheck, keptPicks)}}
	for _, k := range o.kinds {
		lab := &kindLab{name: k.Name, kind: k.Kind, status: k.Status, e: e, halfLife: int64(o.halfLife)}
		lab.rules.Store(newRules(k.Policy))
		lab.theirs.Store(&counts{})
		lab.checks.lab, lab.checks.aged.halfLife, lab.checks.open = lab, lab.halfLife, map[uint64]cluster{}
		for i := range lab.shards {
			lab.shards[i].init(lab, places, lab.halfLife)
		}
		e.kinds = append(e.kinds, lab)
	}
	e.setConfig(o.config)
	return e
}

// named is the group with this name; nil: there is none.
func (e *estimator) named(name string) *kindLab {
	for _, lab := range e.kinds {
		if lab.name == name {
			return lab
		}
	}
	return nil
}

// of is the group that a list belongs to; nil: none.
func (e *estimator) of(k *cache.Key) (group *kindLab) {
	for _, lab := range e.kinds {
		switch {
		case lab.kind != k.Kind:
		case lab.status == k.Status:
			return lab
		case lab.status == "":
			group = lab
		}
	}
	return group
}

// setConfig swaps the budget and the goals.
func (e *estimator) setConfig(c Config) {
	e.goals.Store(&c.Goals)
	e.picker.mu.Lock()
	defer e.picker.mu.Unlock()
	if perSecond := c.Recheck.BudgetPerSecond; e.picker.budget == nil || perSecond != float64(e.picker.budget.Limit()) {
		burst := int(perSecond)
		if perSecond > 0 {
			burst = max(burst, 1)
		}
		e.picker.budget = rate.NewLimiter(rate.Limit(perSecond), burst)
	}
	e.retune()
}

// config is the budget and the goals that count now.
func (e *estimator) config() Config {
	e.picker.mu.Lock()
	defer e.picker.mu.Unlock()
	return Config{Recheck: cache.RecheckConfig{BudgetPerSecond: float64(e.picker.budget.Limit())}, Goals: *e.goals.Load()}
}

// setPolicy tells that the real cache has another policy from now on. What was counted is
// kept.
func (lab *kindLab) setPolicy(p Policy) {
	r := newRules(p)
	old := lab.rules.Swap(r)
	if old.swr == r.swr {
		return
	}
	for i := range lab.shards {
		lab.shards[i].forget()
	}
}

// looked takes in a look-up, whatever comes of it; if it is not answered out of the cache,
// waited or failed counts its end. hash is of everything that names the list. It allocates
// only while new keys join the sample.
func (lab *kindLab) looked(hash uint64, now time.Time) {
	lab.lookup(mix(hash), now.UnixNano(), sighting{})
}

// hit is looked and served in one.
func (lab *kindLab) hit(k *cache.Key, a *Answer, body *Sum, now time.Time) {
	n := lab.lookup(mix(a.Hash), now.UnixNano(), sighting{a.At, a.Source})
	if weight, ok := lab.e.drawn(n); ok {
		lab.e.pick(lab.recheckOf(k, a, body, weight), now)
	}
}

// served takes in that a look-up was answered out of the cache.
func (lab *kindLab) served(k *cache.Key, a *Answer, body *Sum, now time.Time) {
	h := mix(a.Hash)
	if s := &lab.shards[h%shardCount]; s.wants(h) {
		s.served(h, sighting{a.At, a.Source})
	}
	if weight, ok := lab.e.drawn(mix(h ^ uint64(now.UnixNano()))); ok {
		lab.e.pick(lab.recheckOf(k, a, body, weight), now)
	}
}

// recheckOf makes the order to compare an answer. A list that was selected from another
// one is compared as the caller got it, and teaches nothing about that other one.
func (lab *kindLab) recheckOf(k *cache.Key, a *Answer, body *Sum, weight float64) recheck {
	return recheck{
		lab: lab, list: *k, answeredAt: a.At, hash: mix(a.Hash), body: body.Short(), selected: body.Short() != a.Source, weight: weight,
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

// fill is one body that the cache has got: by a fill, a refresh, or from Redis.
type fill struct {
	Answer
	took   time.Duration // how long the legacy took; 0: unknown
	bytes  int           // of the stored entry, variants included; 0: unknown
	shared bool          // another node asked the legacy
}

// filled takes in a body. Only fills of this node tell how long the legacy takes.
func (lab *kindLab) filled(f fill) {
	h := mix(f.Hash)
	s := &lab.shards[h%shardCount]
	if !f.shared {
		lab.smooth(f.took)
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
