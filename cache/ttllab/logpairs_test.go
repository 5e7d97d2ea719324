package ttllab_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"

	"inquiry-gateway/internal/testkit"
)

// A log that was written at one TTL predicts what each other one does, to within a point
// of the hit ratio: for every pair from 1 s to 60 s.
func TestALogPredictsEveryOtherTTL(t *testing.T) {
	testkit.Computes(t)
	s := shape{seed: 4, keys: 400, lookups: 8000, span: time.Hour, skew: 1.2, bursts: 0.05}
	trace, system := s.trace(), newChanging(s, 0.05, 5)
	ttls := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 60 * time.Second}
	logs, hits := map[time.Duration]string{}, map[time.Duration]float64{}
	policy := func(ttl time.Duration) ttllab.Policy {
		return ttllab.Policy{TTL: ttl, StaleWhileRevalidate: 5 * time.Second, StaleIfError: time.Minute, Jitter: 0.1}
	}
	for _, ttl := range ttls {
		var log strings.Builder
		p := &replay{legacy: system, clock: testkit.NewClock(begin), served: func(l lookup, r cache.Result) {
			line, err := json.Marshal(ttllab.LogLine{
				Time: l.at, Kind: "buyer", Key: strconv.Itoa(l.key), Cache: string(r.Outcome), Age: r.Age.Seconds(), ETag: r.Entry.ETag[0], Bytes: 100,
			})
			if err != nil {
				t.Error(err)
			}
			log.Write(append(line, '\n'))
		}}
		f := p.run(t, trace, policy(ttl))
		logs[ttl], hits[ttl] = log.String(), float64(f.hits)/float64(len(f.ages))
	}
	for _, from := range ttls {
		r, err := ttllab.FromLog(strings.NewReader(logs[from]), []ttllab.Kind{{Name: "buyer", Policy: policy(from)}}, ttllab.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range ttls {
			c := r.Kinds[0].Candidates[slices.Index(ttllab.Candidates(), to)]
			off := c.HitRatio.Value - hits[to]
			t.Logf("from %s to %s: %.4f, real %.4f", from, to, c.HitRatio.Value, hits[to])
			if math.Abs(off) > 0.01 {
				t.Errorf("from %s to %s: hit ratio off by %.2f points", from, to, 100*off)
			}
		}
	}
}
