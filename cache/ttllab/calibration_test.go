package ttllab

import (
	"inquiry-gateway/cache"

	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"inquiry-gateway/internal/testkit"
)

// measured is a Lab beside a cache whose rules are written down as simply as possible.
type measured struct {
	*Lab
	t         *testing.T
	rand      *rand.Rand
	now       time.Duration
	policy    Policy
	config    Config
	filled    map[uint64]time.Duration
	perSecond float64
	lists     int     // asked for by Zipf's law
	first     uint64  // of them
	lost      float64 // share of the look-ups whose list was dropped before, which the lab is not told
	failing   float64 // share of the fills that fail
	ill       bool
}

func newMeasured(t *testing.T, p Policy) *measured {
	t.Helper()
	r := &measured{t: t, rand: rand.New(rand.NewPCG(7, 7)), policy: p, filled: map[uint64]time.Duration{}, perSecond: 20, lists: 150}
	r.Lab = NewLab(r.kinds(), r.config, func() time.Time { return at(r.now) })
	return r
}

func (r *measured) kinds() []Kind {
	return []Kind{{Name: "buyer", Kind: "buyer", Policy: r.policy}, {Name: "seller", Kind: "seller", Policy: Policy{TTL: time.Minute}}}
}

// reload puts a TTL in force.
func (r *measured) reload(ttl time.Duration) {
	r.policy.TTL = ttl
	r.SetConfig(r.kinds(), r.config)
}

// run lets callers ask for a time.
func (r *measured) run(d time.Duration) {
	zipf := rand.NewZipf(r.rand, 1.1, 10, uint64(r.lists-1))
	second := r.now
	for end := r.now + d; r.now < end; {
		if r.now += time.Duration(r.rand.ExpFloat64() * float64(time.Second) / r.perSecond); r.perSecond == 0 {
			r.now = end
		}
		for ; second <= r.now; second += time.Second {
			g := r.current.Load()
			g.tune(at(second))
			g.calibrate(at(second), !r.ill)
		}
		if r.perSecond > 0 {
			r.ask(cache.Key{Kind: "buyer", Account: fmt.Sprint(r.first + zipf.Uint64())})
		}
	}
}

func (r *measured) ask(k cache.Key) {
	h := k.Hash()
	filled, ok := r.filled[h]
	age := r.now - filled
	if r.rand.Float64() < r.lost {
		ok = false
	}
	stale := age >= r.policy.TTL
	usable := ok && age < r.policy.TTL+r.policy.StaleWhileRevalidate
	r.Looked(&k, h, at(r.now))
	switch {
	case usable:
		r.Served(&k, &Answer{Hash: h, At: at(filled).UnixNano()}, sum(0), at(r.now))
	case r.rand.Float64() < r.failing:
		r.of(&k).failed.Add(1)
		return
	default:
		r.Waited(&k)
	}
	if !usable || stale {
		r.filled[h] = r.now
		r.Lab.filled(&k, &Answer{Hash: h, At: at(r.now).UnixNano()}, 100, 0)
	}
}

// change is the newest change of the buyers' TTL.
func (r *measured) change() TTLChange {
	r.t.Helper()
	all := r.Report().Kinds[0].TTLChanges
	if len(all) == 0 {
		r.t.Fatal("no change is recorded")
	}
	return all[len(all)-1]
}

// gauge is the metric of the buyers.
func (r *measured) gauge(figure string) float64 {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Lab)
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return strings.HasSuffix(f.GetName(), "_ttl_prediction_error_points") })
	for _, m := range families[i].GetMetric() {
		if labels := m.GetLabel(); labels[0].GetValue() == figure && labels[1].GetValue() == "buyer" {
			return m.GetGauge().GetValue()
		}
	}
	r.t.Fatal("no such series")
	return 0
}

