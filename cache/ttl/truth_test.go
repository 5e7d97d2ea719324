package ttl

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit"
)

// runs is how many times TestTheErrorsHoldTheTruth estimates; `make nightly` makes it 100.
var runs = flag.Int("ttl.runs", 40, "how many traces estimates are held against the truth for")

// cached runs a trace through the real cache.
type cached struct {
	trace   []lookup
	policy  cache.Freshness
	jitter  float64
	legacy  changing
	sampler *Sampler // nil: none
	clock   *testkit.Clock
	log     strings.Builder // a line for each look-up, if there is a sampler

	mu    sync.Mutex
	fills []time.Duration // really made

	from            time.Duration // what comes before does not count
	lookups, waits  float64
	outdated, sumOf float64
}

func (p *cached) body(list int) string {
	return fmt.Sprintf("%d@%d", list, p.legacy.body(list, p.clock.Now().Sub(start)))
}

func (p *cached) fill(_ context.Context, k cache.Key, _ cache.FillInfo) (cache.Content, error) {
	list, err := strconv.Atoi(k.Account)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fills = append(p.fills, p.clock.Now().Sub(start))
	return cache.Content{Body: []byte(p.body(list)), AnsweredAt: p.clock.Now()}, err
}

// run runs the trace. The clock stands still during a look-up and the refresh that it starts.
func (p *cached) run(t *testing.T) *cached {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := cache.DefaultConfig()
		cfg.Jitter, cfg.Buyer = p.jitter, cache.KindConfig{Freshness: p.policy}
		p.clock = testkit.NewClock(start)
		o := cache.Options{Fill: p.fill, Now: p.clock.Now}
		if p.sampler != nil {
			p.sampler.now = p.clock.Now
			o.Observer = p.sampler
		}
		lists, err := cache.New(cfg, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range p.trace {
			p.clock.Set(at(ev.at))
			p.ask(t, lists, ev)
		}
		if err := lists.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return p
}

func (p *cached) ask(t *testing.T, lists *cache.Cache, ev lookup) {
	k := cache.Key{Kind: cache.KindBuyer, Account: strconv.Itoa(ev.list)}
	r, ok := lists.Lookup(k)
	if ok {
		lists.RecordHit(k, r)
	} else {
		var err error
		if r, err = lists.Get(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if r.Outcome == cache.StaleRevalidate {
		synctest.Wait() // until the refresh is in
	}
	if p.sampler != nil {
		p.log.WriteString(record(at(ev.at), "buyer", k.Account, string(r.Outcome), r.Age.Seconds(), strings.Trim(r.Entry.ETag[0], `W/"`)))
	}
	if ev.at < p.from {
		return
	}
	p.lookups++
	p.sumOf += r.Age.Seconds()
	if r.Outcome == cache.Miss {
		p.waits++
	}
	if string(r.Entry.Identity.Body) != p.body(ev.list) {
		p.outdated++
	}
}

// record is a line as the gateway writes it, other fields included.
func record(at time.Time, kind, key, outcome string, age float64, etag string) string {
	return fmt.Sprintf(`{"time":%q,"level":"INFO","msg":"request","status":200,"kind":%q,"key":%q,"cache":%q,"tier":"local","age_seconds":%g,"list_seconds":0,"etag":%q,"bytes":512}`+"\n",
		at.Format(time.RFC3339Nano), kind, key, outcome, age, etag)
}

// What a replay says of another ttl is what the real cache then does, from a node and from its log: the
// hit ratio to within a point, the load to within 3 %. What depends on a part of the lists, or on
// rates learnt from few changes, is granted three of the standard errors that the report gives, on top.
func TestThePredictionIsWhatTheRealCacheDoes(t *testing.T) {
	testkit.SkipUnderRace(t)
	const s, m, h = time.Second, time.Minute, time.Hour
	for name, sc := range map[string]struct {
		traffic traffic
		policy  cache.Freshness
		jitter  float64
		kept    int
		ttls    []time.Duration
	}{
		"bursts, all lists": {
			traffic{seed: 1, lists: 3000, lookups: 12000, span: h, skew: 1.2, bursts: 0.05},
			cache.Freshness{TTL: 30 * s, StaleWhileRevalidate: 30 * s, StaleIfError: 10 * m}, 0.1, sampleSize,
			[]time.Duration{2 * s, 5 * m},
		},
		"daily wave and bursts, half of the lists": {
			traffic{seed: 2, lists: 15000, lookups: 20000, span: 24 * h, skew: 1.05, wave: 0.9, bursts: 0.02},
			cache.Freshness{TTL: 5 * m, StaleIfError: 10 * m}, 0, 15000,
			[]time.Duration{10 * s, 6 * h},
		},
		"hot lists, long refresh window, half of the lists": {
			traffic{seed: 3, lists: 10000, lookups: 16000, span: 2 * h, skew: 1.2, wave: 0.5, bursts: 0.01},
			cache.Freshness{TTL: m, StaleWhileRevalidate: 10 * m, StaleIfError: 10 * m}, 0.3, 14000,
			[]time.Duration{5 * s, 20 * m},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace, legacy := sc.traffic.trace(), sc.traffic.changing(0.05, 5)
			cfg := cache.DefaultConfig()
			cfg.Jitter, cfg.Buyer = sc.jitter, cache.KindConfig{Freshness: sc.policy}
			groups := GroupsOf(cfg, false, cache.KindBuyer)
			seen := &cached{trace: trace, legacy: legacy, policy: sc.policy, jitter: sc.jitter, sampler: NewSampler(groups, 0, func() time.Time { return start })}
			seen.sampler.sample.size, seen.sampler.sample.least, seen.sampler.sample.span = sc.kept, 100, math.MaxInt64
			seen.run(t)
			var reply bytes.Buffer
			if err := seen.sampler.Sample().Write(&reply); err != nil {
				t.Fatal(err)
			}
			node, summary, err := Read(&reply, nil)
			if err != nil || summary.Bad > 0 {
				t.Fatalf("%+v, %v", summary, err)
			}
			logged, summary, err := Read(strings.NewReader(seen.log.String()), groups)
			if err != nil || summary.Lookups != len(trace) {
				t.Fatalf("%+v, %v", summary, err)
			}
			for _, ttl := range sc.ttls {
				policy := sc.policy
				policy.TTL = ttl
				is := &cached{trace: trace, legacy: legacy, policy: policy, jitter: sc.jitter, from: ttl}
				is.run(t)
				is.compare(t, "node", Replay(node))
				is.compare(t, "log", Replay(logged))
			}
		})
	}
}

// compare holds a report against what has really happened.
func (p *cached) compare(t *testing.T, from string, r Report) {
	t.Helper()
	g := r.Groups[0]
	c := g.Candidates[slices.Index(ttls[:], p.policy.TTL)]
	requests := 0.0
	for _, moment := range p.fills {
		if moment >= p.from {
			requests++
		}
	}
	load := requests / (p.trace[len(p.trace)-1].at - p.from).Seconds()
	sampled := 0.0 // how many standard errors chance may add where not all lists are in the sample
	if g.Lists > float64(g.SampledLists) {
		sampled = 3
	}
	for _, figure := range []struct {
		name      string
		says      Estimate
		is        float64
		tolerance float64
	}{
		{"hit ratio", c.HitRatio, 1 - p.waits/p.lookups, 0.01 + sampled*c.HitRatio.StdErr},
		{"requests/s", c.Upstream, load, 0.03*load + sampled*c.Upstream.StdErr},
		{"mean age", c.MeanAge, p.sumOf / p.lookups, 0.02*p.sumOf/p.lookups + sampled*c.MeanAge.StdErr},
		{"outdated", *c.Outdated, p.outdated / p.lookups, 0.01 + 3*c.Outdated.StdErr},
	} {
		t.Logf("%s, ttl %gs, %s: %.4f (std err %.4f), is %.4f", from, c.TTL, figure.name, figure.says.Value, figure.says.StdErr, figure.is)
		if off := math.Abs(figure.says.Value - figure.is); off > figure.tolerance {
			t.Errorf("%s, ttl %gs: %s is off by %.4f", from, c.TTL, figure.name, off)
		}
	}
}

// In 95 % of the runs the truth is within two standard errors of the estimate, at ttls below and above
// today's.
func TestTheErrorsHoldTheTruth(t *testing.T) {
	testkit.SkipUnderRace(t)
	const lists, today = 300, time.Minute
	checked := []time.Duration{5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}
	within, square := map[time.Duration]int{}, map[time.Duration]float64{}
	for seed := range uint64(*runs) {
		s := traffic{seed: seed, lists: lists, lookups: 6000, span: 30 * time.Minute, skew: 1.2}
		trace, legacy := s.trace(), s.changing(1, 100)
		seen, _ := legacy.served(trace, today, 0)
		groups := []Group{{Name: "buyer", TTL: cache.Seconds(today.Seconds())}}
		g := Replay(Sample{Groups: groups, Below: math.MaxUint64, Since: start.UnixNano(), Lookups: seen}).Groups[0]
		for _, ttl := range checked {
			_, truth := legacy.served(trace, ttl, ttl)
			says := g.Candidates[slices.Index(ttls[:], ttl)].Outdated
			square[ttl] += (says.Value - truth) * (says.Value - truth) / float64(*runs)
			if math.Abs(says.Value-truth) <= 1.96*says.StdErr {
				within[ttl]++
			}
		}
	}
	for _, ttl := range checked {
		t.Logf("ttl %s: within two standard errors in %d of %d runs; off by %.2f points", ttl, within[ttl], *runs, 100*math.Sqrt(square[ttl]))
		if within[ttl] < *runs*95/100 {
			t.Errorf("ttl %s: the truth was within two standard errors in %d of %d runs", ttl, within[ttl], *runs)
		}
	}
}
