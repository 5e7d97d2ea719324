package ttllab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// sharedFleet is some nodes that tell each other what they look up.
func sharedFleet(t testing.TB, nodes, keys int, p Policy) []*estimator {
	t.Helper()
	all := make([]*estimator, nodes)
	for i := range all {
		all[i] = newLab(t, keys, p)
		all[i].share()
	}
	return all
}

func exchange(t testing.TB, nodes []*estimator, now time.Duration) {
	t.Helper()
	for i, from := range nodes {
		message := from.tell(at(now))
		for j, to := range nodes {
			if err := to.hear(message, at(now)); err != nil {
				t.Fatalf("node %d hears node %d: %v", j, i, err)
			}
		}
	}
}

// Three nodes with one Redis are one cache to the legacy: whatever node is asked, the
// report says what another ttl would do to all of them. Sampled, as there are more keys
// than places.
func TestAFleetIsPredictedAsAWhole(t *testing.T) {
	testkit.Computes(t)
	for name, keys := range map[string]int{"every list watched": 8192, "a part of them watched": 1024} {
		t.Run(name, func(t *testing.T) {
			const ttl, swr = time.Minute, 10 * time.Second
			p := Policy{TTL: ttl, StaleWhileRevalidate: swr}
			trace := skewed(9, 6000, 60_000, 60*time.Millisecond)
			nodes, alone := sharedFleet(t, 3, keys, p), newLab(t, 8192, p)
			r, next, filled := rand.New(rand.NewPCG(4, 4)), time.Second, map[uint64]time.Duration{}
			for _, ev := range trace {
				for ; next <= ev.at; next += time.Second {
					exchange(t, nodes, next)
				}
				key, node := mix(ev.key+1), nodes[r.IntN(len(nodes))]
				node.kinds[0].looked(key, at(ev.at))
				alone.kinds[0].looked(key, at(ev.at))
				if last, ok := filled[key]; !ok || ev.at-last >= ttl {
					filled[key] = ev.at
					node.kinds[0].filled(fill{Answer: Answer{Hash: key, At: at(ev.at).UnixNano(), Source: 1}, bytes: 100})
				}
			}
			for range 4 {
				exchange(t, nodes, next)
				next += time.Second
			}
			end := trace[len(trace)-1].at
			want := alone.report(at(end)).Kinds[0]
			for i, node := range nodes {
				report := node.report(at(end))
				got := report.Kinds[0]
				if report.Nodes != 3 || report.LostLookups != 0 {
					t.Errorf("node %d: %d nodes, %d look-ups lost", i, report.Nodes, report.LostLookups)
				}
				for c := range got.Candidates {
					g, w := got.Candidates[c], want.Candidates[c]
					hits, load := math.Abs(g.HitRatio.Value-w.HitRatio.Value), math.Abs(g.Upstream.Value/w.Upstream.Value-1)
					if hits > 0.015 || load > 0.05+2*g.Upstream.StdErr/w.Upstream.Value {
						t.Errorf("node %d, ttl %gs: hits %.4f, want %.4f; load %.3f, want %.3f", i, g.TTL, g.HitRatio.Value, w.HitRatio.Value, g.Upstream.Value, w.Upstream.Value)
					}
				}
			}
		})
	}
}

func TestMessagesOfOthersAreRefused(t *testing.T) {
	a := sharedFleet(t, 1, 0, Policy{TTL: time.Minute})[0]
	b := newEstimator(options{kinds: []Kind{{Name: "buyer"}}})
	if b.tell(start) != nil {
		t.Error("a node that does not share tells something")
	}
	b.share()
	if err := a.hear(b.tell(start), start); err == nil {
		t.Error("a message of other groups of lists was taken")
	}
	if nodes, _ := a.coverage(start.UnixNano()); nodes != 1 {
		t.Errorf("%d nodes", nodes)
	}
}

// A node that is silent is no part of the fleet any more.
func TestSilentNodesAreNotCovered(t *testing.T) {
	nodes := sharedFleet(t, 2, 0, Policy{TTL: time.Minute})
	exchange(t, nodes, 0)
	if n := nodes[0].report(at(time.Second)).Nodes; n != 2 {
		t.Errorf("%d nodes", n)
	}
	if n := nodes[0].report(at(time.Minute)).Nodes; n != 1 {
		t.Errorf("%d nodes after a minute of silence", n)
	}
}

func FuzzHear(f *testing.F) {
	nodes := sharedFleet(f, 2, 64, Policy{TTL: time.Minute})
	for key := range uint64(200) {
		nodes[0].kinds[0].looked(key%9, at(time.Duration(key)*time.Millisecond))
	}
	f.Add(nodes[0].tell(at(time.Second)))
	f.Add([]byte{fleetFormat})
	f.Fuzz(func(t *testing.T, message []byte) {
		e := sharedFleet(t, 1, 64, Policy{TTL: time.Minute})[0]
		e.kinds[0].looked(1, start)
		_ = e.hear(message, at(time.Second))
		e.tell(at(time.Minute))
		for _, k := range e.report(at(time.Minute)).Kinds {
			for _, c := range k.Candidates {
				if math.IsNaN(c.HitRatio.Value) || c.HitRatio.Value < 0 || c.HitRatio.Value > 1 {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
