package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/testkit/redisfake"
)

// rateCases are what may happen to the nodes that share the limit of an account, and in what time how
// many requests may pass: so many, what comes back, and what each of them need not have charged.
var rateCases = []struct {
	name   string
	demand float64 // requests per token that comes back
	least  int     // requests that pass
	events map[time.Duration]func(*redisfake.Server, []*rate.Limiter)
	spans  []rateSpan
	fleet  rateFleet // the zero value: three nodes, for 10 s
}{
	{"hot", 3, 500, nil, []rateSpan{{0, 10, 50, 50, 5}}, rateFleet{}},
	{"far from its limit", 0.6, 270, nil, []rateSpan{{0, 10, 50, 50, 5}}, rateFleet{}},
	{"Redis is away and back", 3, 500, map[time.Duration]func(*redisfake.Server, []*rate.Limiter){
		4 * time.Second: func(r *redisfake.Server, _ []*rate.Limiter) { r.With(func() { r.Refuse = "LOADING" }) },
		6 * time.Second: func(r *redisfake.Server, _ []*rate.Limiter) { r.With(func() { r.Refuse = "" }) },
	}, []rateSpan{{0, 4, 50, 50, 5}, {4, 7.5, nodeCount * 50, nodeCount * 50, 0}, {7.5, 10, 50, 50, 5}}, rateFleet{}},
	{"Redis loses its memory", 3, 500, map[time.Duration]func(*redisfake.Server, []*rate.Limiter){
		5 * time.Second: func(r *redisfake.Server, _ []*rate.Limiter) { r.With(r.Clear) },
	}, []rateSpan{{0, 5, 50, 50, 5}, {5, 10, 50, 50, 5}}, rateFleet{}},
	{"another limit", 3, 300, map[time.Duration]func(*redisfake.Server, []*rate.Limiter){
		5 * time.Second: func(_ *redisfake.Server, nodes []*rate.Limiter) {
			for _, l := range nodes {
				l.SetConfig(rate.Config{Plan: rate.Plan{PerSecond: 20, Burst: 20}})
			}
		},
	}, []rateSpan{{0, 5, 50, 50, 5}, {5.1, 10, 20, 20, 5}}, rateFleet{}},
	{"twenty nodes", 3, 3050, nil, nil, rateFleet{nodes: 20, lasts: time.Minute, most: 3050 + 3050/20}},
	{"twenty nodes, very hot", 40, 3050, nil, nil, rateFleet{nodes: 20, lasts: time.Minute, most: 3050 + 3050/20}},
	{"three nodes, very hot", 40, 3050, nil, nil, rateFleet{nodes: 3, lasts: time.Minute, most: 3050 + 3050/20}},
}

// rateFleet is how many nodes there are, for how long, and how many requests pass at most in all.
type rateFleet struct {
	nodes int
	lasts time.Duration
	most  int
}

// rateSpan is a time in seconds from the begin, and the bound within it.
type rateSpan struct{ from, to, perSecond, burst, uncharged float64 }

// TestRateOfTheFleet: three nodes let no more requests of an account pass than the limit and
// what each node need not have charged, in any time, and nothing of the limit is lost.
func TestRateOfTheFleet(t *testing.T) {
	for i, c := range rateCases {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(c.name, ", seed ", seed), func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, seed)
				synctest.Test(t, func(t *testing.T) { rateOfTheFleet(t, i, seed) })
			})
		}
	}
}

func rateOfTheFleet(t *testing.T, number int, seed uint64) {
	const perSecond = 50
	c := rateCases[number]
	count, lasts, atMost := cmp.Or(c.fleet.nodes, nodeCount), cmp.Or(c.fleet.lasts, 10*time.Second), cmp.Or(c.fleet.most, 565)
	net := newNetwork(seed)
	server := redisfake.New(time.Now, rngOf(seed, "redis"))
	l := net.listen("redis", redisAddress)
	server.Serve(l)
	var mu sync.Mutex
	var passed []time.Duration
	var refused int
	var callers sync.WaitGroup
	begin := time.Now()
	var nodes []*rate.Limiter
	var ends []func()
	for n := range count {
		client := redis.NewClient(&redis.Options{
			Addr: redisAddress, Dialer: net.dialer(fmt.Sprint("n", n)), ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		limiter := rate.New(rate.Config{Plan: rate.Plan{PerSecond: perSecond, Burst: perSecond}}, rate.Options{Redis: client, Prefix: "iq"})
		nodes = append(nodes, limiter)
		ends = append(ends, limiter.Close, func() { _ = client.Close() })
		rng := rngOf(seed, fmt.Sprint("caller of ", n))
		callers.Go(func() {
			for time.Since(begin) < lasts {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) * float64(count) / (c.demand * perSecond)))
				callers.Go(func() {
					d := limiter.Allow("acme", "")
					mu.Lock()
					defer mu.Unlock()
					if d.Allowed {
						passed = append(passed, time.Since(begin))
					} else if refused++; d.RetryAfter <= 0 || d.RetryAfter > time.Duration(count)*time.Second {
						t.Errorf("%+v", d)
					}
				})
			}
		})
	}
	for at, event := range c.events {
		time.AfterFunc(at, func() { event(server, nodes) })
	}
	callers.Wait()
	for _, end := range ends {
		end()
	}
	_ = l.Close()
	server.Disconnect()
	server.Wait()

	slices.Sort(passed)
	if n := len(passed); n < c.least || c.events == nil && n > atMost || c.demand < 1 && refused > 0 {
		t.Errorf("%d requests passed in %v, %d were refused", n, lasts, refused)
	} else {
		t.Logf("%d requests passed in %v", n, lasts)
	}
	for i, first := range passed {
		for j := i; j < len(passed); j += 20 {
			for _, s := range c.spans {
				most := s.burst + s.perSecond*(passed[j]-first).Seconds() + nodeCount*s.uncharged
				if first.Seconds() >= s.from && passed[j].Seconds() < s.to && float64(j-i+1) > most {
					t.Fatalf("%d requests passed in %v from %v on, at most %.0f may", j-i+1, passed[j]-first, first, most)
				}
			}
		}
	}
}