func (r *measured) table() string {
	r.t.Helper()
	var b bytes.Buffer
	if err := r.Report().WriteTable(&b); err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// With steady traffic the cache does what was predicted, whichever way the TTL changes.
func TestAPredictionComesTrue(t *testing.T) {
	testkit.Computes(t)
	for name, p := range map[string]Policy{"misses": {TTL: 5 * time.Second}, "refreshes": {TTL: 5 * time.Second, StaleWhileRevalidate: 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			r := newMeasured(t, p)
			r.run(30 * time.Minute)
			for _, ttl := range []time.Duration{time.Minute, 7 * time.Second, time.Second, 3 * time.Minute} {
				r.reload(ttl)
				if c := r.change(); c.State != StateSettling {
					t.Errorf("%+v", c)
				}
				r.run(20 * time.Minute)
				c := r.change()
				t.Logf("%+v predicted, %+v measured: %+v", *c.Predicted, *c.Measured, *c.Error)
				if c.State != StateDone || c.Why != "" || math.Abs(c.Error.Hits) > 1 || math.Abs(c.Error.Requests) > 1 || c.Error.Margin > 1 {
					t.Errorf("ttl %s: %+v, %+v", ttl, c, *c.Error)
				}
			}
			if n, hits, requests := len(r.Report().Kinds[0].TTLChanges), r.gauge("hits"), r.gauge("requests"); n != 4 || !(hits < 1) || !(requests < 1) {
				t.Errorf("%d changes, off by %g and %g", n, hits, requests)
			}
			if text := r.table(); strings.Count(text, "% measured (off by ") != 4 {
				t.Error(text)
			}
		})
	}
}

// A wrong prediction is told as what it is: by how much.
func TestAWrongPredictionIsTold(t *testing.T) {
	testkit.Computes(t)
	for name, change := range map[string]func(r *measured){
		"the cache drops lists":            func(r *measured) { r.lost = 0.06 },
		"more lists, by too little to see": func(r *measured) { r.lists, r.first = 300, 150 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newMeasured(t, Policy{TTL: 5 * time.Second})
			r.run(30 * time.Minute)
			if got := r.gauge("hits"); !math.IsNaN(got) {
				t.Errorf("off by %g before there was a change", got)
			}
			r.reload(time.Minute)
			change(r)
			r.run(20 * time.Minute)
			c := r.change()
			t.Logf("%+v predicted, %+v measured: %+v", *c.Predicted, *c.Measured, *c.Error)
			if c.State != StateDone || c.Why != "" || math.Abs(c.Error.Hits) < 2 || c.Error.Hits != 100*(c.Measured.HitRatio-c.Predicted.HitRatio) {
				t.Errorf("%+v", c)
			}
			if got := r.gauge("hits"); got != math.Abs(c.Error.Hits) {
				t.Errorf("the metric is %g", got)
			}
			r.perSecond = 0
			r.now += 25 * time.Hour
			if got := r.gauge("hits"); !math.IsNaN(got) {
				t.Errorf("a day later the metric is %g", got)
			}
		})
	}
}

// What is no test of a prediction gives no verdict, and says why.
func TestChangesWithoutAVerdict(t *testing.T) {
	testkit.Computes(t)
	const long = 15 * time.Minute
	for name, tt := range map[string]struct {
		run         func(r *measured)
		state, why  string
		settleAgain bool
	}{
		"another change": {func(r *measured) {
			r.run(long)
			r.reload(time.Minute)
			r.run(90 * time.Second)
			r.reload(2 * time.Minute)
			all := r.Report().Kinds[0].TTLChanges
			if first := all[0]; len(all) != 2 || first.State != StateAbandoned || first.Why != "the ttl has changed again" || first.Error != nil {
				r.t.Errorf("%+v", all)
			}
			r.run(time.Minute)
		}, StateSettling, "", false},
		"hardly any traffic": {func(r *measured) { r.run(long); r.reload(time.Minute); r.perSecond = 0.1; r.run(2 * time.Hour) }, StateAbandoned, "too little traffic: ", false},
		"no traffic ever":    {func(r *measured) { r.perSecond = 0; r.run(long); r.reload(time.Minute); r.run(long) }, StateAbandoned, "nothing was looked up before", false},
		"too early":          {func(r *measured) { r.run(20 * time.Second); r.reload(time.Minute); r.run(long) }, StateDone, "it came too early: ", false},
		"under a second":     {func(r *measured) { r.run(long); r.reload(time.Second / 2); r.run(long) }, StateAbandoned, "no ttl below 1s", false},
		"other rules": {func(r *measured) {
			r.run(long)
			r.reload(time.Minute)
			r.policy.StaleWhileRevalidate = time.Minute
			r.reload(time.Minute)
		}, StateAbandoned, "stale_while_revalidate or jitter has changed", false},
		"other rules, too": {func(r *measured) { r.run(long); r.policy.StaleWhileRevalidate = time.Minute; r.reload(time.Minute) }, StateAbandoned, "stale_while_revalidate or jitter has changed, too", false},
		"look-ups fail":    {func(r *measured) { r.run(long); r.reload(time.Minute); r.failing = 0.3; r.run(long) }, StateDone, "% of the look-ups failed", false},
		"the legacy system is in trouble": {func(r *measured) {
			r.run(long)
			r.reload(time.Minute)
			r.run(3 * time.Minute)
			if c := r.change(); c.State != StateMeasuring {
				r.t.Errorf("%+v", c)
			}
			r.ill = true
			r.run(time.Minute)
			if c := r.change(); c.State != StateSettling || !c.Until.After(at(r.now).Add(time.Minute)) {
				r.t.Errorf("%+v", c)
			}
			r.run(3 * time.Hour)
		}, StateAbandoned, "the legacy system was in trouble", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMeasured(t, Policy{TTL: 5 * time.Second})
			tt.run(r)
			c := r.change()
			if c.State != tt.state || !strings.Contains(c.Why, tt.why) || (tt.why == "") != (c.Why == "") {
				t.Errorf("%+v", c)
			}
			if got := r.gauge("hits"); math.IsNaN(got) == (tt.state == StateDone && tt.why == "") {
				t.Errorf("the metric is %g", got)
			}
			if !strings.Contains(r.table(), "to "+short(c.To)+" at ") || !strings.Contains(r.table(), tt.why) {
				t.Error(r.table())
			}
		})
	}
}

