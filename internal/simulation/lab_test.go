package simulation

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/internal/testkit"
)

// TestTheLabKnowsTheFleet: what a node's TTL lab predicts for other TTLs is what three nodes
// with Redis then do, within 1.5 points of the hit ratio and 5 % of the requests to the
// legacy system.
func TestTheLabKnowsTheFleet(t *testing.T) {
	testkit.Slow(t)
	testkit.Computes(t)
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
		predicted := env.nodes[0].report(t)
		for _, ttl := range []time.Duration{2 * time.Second, 30 * time.Second} {
			for _, n := range env.nodes {
				n.reload(policy{mapping: "m1", ttl: ttl})
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
			ratio, perSecond := predictionOf(predicted, ttl)
			t.Logf("ttl %v: %.2f %% hits, %.2f %% predicted; %.3f requests per second, %.3f predicted", ttl, 100*was, 100*ratio, load, perSecond)
			if math.Abs(ratio-was) > 0.015 || math.Abs(perSecond/load-1) > 0.05 {
				t.Errorf("ttl %v: too far off", ttl)
			}
		}
		if env.checks.failed() {
			t.Error(env.checks.failure)
		}
	})
}

// predictionOf is the hit ratio of all kinds, and the requests per second.
func predictionOf(r ttllab.Report, ttl time.Duration) (ratio, perSecond float64) {
	lookups := 0.0
	for _, k := range r.Groups {
		for _, c := range k.Candidates {
			if c.TTL == ttl.Seconds() {
				ratio += c.HitRatio.Value * k.LookupsPerSecond
				perSecond += c.Upstream.Value
				lookups += k.LookupsPerSecond
			}
		}
	}
	return ratio / lookups, perSecond
}

// report is what the node's lab says.
func (n *node) report(t *testing.T) (report ttllab.Report) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.env.net.dialer("operator"), DisableKeepAlives: true}}
	r, err := http.NewRequest(http.MethodGet, "http://"+n.address("9090")+"/ops/ttl", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "127.0.0.1:9090"
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil || report.Nodes != nodeCount {
		t.Errorf("a report of %d nodes, %v", report.Nodes, err)
	}
	return report
}
