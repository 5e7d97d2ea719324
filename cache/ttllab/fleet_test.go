package ttllab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// stream is one in memory, whose clock is far off that of the nodes.
type stream struct {
	now  func() time.Duration
	all  []Message
	down bool
}

func (s *stream) exchange() Exchange {
	next := -1
	return func(_ context.Context, message []byte, _ int) ([]Message, error) {
		if s.down {
			return nil, errors.New("down")
		}
		s.all = append(s.all, Message{at(s.now()).Add(100*time.Hour).UnixMilli() * 1e6, message})
		if next < 0 {
			next = len(s.all) - 1
		}
		came := s.all[next:]
		next = len(s.all)
		return came, nil
	}
}

// fleetOf is some nodes with one cache, each with another clock.
func fleetOf(size, lists int, p Policy) ([]*node, *stream) {
	nodes, s := make([]*node, size), &stream{}
	for i := range nodes {
		nodes[i] = newNode(p, lists)
		nodes[i].shared, nodes[i].filled, nodes[i].ahead = s.exchange(), nodes[0].filled, time.Duration(i)*7*time.Hour
	}
	s.now = func() time.Duration { return nodes[0].clock }
	return nodes, s
}

// Three nodes with one Redis are one cache to the legacy: the report says what another ttl
// would do to all of them, and it is the same on each, whatever node was asked and whatever
// their clocks say.
func TestAFleetIsPredictedAsAWhole(t *testing.T) {
	testkit.Computes(t)
	p := Policy{TTL: time.Minute, StaleWhileRevalidate: 10 * time.Second}
	trace := traffic{seed: 9, lists: 6000, lookups: 30_000, span: 30 * time.Minute, skew: 1.2}.trace()
	alone := newNode(p, 8192)
	run(trace, alone)
	nodes, _ := fleetOf(3, 1024, p)
	run(trace, nodes...)
	first := nodes[0].Report()
	for i, n := range nodes {
		if r := n.Report(); r.Nodes != 3 || r.LostLookups != 0 || !reflect.DeepEqual(r, first) {
			t.Errorf("node %d has another report than the first:\n%+v\n%+v", i, r, first)
		}
	}
	for c, want := range alone.Report().Kinds[0].Candidates {
		got := first.Kinds[0].Candidates[c]
		hits, load := math.Abs(got.HitRatio.Value-want.HitRatio.Value), math.Abs(got.Upstream.Value/want.Upstream.Value-1)
		if hits > 0.015 || load > 0.05+2*got.Upstream.StdErr/want.Upstream.Value {
			t.Errorf("ttl %gs: hits %.4f, want %.4f; load %.3f, want %.3f", got.TTL, got.HitRatio.Value, want.HitRatio.Value, got.Upstream.Value, want.Upstream.Value)
		}
	}
}

// Batches that cannot be sent are lost and told as that; nothing else changes.
func TestAStreamThatIsAway(t *testing.T) {
	nodes, s := fleetOf(2, 512, Policy{TTL: time.Minute})
	nodes[0].state.gap, nodes[1].state.gap = int64(longestGap), int64(longestGap)
	for second := range 120 {
		s.down = second >= 40 && second < 80
		for i := range 50 {
			nodes[i%2].ask(i, time.Duration(second)*time.Second+time.Duration(i)*time.Millisecond)
		}
		steps(time.Duration(second+1)*time.Second, nodes...)
	}
	for i, n := range nodes {
		r := n.Report()
		// The time without batches is not observed, so the rate is what it was.
		if k := r.Kinds[0]; r.Nodes != 2 || math.Abs(k.LookupsPerSecond-50) > 5 || k.Observed > 90 || r.LostLookups == 0 {
			t.Errorf("node %d: %d nodes, %.1f look-ups/s in %.0f s, %d lost", i, r.Nodes, k.LookupsPerSecond, k.Observed, r.LostLookups)
		}
	}
	for range 20 {
		steps(nodes[0].clock+time.Second, nodes[0])
	}
	if r := nodes[0].Report(); r.Nodes != 1 {
		t.Errorf("%d nodes after the other was silent for 20 s", r.Nodes)
	}
}

// The same over a real Redis: its ids are the time, its order the order. A node begins with
// its own first message.
func TestTheStreamOfRedis(t *testing.T) {
	client := redistest.Start(t).Client()
	a, b := Stream(client, "lab"), Stream(client, "lab")
	exchanged := func(e Exchange, text string) (got []string) {
		t.Helper()
		all, err := e(t.Context(), []byte(text), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if now := time.Now().UnixNano(); m.At > now || m.At < now-int64(time.Minute) {
				t.Errorf("%q came at %d, now is %d", m.Body, m.At, now)
			}
			got = append(got, string(m.Body))
		}
		return got
	}
	for _, tt := range []struct {
		from Exchange
		text string
		want string
	}{
		{a, "1", "[1]"}, {b, "2", "[2]"}, {a, "3", "[2 3]"}, {b, "4\x00", "[3 4\x00]"}, {b, "5", "[5]"}, {a, "6", "[4\x00 5 6]"},
	} {
		if got := fmt.Sprint(exchanged(tt.from, tt.text)); got != tt.want {
			t.Errorf("after %q: %q, want %q", tt.text, got, tt.want)
		}
	}
	for range 600 {
		exchanged(a, "many")
	}
	if n := client.XLen(t.Context(), "lab").Val(); n > 300 {
		t.Errorf("the stream has %d messages", n)
	}
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(exchanged(a, "after a loss")); got != "[after a loss]" {
		t.Error(got)
	}
}

// aBatch is a message of a node that was asked for a few lists.
func aBatch() (message []byte, layout uint64) {
	n := newNode(Policy{TTL: time.Minute}, 64)
	for i := range 200 {
		n.ask(i%9, time.Duration(i)*time.Millisecond)
	}
	n.batch() // what cools comes with the next
	return n.batch().encode(), layoutOf(n.state.kinds)
}

func TestMessagesOfOthersAreRefused(t *testing.T) {
	good, layout := aBatch()
	if _, err := decode(good, layout, 2); err != nil {
		t.Error(err)
	}
	if _, err := decode(good, layoutOf(nil), 2); err == nil {
		t.Error("a message of other groups was taken")
	}
	for name, message := range map[string][]byte{
		"another version": append([]byte{format + 1}, good[1:]...), "cut off": good[:len(good)-1], "more than there is": append(good, 0), "empty": nil,
	} {
		if _, err := decode(message, layout, 2); err == nil {
			t.Errorf("a message was taken: %s", name)
		}
	}
}

// Whatever a message says, the report that has it is one of numbers that can be.
func FuzzDecode(f *testing.F) {
	good, _ := aBatch()
	f.Add(good)
	f.Add([]byte{format})
	f.Fuzz(func(t *testing.T, message []byte) {
		n := newNode(Policy{TTL: time.Minute}, 64)
		n.ask(1, 0)
		if b, err := decode(message, layoutOf(n.state.kinds), 2); err == nil {
			n.state.add(b, start.UnixNano())
		}
		n.clock = time.Minute
		for _, k := range n.Report().Kinds {
			for _, c := range k.Candidates {
				if math.IsNaN(c.HitRatio.Value) || c.HitRatio.Value < 0 || c.HitRatio.Value > 1 {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