// Only the newest changes are kept.
func TestChangesAreBounded(t *testing.T) {
	r := newMeasured(t, Policy{TTL: 5 * time.Second})
	r.run(10 * time.Second)
	for i := range 3 * keptTTLChanges {
		r.reload(time.Duration(i+10) * time.Second)
	}
	if all := r.Report().Kinds[0].TTLChanges; len(all) != keptTTLChanges || all[keptTTLChanges-1].To != 3*keptTTLChanges+9 {
		t.Errorf("%d: %+v", len(all), all)
	}
}

// In a fleet the whole is measured, and not before all nodes have the new TTL.
func TestAFleetIsMeasuredAsAWhole(t *testing.T) {
	testkit.Computes(t)
	p := Policy{TTL: 5 * time.Second}
	nodes := sharedFleet(t, 3, 0, p)
	r, filled := rand.New(rand.NewPCG(3, 3)), map[uint64]time.Duration{}
	zipf := rand.NewZipf(r, 1.1, 10, 299)
	ttls := [3]time.Duration{p.TTL, p.TTL, p.TTL}
	now, second := time.Duration(0), time.Duration(0)
	run := func(d time.Duration) {
		for end := now + d; now < end; now += time.Duration(r.ExpFloat64() * float64(time.Second) / 60) {
			for ; second <= now; second += time.Second {
				exchange(t, nodes, second)
				for _, e := range nodes {
					e.tune(at(second))
					e.calibrate(at(second), true)
				}
			}
			n := min(r.IntN(6), 2) // the last node gets most
			key := mix(zipf.Uint64() + 1)
			nodes[n].kinds[0].looked(key, at(now))
			if last, ok := filled[key]; !ok || now-last >= ttls[n] {
				filled[key] = now
				nodes[n].kinds[0].waited.Add(1)
				nodes[n].kinds[0].filled(fill{Answer: Answer{Hash: key, At: at(now).UnixNano()}})
			}
		}
	}
	reload := func(n int, ttl time.Duration) {
		ttls[n] = ttl
		nodes[n].kinds[0].foresee(Policy{TTL: ttl}, at(now))
		nodes[n].kinds[0].setPolicy(Policy{TTL: ttl})
	}
	run(30 * time.Minute)
	reload(0, time.Minute)
	run(5 * time.Minute)
	if c := nodes[0].kinds[0].calibration.all()[0]; c.State != StateSettling || !c.Until.After(at(now)) {
		t.Errorf("the first node: %+v", c)
	}
	reload(1, time.Minute)
	reload(2, time.Minute)
	run(10 * time.Minute)
	for i, e := range nodes {
		c := e.kinds[0].calibration.all()[0]
		if c.State != StateDone || c.Why != "" {
			t.Fatalf("node %d: %+v", i, c)
		}
		t.Logf("%+v predicted, %+v measured: %+v", *c.Predicted, *c.Measured, *c.Error)
		if math.Abs(c.Error.Hits) > 1 || math.Abs(c.Error.Requests) > 1 || c.Lookups < 50*c.Seconds {
			t.Errorf("node %d: %+v", i, c)
		}
	}
}
