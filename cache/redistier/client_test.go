package redistier

import (
	"context"
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

func open(t *testing.T, srv *redistest.Server) *guarded {
	t.Helper()
	c := DefaultConfig()
	c.Addrs = []string{srv.Addr}
	rdb, err := Open(c, prometheus.NewRegistry(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb.(*guarded)
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
	ctx := Probing(t.Context())
	for range 2 * poolSize {
		_ = rdb.UniversalClient.Ping(context.WithValue(ctx, passKey{}, passNested)).Err()
	}
	srv.Restart()
	if err := rdb.UniversalClient.Ping(context.WithValue(ctx, passKey{}, passNested)).Err(); err != nil {
		t.Errorf("the first call after the return: %v", err)
	}
}
