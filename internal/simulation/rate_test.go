package simulation

import (
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
)

// TestRateOfTheFleet: three nodes let no more requests of an account pass than the limit and
// what each node need not have charged, in any time, and nothing of the limit is lost.
func TestRateOfTheFleet(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) { rateOfTheFleet(t, seed) })
		})
	}
}

func rateOfTheFleet(t *testing.T, seed uint64) {
	const perSecond, burst, lasts, demand = 50, 50, 10 * time.Second, 3
	net := newNetwork(seed)
	server := newRedisServer(time.Now, rngOf(seed, "redis"))
	l := net.listen("redis", redisAddress)
	server.serve(l)
	var mu sync.Mutex
	var passed []time.Duration
	var callers sync.WaitGroup
	begin := time.Now()
	var ends []func()
	for n := range nodeCount {
		client := redis.NewClient(&redis.Options{
			Addr: redisAddress, Dialer: net.dialer(fmt.Sprint("n", n)), ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		limiter := rate.New(rate.Config{Plan: rate.Plan{PerSecond: perSecond, Burst: burst}}, rate.Options{Redis: client, Prefix: "iq"})
		ends = append(ends, limiter.Close, func() { _ = client.Close() })
		rng := rngOf(seed, fmt.Sprint("caller of ", n))
		callers.Go(func() {
			for time.Since(begin) < lasts {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) * nodeCount / (demand * perSecond)))
				callers.Go(func() {
					if limiter.Allow(t.Context(), "acme", "").Allowed {
						mu.Lock()
						defer mu.Unlock()
						passed = append(passed, time.Since(begin))
					}
				})
			}
		})
	}
	callers.Wait()
	for _, end := range ends {
		end()
	}
	_ = l.Close()
	server.disconnect()
	server.wg.Wait()

	slices.Sort(passed)
	if n := len(passed); n > 565 || n < 500 {
		t.Errorf("%d requests passed in 10 s", n)
	}
	for i, first := range passed {
		for j := i; j < len(passed); j += 20 {
			if most := burst + perSecond*(passed[j]-first).Seconds() + nodeCount*(burst/10); float64(j-i+1) > most {
				t.Fatalf("%d requests passed in %v from %v on, at most %.0f may", j-i+1, passed[j]-first, first, most)
			}
		}
	}
}
