package ttllab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// busy has lists asked for at random for a time, after which the node's clock stands.
func (n *node) busy(r *rand.Rand, d time.Duration, perSecond float64, lists int) {
	zipf := rand.NewZipf(r, 1.1, 10, uint64(lists-1))
	second := n.clock.Truncate(time.Second) + time.Second
	for end := n.clock + d; ; {
		next := n.clock + time.Duration(r.ExpFloat64()*float64(time.Second)/perSecond)
		for ; second <= min(next, end); second += time.Second {
			steps(second, n)
		}
		if n.clock = next; next > end {
			n.clock = end
			return
		}
		n.ask(mix(zipf.Uint64()+1), next)
	}
}

func (n *node) reload(p Policy) {
	kinds := append([]Kind(nil), n.state.kinds...)
	kinds[0].Policy = p
	n.SetConfig(kinds, n.state.goals)
}

// With steady traffic the cache does what was predicted, whichever way the ttl changes;
// and where it does something else, the record says by how much.
func TestAPredictionComesTrue(t *testing.T) {
	testkit.Computes(t)
	for name, p := range map[string]Policy{"misses": {TTL: 5 * time.Second}, "refreshes": {TTL: 5 * time.Second, StaleWhileRevalidate: 10 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			n, r := newNode(t, p, 512, Config{}, nil), rand.New(rand.NewPCG(7, 7))
			n.busy(r, 30*time.Minute, 20, 150)
			for i, ttl := range []time.Duration{time.Minute, 7 * time.Second, time.Second, 3 * time.Minute} {
				p.TTL = ttl
				n.reload(p)
				n.busy(r, 30*time.Minute, 20, 150)
				all := n.Report().Kinds[0].TTLChanges
				if len(all) != i+1 || all[i].State != StateDone || all[i].To != ttl.Seconds() {
					t.Fatalf("%+v", all)
				}
				c := all[i]
				t.Logf("%+v predicted, %+v measured: %+v", *c.Predicted, *c.Measured, *c.Error)
				if math.Abs(c.Error.Hits) > 1 || math.Abs(c.Error.Requests) > 1 || c.Error.Margin > 1 || c.Error.Hits != 100*(c.Measured.HitRatio-c.Predicted.HitRatio) {
					t.Errorf("ttl %s: %+v", ttl, *c.Error)
				}
			}
			p.TTL = 2 * time.Minute
			n.reload(p)
			n.busy(r, 30*time.Minute, 20, 5000) // many more lists than before
			if c := n.Report().Kinds[0].TTLChanges[4]; c.Error == nil || c.Error.Hits > -5 || n.facts.Load().wrong["buyer"].Hits != c.Error.Hits {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestWhatIsRecordedOfAChange(t *testing.T) {
	p := Policy{TTL: 5 * time.Second}
	n, r := newNode(t, p, 512, Config{}, nil), rand.New(rand.NewPCG(7, 7))
	newest := func() TTLChange {
		all := n.Report().Kinds[0].TTLChanges
		return all[len(all)-1]
	}
	p.TTL = 6 * time.Second
	if n.reload(p); newest().Predicted != nil || newest().State != StateSettling {
		t.Errorf("nothing was looked up before: %+v", newest())
	}
	n.busy(r, 5*time.Minute, 10, 50)
	p.StaleWhileRevalidate = time.Minute
	if n.reload(p); len(n.Report().Kinds[0].TTLChanges) != 1 {
		t.Error("another stale_while_revalidate is no other ttl")
	}
	p.TTL = time.Minute
	if n.reload(p); newest().Predicted == nil || newest().From != 6 || newest().To != 60 {
		t.Errorf("%+v", newest())
	}
	n.busy(r, 3*time.Minute, 10, 50)
	if newest().State != StateMeasuring {
		t.Errorf("%+v", newest())
	}
	for i := range 2 * keptTTLChanges {
		p.TTL = time.Duration(i+100) * time.Second
		n.reload(p)
	}
	all := n.Report().Kinds[0].TTLChanges
	if len(all) != keptTTLChanges || all[0].State != StateReplaced || newest().State != StateSettling {
		t.Errorf("%d changes, %+v", len(all), all)
	}
}
