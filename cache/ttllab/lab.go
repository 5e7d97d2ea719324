package ttllab

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/panics"
)

// Answer is what the cache keeps beside a list for the lab, so that a hit computes
// nothing. It must not change.
type Answer struct {
	Hash   uint64 // of the list that the legacy is asked for
	Source uint64 // a hash of that list's body
	At     int64  // when the legacy answered, Unix ns on this node's clock
}

// Sum is a hash of a body; the lab goes by a part of it.
type Sum [16]byte

// Short is the part that the lab goes by.
func (s *Sum) Short() uint64 { return binary.LittleEndian.Uint64(s[:]) }

// Fetch asks the legacy for a list, past the cache. body is a hash as in Answer.
type Fetch func(ctx context.Context, k cache.Key) (body uint64, answeredAt time.Time, err error)

// Answered takes in a look-up that got a list.
func (l *Lab) Answered(e *cache.Entry, o cache.Outcome, at time.Time) {
	a, body := answerOf(e), Sum{}
	binary.LittleEndian.PutUint64(body[:], e.Sum())
	if o == cache.Miss || o == cache.Collapsed {
		l.Looked(&e.Key, a.Hash, at)
		l.Waited(&e.Key)
		return
	}
	l.Hit(&e.Key, &a, &body, at)
}

// Failed takes in a look-up that got none.
func (l *Lab) Failed(kind, status string, list uint64, at time.Time) {
	k := cache.Key{Kind: kind, Status: status}
	l.Looked(&k, list, at)
	if lab := l.of(&k); lab != nil {
		lab.failed.Add(1)
	}
}

// Filled takes in a fill.
func (l *Lab) Filled(e *cache.Entry, took time.Duration) {
	a := answerOf(e)
	l.filled(&e.Key, &a, e.Size(), took)
}

func answerOf(e *cache.Entry) Answer {
	list, body := e.Source()
	return Answer{Hash: list, Source: body, At: e.AnsweredAt.UnixNano()}
}

// Lab is told what a running cache does, whose policy may change. A nil Lab, and one that
// has no group for a list, ignores what it is told. It is safe for concurrent use.
type Lab struct {
	current atomic.Pointer[estimator]
	shared  atomic.Bool
	now     func() time.Time
}

// NewLab makes a Lab for groups of lists that have a TTL of their own. now is the
// clock of the cache, which tells when look-ups were; nil: the system's.
func NewLab(kinds []Kind, c Config, now func() time.Time) *Lab {
	if now == nil {
		now = time.Now
	}
	l := &Lab{now: now}
	l.SetConfig(kinds, c)
	return l
}

// SetConfig follows a new policy. What was learnt is kept as long as the same
// groups of lists have a TTL of their own.
func (l *Lab) SetConfig(kinds []Kind, c Config) {
	old := l.current.Load()
	if old == nil || len(old.kinds) != len(kinds) || slices.ContainsFunc(kinds, func(k Kind) bool { return old.named(k.Name) == nil }) {
		e := newEstimator(options{kinds: kinds, halfLife: defaultHalfLife, config: c})
		if l.shared.Load() {
			e.share()
		}
		l.current.Store(e)
		return
	}
	for _, k := range kinds {
		lab := old.named(k.Name)
		lab.foresee(k.Policy, l.now())
		lab.setPolicy(k.Policy)
	}
	old.setConfig(c)
}

// of is the group that a list belongs to; nil: none.
func (l *Lab) of(k *cache.Key) *kindLab {
	if l == nil {
		return nil
	}
	return l.current.Load().of(k)
}

// Hit tells of a look-up that was answered out of the cache at once. body is a hash of
// what the caller gets: not a's where it is selected from that list. It allocates
// nothing.
func (l *Lab) Hit(k *cache.Key, a *Answer, body *Sum, now time.Time) {
	if lab := l.of(k); lab != nil {
		lab.hit(k, a, body, now)
	}
}

// Looked tells of any other look-up before the fill that it may begin, so that the
// order is that of the events. hash is that of the list which the legacy is asked for.
// Of its end Served, Waited or Failed tells.
func (l *Lab) Looked(k *cache.Key, hash uint64, now time.Time) {
	if lab := l.of(k); lab != nil {
		lab.looked(hash, now)
	}
}

// Served tells that a look-up was answered out of the cache in the end.
func (l *Lab) Served(k *cache.Key, a *Answer, body *Sum, now time.Time) {
	if lab := l.of(k); lab != nil {
		lab.served(k, a, body, now)
	}
}

// Waited tells that a look-up was answered by a fill that it waited for.
func (l *Lab) Waited(k *cache.Key) {
	if lab := l.of(k); lab != nil {
		lab.waited.Add(1)
	}
}

// filled tells of a fill that worked. size is that of the stored entry, in bytes, and
// took how long the legacy took.
func (l *Lab) filled(k *cache.Key, a *Answer, size int, took time.Duration) {
	if lab := l.of(k); lab != nil {
		lab.filled(fill{Answer: *a, took: took, bytes: size})
	}
}

