package ttllab

import (
	"inquiry-gateway/cache"

	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

// figures are those of a candidate that come with an error of the sample.
func figures(c Candidate) map[string]Estimate {
	return map[string]Estimate{"hits": c.HitRatio, "upstream": c.Upstream, "age": c.MeanAge, "Redis": c.RedisBytes}
}

// watch sends a trace to a lab beside a cache with this TTL. The salt decides
// which keys are in the sample.
func watch(e *estimator, trace []event, ttl time.Duration, salt uint64) []Candidate {
	filled := map[uint64]time.Duration{}
	for _, ev := range trace {
		key := mix(ev.key*2 + 1 + salt<<32)
		e.kinds[0].looked(key, at(ev.at))
		if last, ok := filled[key]; !ok || ev.at-last >= ttl {
			filled[key] = ev.at
			e.kinds[0].filled(fill{Answer: Answer{Hash: key, At: at(ev.at).UnixNano(), Source: 1}, bytes: 100})
		}
	}
	return e.report(at(trace[len(trace)-1].at)).Kinds[0].Candidates
}

// Over many samples of one trace the estimates scatter around the truth by what
// their standard errors say: within a factor of two in a trace as short and as
// skewed as this one, where the hot keys are found late and the rest is a tenth.
func TestStandardErrorsAreHonest(t *testing.T) {
	const salts, keys, slack = 25, 2000, 0.01
	trace := skewed(1, keys, 15000, 800*time.Millisecond)
	p := Policy{TTL: time.Minute, StaleWhileRevalidate: 10 * time.Second}
	truth := watch(newLab(t, 2*keys, p), trace, p.TTL, 0)
	type tally struct{ bias, square, claimed float64 }
	var tallies [candidateCount]map[string]tally
	for salt := range uint64(salts) {
		for c, row := range watch(newLab(t, 256, p), trace, p.TTL, salt+1) {
			if tallies[c] == nil {
				tallies[c] = map[string]tally{}
			}
			for name, e := range figures(row) {
				d := e.Value - figures(truth[c])[name].Value
				s := tallies[c][name]
				tallies[c][name] = tally{s.bias + d/salts, s.square + d*d/salts, s.claimed + e.StdErr*e.StdErr/salts}
			}
		}
	}
	for c, byName := range tallies {
		for name, s := range byName {
			scatter, claimed := math.Sqrt(s.square), math.Sqrt(s.claimed)
			floor := slack * figures(truth[c])[name].Value
			if scatter > 2*claimed+floor || claimed > 2*scatter+floor {
				t.Errorf("%s at %s: scatter %.4g, claimed %.4g", name, candidates[c], scatter, claimed)
			}
			if math.Abs(s.bias) > 4*scatter/math.Sqrt(salts)+floor {
				t.Errorf("%s at %s: biased by %.4g, scatter %.4g", name, candidates[c], s.bias, scatter)
			}
		}
	}
}

func TestTheSampleIsBoundedAndKeepsTheLowestHashes(t *testing.T) {
	e := newLab(t, 256, Policy{TTL: time.Minute})
	const keys = 20000
	for round := range 2 {
		for key := range uint64(keys) {
			e.kinds[0].looked(key, at(time.Duration(round)*time.Hour+time.Duration(key)))
		}
	}
	k := e.report(at(2 * time.Hour)).Kinds[0]
	if k.WatchedKeys < 192 || k.WatchedKeys > 256 {
		t.Errorf("%d keys watched, want 192 to 256", k.WatchedKeys)
	}
	if math.Abs(k.Keys/keys-1) > 0.2 {
		t.Errorf("%.0f distinct keys estimated, are %d", k.Keys, keys)
	}
	for i := range e.kinds[0].shards {
		s := &e.kinds[0].shards[i]
		for j := range s.sample.keys {
			if w := &s.sample.keys[j]; w.hash>>shardBits >= s.threshold.Load() || w.lookups != 2 || s.sample.index[w.hash] != int32(j) {
				t.Fatalf("shard %d, key %d: %v look-ups", i, j, w.lookups)
			}
		}
	}
}

// What the package comment states.
const (
	bytesPerKey  = 1750
	bytesPerKind = 1000 << 10
)

func TestMemoryIsBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	e := newLab(t, 0, Policy{TTL: time.Minute})
	for kind := range 2 {
		for key := range uint64(30_000) {
			now := at(time.Duration(key) * time.Millisecond)
			e.kinds[kind].looked(key, now)
			e.kinds[kind].filled(fill{Answer: Answer{Hash: key, At: now.UnixNano(), Source: key}, bytes: 1})
		}
	}
	used := int64(heap()) - int64(before)
	most := int64(2 * (defaultKeys*bytesPerKey + bytesPerKind))
	t.Logf("%d bytes, at most %d", used, most)
	if used > most {
		t.Errorf("the lab takes %d bytes, want at most %d", used, most)
	}
	runtime.KeepAlive(e)
}

