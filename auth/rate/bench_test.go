package rate

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/testkit/redistest"
)

// BenchmarkAllow is what a request costs of an account that is far from its limit, one of 12,000 in
// turn: time of the node's processors, and commands of Redis, those of scripts included. It supports
// that requests are charged afterwards.
func BenchmarkAllow(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: true})
	defer rdb.Close()
	commands := func() (n float64) {
		n, err := strconv.ParseFloat(rdb.InfoMap(b.Context(), "stats").Item("Stats", "total_commands_processed"), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	processors := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
	}
	for _, burst := range []int{50, 9} {
		b.Run(fmt.Sprint("burst=", burst), func(b *testing.B) {
			c := newClock()
			l := newLimiter(b, Config{Plan: Plan{PerSecond: 50, Burst: burst}}, Options{Redis: rdb, Prefix: fmt.Sprint(burst), Timeout: time.Minute, Now: c.Now})
			accounts := make([]string, 12_000)
			for i := range accounts {
				accounts[i] = fmt.Sprint("account-", i)
				l.Allow(accounts[i], "")
			}
			l.wg.Wait()
			asked, spent, n := commands(), processors(), 0
			for b.Loop() {
				c.Add(100 * time.Microsecond)
				l.Allow(accounts[n%len(accounts)], "")
				l.wg.Wait() // each charge on its own, as on a node that is not busy
				n++
			}
			b.ReportMetric((processors()-spent)/float64(n), "node-µs/op")
			b.ReportMetric((commands()-asked)/float64(n), "commands/op")
		})
	}
}