// Share exchanges look-ups with the other nodes until ctx ends: publish sends a
// message to all of them, this one included or not, and messages are theirs; closed: no
// more come. What gets
// lost on the way is missing in the figures and in nothing else.
func (l *Lab) Share(ctx context.Context, publish func(ctx context.Context, message []byte), messages <-chan []byte, p *panics.Catcher) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if message := l.current.Load().tell(l.now()); message != nil {
				publish(ctx, message)
			}
		case m, ok := <-messages:
			if !ok {
				messages = nil // nobody is heard any more
				continue
			}
			func() {
				defer p.Catch(nil)
				_ = l.current.Load().hear(m, l.now()) // of a node that is being updated: its look-ups are missing
			}()
		}
	}
}

// Shared says that Share will be called: look-ups wait for those of other nodes. It is to
// be called before the first look-up.
func (l *Lab) Shared() {
	l.shared.Store(true)
	l.current.Load().share()
}

// Report is the what-if table as of now.
func (l *Lab) Report() Report { return l.current.Load().report(l.now()) }

// Recheck compares lists that were served with what the legacy says now, as often as
// the budget allows, until ctx ends. timeout is that of one fetch. healthy keeps it
// from adding to the trouble of a legacy that has some. A panic ends one comparison.
func (l *Lab) Recheck(ctx context.Context, fetch Fetch, timeout func() time.Duration, healthy func() bool, p *panics.Catcher) {
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for {
		e := l.current.Load()
		select {
		case <-ctx.Done():
			return
		case <-tick.C: // also finds out that a reload has replaced e
			e.tune(l.now())
			e.calibrate(l.now(), healthy())
		case r := <-e.picker.picked:
			if healthy() {
				compare(ctx, r, fetch, timeout(), p)
			}
		}
	}
}

// compare makes one re-check. A fetch that fails says nothing, and is not repeated.
func compare(ctx context.Context, r recheck, fetch Fetch, timeout time.Duration, p *panics.Catcher) {
	defer p.Catch(nil)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if body, answeredAt, err := fetch(ctx, r.list); err == nil {
		r.compared(sighting{answeredAt.UnixNano(), body})
	}
}

// Describe sends the series' descriptions.
func (l *Lab) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{
		rechecksDesc, answersDesc, outdatedDesc, goalDesc, nodesDesc, lostDesc, predictionErrorDesc,
	} {
		ch <- d
	}
}

var (
	rechecksDesc        = prometheus.NewDesc("inquiry_gateway_cache_rechecks_total", "Lists compared with the legacy after they were served from the cache, by kind and by whether they had changed. Absent while re-checks are off.", []string{"kind", "result"}, nil)
	answersDesc         = prometheus.NewDesc("inquiry_gateway_cache_rechecked_answers_total", "Answers out of the cache that the re-checks stand for, estimated, by kind and by whether they were outdated. Absent while re-checks are off.", []string{"kind", "result"}, nil)
	outdatedDesc        = prometheus.NewDesc("inquiry_gateway_cache_outdated_seconds_total", "Seconds for which the lists that had changed are expected to have been outdated.", []string{"kind"}, nil)
	nodesDesc           = prometheus.NewDesc("inquiry_gateway_cache_lab_nodes", "Nodes whose look-ups the TTL lab of this node has: itself and those that share its Redis.", nil, nil)
	lostDesc            = prometheus.NewDesc("inquiry_gateway_cache_lab_lost_lookups_total", "Look-ups of watched lists that were too many to be shared with the other nodes; the TTL lab's figures lack them.", nil, nil)
	predictionErrorDesc = prometheus.NewDesc("inquiry_gateway_cache_ttl_prediction_error_points", "By how many of 100 look-ups the TTL lab's prediction was off, the worst of the ttls that came into force and were measured in the last 24 hours, by kind and figure: hits (hit ratio) or requests (to the legacy system). Not a number without such a verdict.", []string{"kind", "figure"}, nil)
	goalDesc            = prometheus.NewDesc("inquiry_gateway_cache_goal_outdated_ratio", "Share of answers that may be outdated, by cache.goals.max_outdated. Absent without that goal.", nil, nil)
)

// Collect sends what was counted; lists of a status count with their kind, so that
// the labels stay bounded whatever is configured. What is off is left out: a zero
// would look like a gateway that serves nothing outdated.
func (l *Lab) Collect(ch chan<- prometheus.Metric) {
	e := l.current.Load()
	config := e.config()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	nodes, lost := e.coverage(l.now().UnixNano())
	gauge(nodesDesc, float64(nodes))
	counter(lostDesc, float64(lost))
	for kind, worst := range e.worstErrors(l.now()) {
		gauge(predictionErrorDesc, worst.Hits, kind, "hits")
		gauge(predictionErrorDesc, worst.Requests, kind, "requests")
	}
	if goal := config.Goals.MaxOutdated; goal > 0 {
		gauge(goalDesc, goal)
	}
	if config.Recheck.BudgetPerSecond == 0 {
		return
	}
	sums := map[string]totals{}
	for _, lab := range e.kinds {
		sums[lab.kind] = sums[lab.kind].plus(lab.checks.total())
	}
	for kind, s := range sums {
		counter(rechecksDesc, float64(s.checked-s.outdated), kind, "same")
		counter(rechecksDesc, float64(s.outdated), kind, "outdated")
		counter(answersDesc, s.answers-s.outdatedAnswers, kind, "same")
		counter(answersDesc, s.outdatedAnswers, kind, "outdated")
		counter(outdatedDesc, s.seconds, kind)
	}
}
