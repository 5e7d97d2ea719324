package app

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/gateway/ops/console"
)

// recheckEvery is how often the lab is asked whether it wants a list compared.
const recheckEvery = 100 * time.Millisecond

// lab lets the TTL lab watch the cache. It is a cache.Observer.
type lab struct {
	seed    maphash.Seed
	current atomic.Pointer[labKinds]
}

// labKinds is an estimator with its kinds' places by name.
type labKinds struct {
	estimator *ttllab.Estimator
	buyer     int
	seller    int
	byStatus  map[cache.Key]int // with kind and status set
}

func newLab(c cache.Config) (*lab, error) {
	l := &lab{seed: maphash.MakeSeed()}
	return l, l.setConfig(c)
}

// setConfig follows a new policy. What was learnt is kept as long as the same
// groups of lists have a ttl of their own.
func (l *lab) setConfig(c cache.Config) error {
	kinds := c.LabKinds()
	if old := l.current.Load(); old != nil && old.has(kinds) {
		for _, k := range kinds {
			old.estimator.SetPolicy(old.estimator.Index(k.Name), k.Policy)
		}
		old.estimator.SetConfig(c.Lab)
		return nil
	}
	e, err := ttllab.New(ttllab.Options{Kinds: kinds, RecheckPerSecond: c.Lab.Recheck.BudgetPerSecond, Goals: c.Lab.Goals})
	if err != nil {
		return err
	}
	next := &labKinds{estimator: e, buyer: e.Index(cache.KindBuyer), seller: e.Index(cache.KindSeller), byStatus: map[cache.Key]int{}}
	for kind, config := range map[string]cache.KindConfig{cache.KindBuyer: c.Buyer, cache.KindSeller: c.Seller} {
		for status := range config.ByStatus {
			next.byStatus[cache.Key{Kind: kind, Status: status}] = e.Index(cache.LabKind(kind, status))
		}
	}
	l.current.Store(next)
	return nil
}

func (k *labKinds) has(kinds []ttllab.Kind) bool {
	if len(kinds) != len(k.byStatus)+2 {
		return false
	}
	for _, kind := range kinds {
		if k.estimator.Index(kind.Name) < 0 {
			return false
		}
	}
	return true
}

// index is the group that a list belongs to.
func (k *labKinds) index(key cache.Key) int {
	if key.Status != "" && len(k.byStatus) > 0 {
		if i, ok := k.byStatus[cache.Key{Kind: key.Kind, Status: key.Status}]; ok {
			return i
		}
	}
	if key.Kind == cache.KindBuyer {
		return k.buyer
	}
	return k.seller
}

// Name is the hash that the lab knows a list by.
func (l *lab) Name(key cache.Key) uint64 { return maphash.Comparable(l.seed, key) }

// Looked tells the lab of a look-up.
func (l *lab) Looked(key cache.Key, name uint64, now time.Time) {
	k := l.current.Load()
	k.estimator.Lookup(k.index(key), name, now)
}

// Filled tells the lab of a fill; a failed one teaches nothing about the list.
func (l *lab) Filled(key cache.Key, e *cache.Entry, err error) {
	if err != nil || e == nil {
		return
	}
	k := l.current.Load()
	k.estimator.Filled(k.index(key), ttllab.Fill{
		Key: l.Name(key), AnsweredAt: e.AnsweredAt,
		Body: maphash.Bytes(l.seed, e.Identity.Body), Bytes: e.Size(),
		Ref: cache.Key{Kind: e.Kind, Account: e.Account, Status: e.Status, InquiryType: e.InquiryType},
	})
}

// observers are told of what the cache does: the lab of everything, the console
// of the accounts that the legacy works for.
type observers struct {
	*lab
	accounts *console.TopAccounts
}

// Filled counts a fill whether it worked or not: the legacy has worked for it.
func (o observers) Filled(key cache.Key, e *cache.Entry, err error) {
	o.lab.Filled(key, e, err)
	o.accounts.Filled(key.Account)
}

// report is the what-if table as of now.
func (l *lab) report() ttllab.Report { return l.current.Load().estimator.Report(time.Now()) }

// recheck compares lists that were served with what the legacy says now, as
// often as the budget allows, until ctx ends. healthy keeps it from adding to
// the trouble of a legacy that has some.
func (l *lab) recheck(ctx context.Context, fill cache.Fill, timeout func() time.Duration, healthy func() bool) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if !healthy() {
				continue
			}
			if r, ok := l.current.Load().estimator.Next(now); ok {
				l.compare(ctx, r, fill, timeout())
			}
		}
	}
}

func (l *lab) compare(ctx context.Context, r ttllab.Recheck, fill cache.Fill, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	key, ok := r.Ref.(cache.Key)
	if !ok {
		return
	}
	if content, err := fill(ctx, key); err == nil {
		l.current.Load().estimator.Rechecked(r, content.AnsweredAt, maphash.Bytes(l.seed, content.Body))
	}
}

// register exposes what the re-checks found.
func (l *lab) register(reg prometheus.Registerer) error {
	return reg.Register(labCollector{l,
		prometheus.NewDesc("inquiry_gateway_cache_rechecks_total", "Lists compared with the legacy after they were served from the cache, by kind and by whether they had changed. Absent while re-checks are off.", []string{"kind", "result"}, nil),
		prometheus.NewDesc("inquiry_gateway_cache_outdated_seconds_total", "Seconds for which the lists that had changed are expected to have been outdated.", []string{"kind"}, nil),
		prometheus.NewDesc("inquiry_gateway_cache_goal_outdated_ratio", "Share of answers that may be outdated, by cache.goals.max_outdated. Absent without that goal.", nil, nil),
	})
}

type labCollector struct {
	lab                     *lab
	rechecks, seconds, goal *prometheus.Desc
}

// Describe sends the series' descriptions.
func (c labCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.rechecks
	ch <- c.seconds
	ch <- c.goal
}

// Collect sends what the estimator has counted; lists of a status count with
// their kind, so that the labels stay bounded whatever is configured. What is off
// is left out: a zero would look like a gateway that serves nothing outdated.
func (c labCollector) Collect(ch chan<- prometheus.Metric) {
	k := c.lab.current.Load()
	config := k.estimator.Config()
	if config.Goals.MaxOutdated > 0 {
		ch <- prometheus.MustNewConstMetric(c.goal, prometheus.GaugeValue, config.Goals.MaxOutdated)
	}
	if config.Recheck.BudgetPerSecond == 0 {
		return
	}
	for kind, index := range map[string]int{cache.KindBuyer: k.buyer, cache.KindSeller: k.seller} {
		checked, outdated, seconds := k.estimator.Rechecks(index)
		for key, i := range k.byStatus {
			if key.Kind == kind {
				more, moreOutdated, moreSeconds := k.estimator.Rechecks(i)
				checked, outdated, seconds = checked+more, outdated+moreOutdated, seconds+moreSeconds
			}
		}
		ch <- prometheus.MustNewConstMetric(c.rechecks, prometheus.CounterValue, float64(checked-outdated), kind, "same")
		ch <- prometheus.MustNewConstMetric(c.rechecks, prometheus.CounterValue, float64(outdated), kind, "outdated")
		ch <- prometheus.MustNewConstMetric(c.seconds, prometheus.CounterValue, seconds, kind)
	}
}
