package redisclient

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, srv *redistest.Server) *Client {
	t.Helper()
	c := DefaultConfig()
	c.Addrs = []string{srv.Addr}
	rdb, err := Open(c, Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// TestASlowRedisIsAskedOnlyUntilItsBreakerOpens counts the calls that reach a
// stopped server, since only those cost time.
func TestASlowRedisIsAskedOnlyUntilItsBreakerOpens(t *testing.T) {
	srv := redistest.Start(t)
	rdb := open(t, srv)
	srv.Pause()
	defer srv.Resume()
	ctx := context.Background()
	for range breakerCalls {
		if err := rdb.Get(ctx, "k").Err(); err == nil {
			t.Fatal("a stopped server answered")
		}
	}
	redistest.Eventually(t, "the breaker is open", rdb.Down)
	for range 1000 {
		if err := rdb.Get(ctx, "k").Err(); err != errSkipped {
			t.Fatalf("with the breaker open a call got %v", err)
		}
		if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "k"); return nil }); err != errSkipped {
			t.Fatalf("with the breaker open a pipeline got %v", err)
		}
	}
	// Half-open is the prober's alone: no request is the one to try.
	redistest.Eventually(t, "the prober has tried a few times", func() bool {
		if err := rdb.Get(ctx, "k").Err(); err != errSkipped {
			t.Fatalf("while the prober tries a call got %v", err)
		}
		return testutil.ToFloat64(rdb.metrics.operations.WithLabelValues("exists", "timeout")) >= 3
	})
	if n := testutil.ToFloat64(rdb.metrics.operations.WithLabelValues("get", "timeout")); n != breakerCalls {
		t.Errorf("%v calls waited for a stopped server, want %d", n, breakerCalls)
	}
}

// TestALongOutageDoesNotDelayTheReturn makes more failed connections than the
// pool is large; go-redis on its own would then look again once a second.
func TestALongOutageDoesNotDelayTheReturn(t *testing.T) {
	srv := redistest.Start(t)
	rdb := open(t, srv)
	srv.Kill()
	ctx := context.WithValue(t.Context(), passKey{}, passNested)
	for range 2 * poolSize {
		_ = rdb.client.Ping(ctx).Err()
	}
	srv.Restart()
	if err := rdb.client.Ping(ctx).Err(); err != nil {
		t.Errorf("the first call after the return: %v", err)
	}
}

// A connection that only listens and breaks is noticed: who counts on messages must know
// that some are missing.
func TestListenSaysWhenMessagesAreMissing(t *testing.T) {
	srv := redistest.Start(t)
	rdb := open(t, srv)
	var connected atomic.Bool
	heard := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rdb.Listen(ctx, func(channel, payload string) { heard <- channel + " " + payload }, connected.Store, "a", "b")
	}()
	tell := func() {
		t.Helper()
		redistest.Eventually(t, "the channels are subscribed to", connected.Load)
		srv.Do("PUBLISH", "b", "hello")
		if m := <-heard; m != "b hello" {
			t.Errorf("heard %q", m)
		}
	}
	tell()
	srv.Kill()
	redistest.Eventually(t, "the end of the connection is noticed", func() bool { return !connected.Load() })
	srv.Restart()
	tell()
	srv.Pause()
	redistest.Eventually(t, "a connection without a word is noticed", func() bool { return !connected.Load() })
	srv.Resume()
	tell()
	cancel()
	<-ended
}
