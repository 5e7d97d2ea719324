package cache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"inquiry-gateway/cache/redistest"
)

// model knows every answer that the legacy ever gave, and when.
type model struct {
	*legacy
	given map[string]given // by body
	cfg   Config
}

type given struct {
	key Key
	at  time.Time
}

func (m *model) answer(ctx context.Context, k Key) (Content, error) {
	c, err := m.fill(ctx, k)
	if err == nil {
		m.given[string(c.Body)] = given{k, c.AnsweredAt}
	}
	return c, err
}

// check holds one answer of the cache against what the legacy gave and what the
// policy of today allows.
func (m *model) check(t *rapid.T, k Key, r Result) {
	g, ok := m.given[body(r)]
	if !ok {
		t.Fatalf("%v got %q, which the legacy never said", k, body(r))
	}
	if g.key != k {
		t.Fatalf("%v got the list of %v", k, g.key)
	}
	age := m.clock.Now().Sub(g.at)
	i, _ := indexOf(k.Kind)
	terms := newPolicy(m.cfg, nil).of(i, k.Status)
	allowed := map[Outcome]time.Duration{
		Hit: terms.ttl, StaleRevalidate: terms.ttl + terms.swr,
		StaleError: terms.lifetime(), Miss: time.Nanosecond, Collapsed: time.Nanosecond,
	}[r.Outcome]
	if age >= allowed || age < -maxSkew {
		t.Fatalf("%v was served as %s at the age of %s; allowed are %s", k, r.Outcome, age, allowed)
	}
	if r.Age != max(age, 0) {
		t.Fatalf("%v says it is %s old, and is %s", k, r.Age, age)
	}
	if (r.Outcome == Hit) != (r.TTL > 0) && r.Outcome != Miss {
		t.Fatalf("%v: %s with a ttl of %s", k, r.Outcome, r.TTL)
	}
}

func drawKey(t *rapid.T) Key {
	return Key{
		Kind:        rapid.SampledFrom([]string{KindBuyer, KindSeller}).Draw(t, "kind"),
		Account:     rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "account"),
		Status:      rapid.SampledFrom([]string{"", "b", "pending"}).Draw(t, "status"),
		InquiryType: rapid.SampledFrom([]string{"", "b"}).Draw(t, "type"),
	}
}

func drawConfig(t *rapid.T) Config {
	seconds := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 20).Draw(t, name)) * time.Second
	}
	c := testConfig()
	c.Jitter = rapid.SampledFrom([]float64{0, 0.1, 0.9}).Draw(t, "jitter")
	pending := seconds("pending ttl")
	c.Buyer = KindConfig{TTL: seconds("ttl"), StaleWhileRevalidate: seconds("swr"), StaleIfError: seconds("sie"),
		ByStatus: map[string]StatusConfig{"pending": {TTL: &pending}}}
	c.Seller = KindConfig{TTL: seconds("seller ttl"), StaleIfError: seconds("seller sie")}
	return c
}

// TestEveryBodyBelongsToTheKeyAndIsYoungEnough drives two nodes over one real
// Redis with random look-ups, failures, policies and clock jumps.
func TestEveryBodyBelongsToTheKeyAndIsYoungEnough(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, redisAt(srv.Addr))
	rapid.Check(t, func(t *rapid.T) {
		if err := rdb.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		m := &model{legacy: &legacy{clock: newClock()}, given: map[string]given{}, cfg: testConfig()}
		nodes := []*Lists{newNode(t, m, rdb), newNode(t, m, rdb), newNode(t, m, nil)}
		node := func(t *rapid.T) *Lists { return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")] }
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				l, k := node(t), drawKey(t)
				r, err := l.Get(context.Background(), k)
				if err == nil {
					m.check(t, k, r)
				} else if f := m.fail.Load(); f == nil || *f == nil {
					t.Fatalf("an error with the legacy up: %v", err)
				}
				settled(l)
			},
			"lookup": func(t *rapid.T) {
				k := drawKey(t)
				if r, ok := node(t).Lookup(k); ok {
					m.check(t, k, r)
				}
			},
			"time passes": func(t *rapid.T) {
				m.clock.add(time.Duration(rapid.IntRange(0, 15000).Draw(t, "ms")) * time.Millisecond)
			},
			"clock set back": func(t *rapid.T) {
				m.clock.add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"legacy fails": func(*rapid.T) { m.failWith(errLegacy) },
			"legacy works": func(*rapid.T) { m.failWith(nil) },
			"reload": func(t *rapid.T) {
				m.cfg = drawConfig(t)
				for _, l := range nodes {
					if err := l.SetConfig(m.cfg); err != nil {
						t.Fatal(err)
					}
				}
			},
			"swap in Redis": func(t *rapid.T) {
				s := nodes[0].redis
				from, to := s.names(drawKey(t), "").entry, s.names(drawKey(t), "").entry
				if from == to {
					return
				}
				if err := rdb.Copy(context.Background(), from, to, 0, true).Err(); err != nil {
					t.Fatal(fmt.Errorf("swap: %w", err))
				}
			},
		})
		for _, l := range nodes {
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func newNode(t *rapid.T, m *model, rdb redis.UniversalClient) *Lists {
	l, err := New(m.cfg, Options{Fill: m.answer, Redis: rdb, Now: m.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