func TestCountsAgeAndIdleKeysLeave(t *testing.T) {
	e := newEstimator(options{kinds: []Kind{{Name: "buyer"}}, halfLife: 12 * time.Hour})
	for i := range 100 {
		e.kinds[0].looked(1, at(time.Duration(i)*time.Minute))
	}
	for i := range 10 {
		e.kinds[0].looked(2, at(13*time.Hour+time.Duration(i)*time.Minute))
	}
	k := e.report(at(18 * time.Hour)).Kinds[0]
	if want := (12.0/2 + 6) * 3600; !near(k.Observed, want) {
		t.Errorf("observed %g s, want %g", k.Observed, want)
	}
	if got := k.LookupsPerSecond * k.Observed; math.Abs(got-60) > 0.5 { // 100 halved, and 10
		t.Errorf("%g look-ups, want 60", got)
	}
	e.kinds[0].looked(2, at(60*time.Hour))
	if k := e.report(at(60 * time.Hour)).Kinds[0]; k.WatchedKeys != 1 {
		t.Errorf("%d keys watched after the other was idle for 58 h", k.WatchedKeys)
	}
	before := e.report(at(1000 * time.Hour)).Kinds[0]
	if before.WatchedKeys != 0 || before.LookupsPerSecond > 1e-6 {
		t.Errorf("after 1000 idle hours: %+v", before)
	}
}

func TestANewPolicyTakesEffect(t *testing.T) {
	e := newLab(t, 0, Policy{TTL: time.Minute})
	look := func(from time.Duration) {
		for i := range 100 {
			e.kinds[0].looked(1, at(from+time.Duration(i)*2*time.Second))
		}
	}
	look(0)
	if r := e.report(at(200 * time.Second)).Kinds[0]; r.Candidates[0].HitRatio.Value != 0 || !r.Candidates[9].Current {
		t.Errorf("%+v", r.Candidates[0])
	}
	e.kinds[0].setPolicy(Policy{TTL: 25 * time.Second, StaleWhileRevalidate: time.Hour})
	look(200 * time.Second)
	r := e.report(at(400 * time.Second)).Kinds[0]
	if !near(r.Candidates[0].HitRatio.Value, 0.5) || r.TTL != 25 || r.StaleWhileRevalidate != 3600 || !r.Candidates[7].Current {
		t.Errorf("hit ratio %v, ttl %v, nearest %+v", r.Candidates[0].HitRatio, r.TTL, r.Candidates[7])
	}
}

func TestConcurrentUse(t *testing.T) {
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: Policy{TTL: time.Second, Jitter: 0.1}}}, keys: 128, halfLife: time.Minute, config: Config{Recheck: cache.RecheckConfig{BudgetPerSecond: 100}}})
	const workers, each = 8, 1500
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				now := at(time.Duration(i) * 5 * time.Millisecond)
				key := uint64(i*i+w) % 500
				e.kinds[0].hit(&cache.Key{}, answer(key, 1, now), sum(1), now)
				e.kinds[0].filled(fill{Answer: Answer{Hash: key, At: now.UnixNano(), Source: uint64(i / 100)}, took: 1, bytes: 10})
				if r, ok := picked(e); ok {
					r.compared(sighting{now.Add(time.Second).UnixNano(), uint64(i)})
				}
				switch i % 1000 {
				case 1:
					e.kinds[0].setPolicy(Policy{TTL: time.Second, StaleWhileRevalidate: time.Duration(i)})
				case 2:
					e.setConfig(Config{Recheck: cache.RecheckConfig{BudgetPerSecond: 50}})
				case 3:
					e.report(now)
				case 4:
					e.tune(now)
				case 5:
					_ = e.hear(e.tell(now), now)
				}
			}
		})
	}
	wg.Wait()
	var lookups uint64
	for i := range e.kinds[0].shards {
		lookups += e.kinds[0].shards[i].seen.Load()
	}
	if lookups != workers*each {
		t.Errorf("%d look-ups counted, want %d", lookups, workers*each)
	}
}
