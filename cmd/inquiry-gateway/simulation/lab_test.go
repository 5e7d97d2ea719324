package simulation

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/internal/testkit"
)

// seen is what three nodes did over a time.
type seen struct{ lookups, hits, fetches float64 }

// TestTheLabKnowsTheFleet: what a node's TTL lab foretells for other TTLs is what
// three nodes with Redis then do, within 1.5 points of the hit ratio and 5 % of the
// requests to the legacy system.
func TestTheLabKnowsTheFleet(t *testing.T) {
	testkit.Slow(t)
	testkit.Computes(t)
	const seed, each = 3, 6 * time.Minute
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, "introspection") // it has no ceiling
		var counted sync.Mutex
		var now seen
		w.checks.onAnswer = func(hit bool) {
			counted.Lock()
			defer counted.Unlock()
			now.lookups++
			if hit {
				now.hits++
			}
		}
		during := func(ttl time.Duration) seen {
			for _, n := range w.nodes {
				n.reload(policy{mapping: "m1", ttl: ttl})
			}
			time.Sleep(time.Minute) // the reload, and lists of the ttl before
			counted.Lock()
			now = seen{fetches: -float64(w.legacy.count())}
			counted.Unlock()
			time.Sleep(each)
			counted.Lock()
			defer counted.Unlock()
			now.fetches += float64(w.legacy.count())
			return now
		}
		var actors sync.WaitGroup
		for i := range callers {
			c := newCaller(w, fmt.Sprintf("caller %d", i), false)
			actors.Go(func() { c.run(thinks) })
		}
		actors.Go(w.changes)
		during(5 * time.Second)
		report := w.nodes[0].report(t)
		for _, ttl := range []time.Duration{2 * time.Second, 30 * time.Second} {
			hits, perSecond := foretold(report, ttl)
			is := during(ttl)
			was, load := is.hits/is.lookups, is.fetches/each.Seconds()
			t.Logf("ttl %v: %.2f %% hits, %.2f %% were foretold; %.3f requests per second, %.3f were foretold", ttl, 100*was, 100*hits, load, perSecond)
			if math.Abs(hits-was) > 0.015 || math.Abs(perSecond/load-1) > 0.05 {
				t.Errorf("ttl %v: too far off", ttl)
			}
		}
		close(w.ended)
		actors.Wait()
		w.close()
		if w.checks.failed() {
			t.Error(w.checks.failure)
		}
	})
}

// foretold is the hit ratio of all kinds, and the requests per second.
func foretold(r ttllab.Report, ttl time.Duration) (hits, perSecond float64) {
	lookups := 0.0
	for _, k := range r.Kinds {
		for _, c := range k.Candidates {
			if c.TTL == ttl.Seconds() {
				hits += c.HitRatio.Value * k.LookupsPerSecond
				perSecond += c.Upstream.Value
				lookups += k.LookupsPerSecond
			}
		}
	}
	return hits / lookups, perSecond
}

// report is what the node's lab says.
func (n *node) report(t *testing.T) (report ttllab.Report) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.w.net.dialer("operator"), DisableKeepAlives: true}}
	r, err := http.NewRequest(http.MethodGet, "http://"+n.address("9090")+"/ops/ttl", http.NoBody)
	if err != nil {
		t.Error(err)
		return report
	}
	r.Host = "127.0.0.1:9090"
	resp, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return report
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil || report.Nodes != nodeCount {
		t.Errorf("a report of %d nodes, %v", report.Nodes, err)
	}
	return report
}
