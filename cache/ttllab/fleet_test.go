package ttllab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// memory is a stream in memory, whose clock is far off that of the nodes.
type memory struct {
	now  func() time.Duration
	all  []Message
	seen []time.Duration // when each node came last
	down bool
}

func (m *memory) exchange() Exchange {
	next, node := -1, len(m.seen)
	m.seen = append(m.seen, -time.Hour)
	return func(_ context.Context, _ uint64, message []byte) (r Received, err error) {
		if m.down {
			return r, errors.New("down")
		}
		now := m.now()
		r.Now, m.seen[node] = at(now).Add(100*time.Hour).UnixMilli()*1e6, now
		if next < 0 {
			next = len(m.all)
		}
		if message != nil {
			m.all = append(m.all, Message{r.Now, message})
		}
		for _, at := range m.seen {
			if now-at < 2*rollCall {
				r.Nodes++
			}
		}
		r.Messages, next = m.all[next:], len(m.all)
		return r, nil
	}
}

// fleetOf is some nodes with one cache, each with another clock.
func fleetOf(size, lists int, p Group) ([]*node, *memory) {
	nodes, m := make([]*node, size), &memory{}
	for i := range nodes {
		nodes[i] = newNode(p, lists)
		nodes[i].exchange, nodes[i].filled, nodes[i].ahead = m.exchange(), nodes[0].filled, time.Duration(i)*7*time.Hour
	}
	m.now = func() (now time.Duration) {
		for _, n := range nodes {
			now = max(now, n.clock)
		}
		return now
	}
	return nodes, m
}

// Three nodes with one Redis are one cache to the legacy: the report says what another ttl
// would do to all of them, and it is the same on each, whatever node was asked and whatever
// their clocks say.
func TestAFleetIsPredictedAsAWhole(t *testing.T) {
	testkit.Computes(t)
	p := Group{Terms: cache.Terms{TTL: time.Minute, StaleWhileRevalidate: 10 * time.Second}}
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
	for c, want := range alone.Report().Groups[0].Candidates {
		got := first.Groups[0].Candidates[c]
		hits, load := math.Abs(got.HitRatio.Value-want.HitRatio.Value), math.Abs(got.Upstream.Value/want.Upstream.Value-1)
		if hits > 0.015 || load > 0.05+2*got.Upstream.StdErr/want.Upstream.Value {
			t.Errorf("ttl %gs: hits %.4f, want %.4f; load %.3f, want %.3f", got.TTL, got.HitRatio.Value, want.HitRatio.Value, got.Upstream.Value, want.Upstream.Value)
		}
	}
}

// Whichever nodes are asked: all are counted, all hold the same, and who was not asked sends
// nothing. Time passes for who receives nothing, too.
func TestIdleAndBusyNodes(t *testing.T) {
	const seconds, lists = 60, 10
	for idle := range 4 {
		for busy := range 4 {
			if idle+busy == 0 {
				continue
			}
			nodes, m := fleetOf(idle+busy, 256, Group{Terms: cache.Terms{TTL: time.Minute}})
			second := 0
			pass := func(d int, asked, there []*node) {
				for range d {
					for _, n := range asked {
						for list := range lists {
							n.ask(list, time.Duration(second)*time.Second+time.Duration(list)*time.Millisecond)
						}
					}
					second++
					steps(time.Duration(second)*time.Second, there...)
				}
			}
			holds := func(when string, nodes []*node, lookups int) {
				until := at(time.Duration(second)*time.Second + 100*time.Hour - holdBack)
				for i, n := range nodes {
					r := n.Report()
					k := r.Groups[0]
					if r.Nodes != len(nodes) || r.LostLookups != 0 || !near(k.LookupsPerSecond*k.Observed, float64(lookups)) || !r.To.Equal(until) || !reflect.DeepEqual(r, nodes[0].Report()) {
						t.Errorf("%d idle and %d busy nodes, %s: node %d knows of %d nodes and %g look-ups until %s, %d lost; want %d until %s, and the same on all",
							idle, busy, when, i, r.Nodes, k.LookupsPerSecond*k.Observed, r.To, r.LostLookups, lookups, until)
					}
				}
			}
			steps(0, nodes...)
			pass(seconds, nodes[idle:], nodes)
			pass(5, nil, nodes)
			holds("afterwards", nodes, busy*seconds*lists)
			if len(m.all) != busy*seconds {
				t.Errorf("%d idle and %d busy nodes have sent %d messages in %d s", idle, busy, len(m.all), seconds)
			}
			for _, n := range nodes { // the first one leaves, and a half-life ends
				n.state.halfLife = int64(defaultHalfLife)
			}
			pass(11, nil, nodes[1:])
			second += int(defaultHalfLife.Seconds())
			pass(2, nil, nodes[1:])
			holds("a half-life later", nodes[1:], busy*seconds*lists/2)
		}
	}
}

