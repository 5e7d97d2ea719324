package simulation

import (
	"cmp"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache/ttl"
	"inquiry-gateway/internal/testkit"
)

// TestTheReplayKnowsTheFleet: what a replay of three nodes' look-ups predicts for other TTLs is what the
// nodes then do with one Redis, within 1.5 points of the hit ratio and 5 % of the requests to the
// legacy system.
func TestTheReplayKnowsTheFleet(t *testing.T) {
	testkit.SkipShort(t)
	testkit.SkipUnderRace(t)
	seed := cmp.Or(*from, 3)
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		env := newEnvironment(t, seed, form{policy: policy{mapping: "m1", ttl: 5 * time.Second}})
		defer env.close()
		var mu sync.Mutex
		var lookups, hits float64
		env.checks.onAnswer = func(r *request) {
			mu.Lock()
			defer mu.Unlock()
			lookups++
			if !strings.Contains(r.outcome, "fwd=") && !strings.Contains(r.outcome, "collapsed") {
				hits++
			}
		}
		defer env.startCallers()()
		defer close(env.ended)
		const settling, lasting = time.Minute, 6 * time.Minute
		time.Sleep(settling + lasting)
		var samples []ttl.Sample
		for _, n := range env.nodes {
			samples = append(samples, n.sample(t))
		}
		predicted := ttl.Replay(samples...)
		for _, next := range []time.Duration{2 * time.Second, 30 * time.Second} {
			for _, n := range env.nodes {
				n.reload(policy{mapping: "m1", ttl: next})
			}
			time.Sleep(settling)
			mu.Lock()
			lookups, hits = 0, 0
			mu.Unlock()
			fetches := env.legacy.fetches()
			time.Sleep(lasting)
			mu.Lock()
			was, load := hits/lookups, float64(env.legacy.fetches()-fetches)/lasting.Seconds()
			mu.Unlock()
			ratio, perSecond := predictionOf(predicted, next)
			t.Logf("ttl %v: %.2f %% hits, %.2f %% predicted; %.3f requests per second, %.3f predicted", next, 100*was, 100*ratio, load, perSecond)
			if math.Abs(ratio-was) > 0.015 || math.Abs(perSecond/load-1) > 0.05 {
				t.Errorf("ttl %v: too far off", next)
			}
		}
		if env.checks.failed() {
			t.Error(env.checks.failure)
		}
	})
}

// predictionOf is the hit ratio of all kinds, and the requests per second.
func predictionOf(r ttl.Report, of time.Duration) (ratio, perSecond float64) {
	lookups := 0.0
	for _, k := range r.Groups {
		for _, c := range k.Candidates {
			if c.TTL == of.Seconds() {
				ratio += c.HitRatio.Value * k.LookupsPerSecond
				perSecond += c.Upstream.Value
				lookups += k.LookupsPerSecond
			}
		}
	}
	return ratio / lookups, perSecond
}

// sample is the look-ups that the node has kept.
func (n *node) sample(t *testing.T) ttl.Sample {
	client := &http.Client{Transport: &http.Transport{DialContext: n.env.net.dialer("operator"), DisableKeepAlives: true}}
	r, err := http.NewRequest(http.MethodGet, "http://"+n.address("9090")+"/ops/lookups", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "127.0.0.1:9090"
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sample, summary, err := ttl.Read(resp.Body, nil)
	if err != nil || summary.Lookups == 0 || summary.Bad > 0 {
		t.Errorf("%+v, %v", summary, err)
	}
	return sample
}
