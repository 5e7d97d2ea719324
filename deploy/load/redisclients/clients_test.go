// Package redisclients compares ways to read lists from Redis. It is a module of its own,
// so that nothing else compiles the other client; in this folder:
//
//	go test -bench . -benchtime 2s -count 5
package redisclients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// BenchmarkRead is what 64 look-ups at a time cost this process for one list of 10 KB
// each, with its epoch, and no breaker or metrics: by a pipeline each, as the gateway does;
// in the batches of go-redis; and by rueidis, which always batches. It supports a pipeline
// each. Microseconds of CPU, the least of some runs:
//
//	pipeline      28
//	batches       15
//	rueidis       16
//
// A whole hit in Redis costs 100 and more, so batches would save a tenth of it. But they
// are marked experimental, a command in the queue has no deadline of its own, one slow
// reply holds up all look-ups behind it, and their calls belong to no request's trace.
func BenchmarkRead(b *testing.B) {
	const lists = 1000
	addr := startRedis(b)
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, ContextTimeoutEnabled: true, DisableIdentity: true})
	defer c.Close()
	entries, epochs := make([]string, lists), make([]string, lists)
	fill := c.Pipeline()
	for i := range lists {
		entries[i], epochs[i] = fmt.Sprint("entry:", i), fmt.Sprint("epoch:", i)
		fill.Set(b.Context(), entries[i], strings.Repeat("x", 10<<10), 0)
		fill.Set(b.Context(), epochs[i], i, 0)
	}
	if _, err := fill.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
	batches, err := c.AsyncAutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	ru, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	defer ru.Close()
	for _, way := range []struct {
		name string
		read func(ctx context.Context, i int) (entry, epoch string, err error)
	}{
		{"pipeline", func(ctx context.Context, i int) (string, string, error) {
			p := c.Pipeline()
			entry, epoch := p.GetRange(ctx, entries[i], 0, 1<<20), p.Get(ctx, epochs[i])
			_, err := p.Exec(ctx)
			return entry.Val(), epoch.Val(), err
		}},
		{"batches", func(ctx context.Context, i int) (string, string, error) {
			entry, epoch := batches.GetRange(ctx, entries[i], 0, 1<<20), batches.Get(ctx, epochs[i])
			return entry.Val(), epoch.Val(), epoch.Err()
		}},
		{"rueidis", func(ctx context.Context, i int) (string, string, error) {
			got := ru.DoMulti(ctx, ru.B().Getrange().Key(entries[i]).Start(0).End(1<<20).Build(), ru.B().Get().Key(epochs[i]).Build())
			entry, err := got[0].ToString()
			if err != nil {
				return "", "", err
			}
			epoch, err := got[1].ToString()
			return entry, epoch, err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.SetParallelism(32)
			b.ReportAllocs()
			start := cpuTime(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ctx, cancel := context.WithTimeout(b.Context(), time.Second)
					i := rand.IntN(lists)
					entry, epoch, err := way.read(ctx, i)
					cancel()
					if err != nil || len(entry) != 10<<10 || epoch != fmt.Sprint(i) {
						b.Errorf("list %d: %d bytes, epoch %s, %v", i, len(entry), epoch, err)
					}
				}
			})
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// startRedis runs redis-server until the benchmark ends, and gives its address.
func startRedis(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	server := exec.CommandContext(b.Context(), "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", b.TempDir())
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Wait() }) // its context has ended
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr
		}
		time.Sleep(20 * time.Millisecond) // until it listens
	}
	b.Fatal("redis-server does not answer on " + addr)
	return ""
}

func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