// Batches that cannot be sent are lost and told as that, to all nodes; nothing else changes.
func TestAStreamThatIsAway(t *testing.T) {
	nodes, m := fleetOf(2, 512, Group{Terms: cache.Terms{TTL: time.Minute}})
	nodes[0].state.gap, nodes[1].state.gap = int64(longestGap), int64(longestGap)
	for second := range 120 {
		m.down = second >= 40 && second < 80
		for i := range 50 {
			nodes[i%2].ask(i, time.Duration(second)*time.Second+time.Duration(i)*time.Millisecond)
		}
		steps(time.Duration(second+1)*time.Second, nodes...)
		if r := nodes[0].Report(); second == 79 && r.LostLookups != 1000 {
			t.Errorf("%d lost while the stream is away, want its own 1000", r.LostLookups)
		}
	}
	for i, n := range nodes {
		r := n.Report()
		// The time without batches is not observed, so the rate is what it was.
		if k := r.Groups[0]; r.Nodes != 2 || math.Abs(k.LookupsPerSecond-50) > 5 || k.Observed > 90 || r.LostLookups != 2000 {
			t.Errorf("node %d: %d nodes, %.1f look-ups/s in %.0f s, %d lost", i, r.Nodes, k.LookupsPerSecond, k.Observed, r.LostLookups)
		}
	}
}

