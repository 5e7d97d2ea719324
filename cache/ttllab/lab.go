package ttllab

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/panics"
)

// recheckEvery is how often a Lab asks whether a list shall be compared.
const recheckEvery = 100 * time.Millisecond

// List names a list of the cache.
type List struct{ Kind, Account, Status, InquiryType string }

// Fetch asks the legacy for a list, past the cache.
type Fetch func(ctx context.Context, k List) (body []byte, answeredAt time.Time, err error)

// Lab is an Estimator for a running cache, whose policy may change. A nil Lab
// ignores what it is told. It is safe for concurrent use.
type Lab struct {
	seed    maphash.Seed
	current atomic.Pointer[groups]
}

// groups is an estimator with its kinds.
type groups struct {
	*Estimator
	kinds []Kind
}

// NewLab makes a Lab for groups of lists that have a TTL of their own.
func NewLab(kinds []Kind, c Config) (*Lab, error) {
	l := &Lab{seed: maphash.MakeSeed()}
	return l, l.SetConfig(kinds, c)
}

// SetConfig follows a new policy. What was learnt is kept as long as the same
// groups of lists have a TTL of their own.
func (l *Lab) SetConfig(kinds []Kind, c Config) error {
	if old := l.current.Load(); old != nil && old.same(kinds) {
		for _, k := range kinds {
			old.SetPolicy(old.Index(k.Name), k.Policy)
		}
		old.Estimator.SetConfig(c)
		return nil
	}
	e, err := New(Options{Kinds: kinds, Config: c})
	if err == nil {
		l.current.Store(&groups{e, kinds})
	}
	return err
}

func (g *groups) same(kinds []Kind) bool {
	for _, k := range kinds {
		if g.Index(k.Name) < 0 {
			return false
		}
	}
	return len(kinds) == len(g.kinds)
}

// of is the group that a list belongs to.
func (g *groups) of(k List) int {
	group := -1
	for i := range g.kinds {
		if of := &g.kinds[i]; of.Kind == k.Kind {
			if of.Status == k.Status {
				return i
			}
			if of.Status == "" {
				group = i
			}
		}
	}
	return group
}

// Hash is the number that a list is known by, so that it need not be hashed at each
// look-up.
func (l *Lab) Hash(k List) uint64 {
	if l == nil {
		return 0
	}
	return maphash.Comparable(l.seed, k)
}

// Looked tells of a look-up: of a hit when it is served, of any other before the
// fill that it may begin, so that the order is that of the events. hash is that of
// the list which the legacy is asked for. It allocates nothing and keeps no string.
func (l *Lab) Looked(k List, hash uint64, now time.Time) {
	if l != nil {
		g := l.current.Load()
		g.Lookup(g.of(k), hash, now)
	}
}

// Filled tells of a fill that worked. k is kept. size is that of the stored entry, in
// bytes.
func (l *Lab) Filled(k List, body []byte, size int, answeredAt time.Time) {
	if l != nil {
		g := l.current.Load()
		g.Filled(g.of(k), Fill{Key: l.Hash(k), AnsweredAt: answeredAt, Body: maphash.Bytes(l.seed, body), Bytes: size, Ref: k})
	}
}

// Report is the what-if table as of now.
func (l *Lab) Report() Report { return l.current.Load().Report(time.Now()) }

// Recheck compares lists that were served with what the legacy says now, as often as
// the budget allows, until ctx ends. timeout is that of one fetch. healthy keeps it
// from adding to the trouble of a legacy that has some. A panic ends one comparison.
func (l *Lab) Recheck(ctx context.Context, fetch Fetch, timeout func() time.Duration, healthy func() bool, p *panics.Catcher) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if healthy() {
				l.compare(ctx, now, fetch, timeout(), p)
			}
		}
	}
}

func (l *Lab) compare(ctx context.Context, now time.Time, fetch Fetch, timeout time.Duration, p *panics.Catcher) {
	defer p.Catch(nil)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	g := l.current.Load()
	r, ok := g.Next(now)
	if !ok {
		return
	}
	k, ok := r.Ref.(List)
	if !ok {
		return
	}
	if body, answeredAt, err := fetch(ctx, k); err == nil {
		g.Rechecked(r, answeredAt, maphash.Bytes(l.seed, body))
	}
}

// Describe sends the series' descriptions.
func (l *Lab) Describe(ch chan<- *prometheus.Desc) {
	ch <- rechecksDesc
	ch <- outdatedDesc
	ch <- goalDesc
}

var (
	rechecksDesc = prometheus.NewDesc("inquiry_gateway_cache_rechecks_total", "Lists compared with the legacy after they were served from the cache, by kind and by whether they had changed. Absent while re-checks are off.", []string{"kind", "result"}, nil)
	outdatedDesc = prometheus.NewDesc("inquiry_gateway_cache_outdated_seconds_total", "Seconds for which the lists that had changed are expected to have been outdated.", []string{"kind"}, nil)
	goalDesc     = prometheus.NewDesc("inquiry_gateway_cache_goal_outdated_ratio", "Share of answers that may be outdated, by cache.goals.max_outdated. Absent without that goal.", nil, nil)
)

// Collect sends what was counted; lists of a status count with their kind, so that
// the labels stay bounded whatever is configured. What is off is left out: a zero
// would look like a gateway that serves nothing outdated.
func (l *Lab) Collect(ch chan<- prometheus.Metric) {
	g := l.current.Load()
	config := g.Config()
	if config.Goals.MaxOutdated > 0 {
		ch <- prometheus.MustNewConstMetric(goalDesc, prometheus.GaugeValue, config.Goals.MaxOutdated)
	}
	if config.Recheck.BudgetPerSecond == 0 {
		return
	}
	type sum struct{ checked, outdated, seconds float64 }
	sums := map[string]sum{}
	for i, k := range g.kinds {
		checked, outdated, seconds := g.Rechecks(i)
		s := sums[k.Kind]
		sums[k.Kind] = sum{s.checked + float64(checked), s.outdated + float64(outdated), s.seconds + seconds}
	}
	for kind, s := range sums {
		ch <- prometheus.MustNewConstMetric(rechecksDesc, prometheus.CounterValue, s.checked-s.outdated, kind, "same")
		ch <- prometheus.MustNewConstMetric(rechecksDesc, prometheus.CounterValue, s.outdated, kind, "outdated")
		ch <- prometheus.MustNewConstMetric(outdatedDesc, prometheus.CounterValue, s.seconds, kind)
	}
}