// The same over a real Redis: its ids are the time, its order the order. A node begins with
// its first message, and hears of no other groups.
func TestTheStreamOfRedis(t *testing.T) {
	client := redistest.Start(t).Client()
	var nodes [3]Exchange
	for i := range nodes {
		nodes[i] = stream(client, "lab", 1000*time.Hour)
	}
	const notes, roll = "lab:{lab-1}:notes", "lab:{lab-1}:roll"
	// earlier has the roll begun so many roll calls ago.
	earlier := func(calls int64) error {
		number, rest, _ := strings.Cut(client.Get(t.Context(), roll).Val(), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		return cmp.Or(err, client.Set(t.Context(), roll, fmt.Sprint(n-calls, " ", rest), 0).Err())
	}
	// flush takes the stream away, and waits for the next millisecond: ids are made of these.
	flush := func() error {
		err := client.FlushAll(t.Context()).Err()
		for then := client.Time(t.Context()).Val().UnixMilli(); err == nil && client.Time(t.Context()).Val().UnixMilli() == then; {
			err = t.Context().Err()
		}
		return err
	}
	for i, step := range []struct {
		node   int
		layout uint64
		text   string
		before func() error
		want   string // messages and nodes
	}{
		{0, 1, "1", nil, "[1] 1"}, {1, 1, "2", nil, "[2] 2"}, {0, 1, "3", nil, "[2 3] 2"}, {1, 1, "4\x00", nil, "[3 4\x00] 2"},
		{1, 1, "5", nil, "[5] 2"}, {0, 1, "", nil, "[4\x00 5] 2"}, {0, 1, "", nil, "[] 2"},
		{2, 2, "6", nil, "[6] 1"}, {2, 1, "7", nil, "[7] 3"}, {0, 1, "8", nil, "[7 8] 3"},
		// The next roll call, in which only one has answered so far, and the one after it.
		{0, 1, "", func() error { return earlier(1) }, "[] 3"},
		{0, 1, "", func() error { return earlier(2) }, "[] 1"},
		{0, 1, "9", flush, "[9] 1"},
		// A fail-over to a server without the stream, whose clock is behind.
		{0, 1, "10", func() error {
			return client.XAdd(t.Context(), &redis.XAddArgs{Stream: notes, ID: "9000000000000-0", Values: []any{"b", "far ahead"}}).Err()
		}, "[far ahead 10] 1"},
		{0, 1, "11", flush, "[11] 1"},
	} {
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatal(err)
			}
		}
		r, err := nodes[step.node](t.Context(), step.layout, []byte(step.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range r.Messages {
			if m.At > r.Now || m.At < time.Now().Add(-time.Minute).UnixNano() {
				t.Errorf("step %d: %q came at %d, now is %d", i, m.Body, m.At, r.Now)
			}
			got = append(got, string(m.Body))
		}
		if got := fmt.Sprint(got, r.Nodes); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	for range 600 {
		if _, err := nodes[1](t.Context(), 3, []byte("many")); err != nil {
			t.Fatal(err)
		}
	}
	if n := client.XLen(t.Context(), "lab:{lab-3}:notes").Val(); n > 300 {
		t.Errorf("the stream has %d messages", n)
	}
}

// What a node says at rest is as short with 30 nodes as with one, and nothing is written.
func TestARestingNodeCostsTheSameHoweverManyThereAre(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	sent := func() (bytes int) {
		_, rest, _ := strings.Cut(client.Info(t.Context(), "stats").Val(), "total_net_output_bytes:")
		_, _ = fmt.Sscan(rest, &bytes)
		return bytes
	}
	for _, size := range []int{1, 3, 10, 30} {
		labs := make([]*Lab, size)
		for i := range labs {
			labs[i] = NewLab(groupsOf(Group{Terms: cache.Terms{TTL: time.Minute}}), cache.Config{}, nil, stream(client, fmt.Sprint("lab", size), 1000*time.Hour))
			labs[i].step(t.Context())
		}
		const seconds = 5
		before, between := sent(), sent()
		for range seconds {
			for _, l := range labs {
				l.step(t.Context())
			}
		}
		each := float64(sent()-between-(between-before)) / float64(seconds*size)
		t.Logf("%d nodes: %.0f bytes/s for each, %.1f KB/s for all", size, each, each*float64(size)/1000)
		if each > 100 {
			t.Errorf("of %d nodes each reads %.0f bytes/s from Redis, want at most 100", size, each)
		}
		if n := labs[0].Report().Nodes; n != size {
			t.Errorf("%d nodes, want %d", n, size)
		}
	}
	if keys := client.Keys(t.Context(), "*:notes").Val(); len(keys) > 0 {
		t.Errorf("resting nodes have written %v", keys)
	}
}

// aMessage is one of a node that was asked for a few lists.
func aMessage() []byte {
	n := newNode(Group{Terms: cache.Terms{TTL: time.Minute}}, 64)
	for i := range 200 {
		n.ask(i%9, time.Duration(i)*time.Millisecond)
	}
	return n.batch().encode()
}

func TestMessagesOfOthersAreRefused(t *testing.T) {
	good := aMessage()
	if _, err := decode(good, 1); err != nil {
		t.Error(err)
	}
	if _, err := decode(good, 0); err == nil {
		t.Error("a message of other groups was taken")
	}
	for name, message := range map[string][]byte{"cut off": good[:len(good)-1], "more than there is": append(good, 0), "empty": nil} {
		if _, err := decode(message, 1); err == nil {
			t.Errorf("a message was taken: %s", name)
		}
	}
}

// Whatever a message says, the report that has it is one of numbers that can be.
func FuzzDecode(f *testing.F) {
	f.Add(aMessage())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, message []byte) {
		n := newNode(Group{Terms: cache.Terms{TTL: time.Minute}}, 64)
		n.ask(1, 0)
		if b, err := decode(message, 2); err == nil {
			n.state.add(b, start.UnixNano())
		}
		n.clock = time.Minute
		for _, k := range n.Report().Groups {
			for _, c := range k.Candidates {
				if math.IsNaN(c.HitRatio.Value) || c.HitRatio.Value < 0 || c.HitRatio.Value > 1 {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
