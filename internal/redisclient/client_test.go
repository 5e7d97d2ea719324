package redisclient

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, srv *redistest.Server, change ...func(*Config)) (*Client, *testkit.Log) {
	t.Helper()
	c, log := DefaultConfig(), &testkit.Log{}
	c.Addrs = []string{srv.Addr}
	for _, f := range change {
		f(&c)
	}
	rdb, err := Open(c, Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, log
}

// Only calls that reach a server that has stopped cost time, so they are counted. The prober,
// which tries each 250 ms, makes this test take its second.
func TestAStoppedRedisIsAskedOnlyUntilItsBreakerOpens(t *testing.T) {
	srv := redistest.Start(t)
	rdb, _ := open(t, srv)
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
		return testutil.ToFloat64(rdb.metrics.operations.WithLabelValues("exists", "timeout")) >= 2
	})
	if n := testutil.ToFloat64(rdb.metrics.operations.WithLabelValues("get", "timeout")); n != breakerCalls {
		t.Errorf("%v calls waited for a stopped server, want %d", n, breakerCalls)
	}
}

// More connections fail than the pool is large; go-redis on its own would then look again
// once a second.
func TestALongOutageDoesNotDelayTheReturn(t *testing.T) {
	srv := redistest.Start(t)
	rdb, _ := open(t, srv)
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

// A call that had all of its time says something about Redis, and one whose caller had less does
// not.
func TestWhoseDeadlineIsEvidence(t *testing.T) {
	const timeout = 500 * time.Millisecond
	for _, tt := range []struct {
		takes, own time.Duration // own: the caller's deadline; 0: that of the client
		down       bool
	}{
		{timeout * 6 / 10, 0, false},
		{timeout * 6 / 10, timeout / 10, false},
		{timeout * 12 / 10, 0, true},
		{timeout * 12 / 10, timeout / 10, false},
	} {
		t.Run(fmt.Sprintf("%v for Redis, %v for the caller", tt.takes, tt.own), func(t *testing.T) {
			t.Parallel()
			rdb, _ := open(t, redistest.Start(t), func(c *Config) { c.Timeout = timeout })
			ctx := t.Context()
			if tt.own > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.own)
				defer cancel()
			}
			var all sync.WaitGroup
			for range 2 * breakerCalls {
				all.Go(func() {
					ctx, cancel := rdb.Bounded(ctx)
					defer cancel()
					_ = rdb.client.Do(ctx, "BLPOP", "nothing", tt.takes.Seconds()).Err()
				})
			}
			all.Wait()
			if rdb.Down() != tt.down {
				t.Errorf("Redis counts as away: %t", rdb.Down())
			}
		})
	}
}

// A connection may fail after the call that wanted it has given up. It is of no use to later
// ones: those get connections that work.
func TestDialsThatFailLateAreNotKept(t *testing.T) {
	srv := redistest.Start(t)
	const calls = 8
	config := DefaultConfig()
	config.Addrs, config.Timeout = []string{srv.Addr}, time.Second
	var away atomic.Bool
	var late sync.WaitGroup
	fail := make(chan struct{})
	rdb, err := Open(config, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if away.Load() {
			defer late.Done()
			<-fail
			return nil, syscall.ECONNREFUSED
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	away.Store(true)
	late.Add(calls)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), passKey{}, passNested), 10*time.Millisecond)
			defer cancel()
			if err := rdb.client.Ping(ctx).Err(); err == nil {
				t.Error("a call went through")
			}
		})
	}
	all.Wait()
	away.Store(false)
	close(fail)
	late.Wait()
	redistest.Eventually(t, "all are in the pool", func() bool { return rdb.client.PoolStats().IdleConns >= calls })
	for i := range 2 * calls {
		ctx := context.WithValue(t.Context(), passKey{}, passNested)
		if err := rdb.client.Ping(ctx).Err(); err != nil {
			t.Errorf("call %d after the return: %v", i, err)
		}
	}
}

// No look at these connections tells that the server has ended them, as over TLS, or where it
// died without a word.
func TestBrokenConnectionsFailOneCall(t *testing.T) {
	srv := redistest.Start(t)
	config := DefaultConfig()
	config.Addrs, config.Timeout = []string{srv.Addr}, 5*time.Second
	rdb, err := Open(config, Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return struct{ net.Conn }{c}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() { _ = rdb.Eval(t.Context(), "local n = 0 for i = 1, 2e6 do n = n + i end return n", nil).Err() })
	}
	busy.Wait()
	admin := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer admin.Close()
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 16 {
		if err := rdb.Get(t.Context(), "key").Err(); err != redis.Nil {
			failed++
			t.Log(err)
		}
	}
	if failed != 1 {
		t.Errorf("%d calls failed, want that of the first broken connection", failed)
	}
}

// A wrong password is an outage, which may pass. A right that is missing is told of once, and
// the rest goes on.
func TestUsersOfRedis(t *testing.T) {
	srv := redistest.Start(t)
	script := redis.NewScript(`return redis.call('PUBLISH', 'c', 'm')`)
	for _, tt := range []struct {
		password, right string
		down            bool
		told            int
	}{
		{"right", "+get", false, 0},
		{"wrong", "+get", true, 0},
		{"right", "-get", false, 1},
		{"right", "-publish", false, 1}, // in a script
	} {
		srv.Do("ACL", "SETUSER", "gw", "on", ">right", "~*", "&*", "+@all", tt.right)
		rdb, log := open(t, srv, func(c *Config) { c.Username, c.PasswordFile = "gw", setting.NewFile("password", tt.password+"\n") })
		for range 2 * breakerCalls {
			_ = rdb.Get(t.Context(), "k").Err()
			_ = rdb.Run(t.Context(), script, []string{"k"}).Err()
		}
		told := strings.Count(log.String(), "may not do what the gateway needs")
		if told != tt.told || rdb.Down() != tt.down {
			t.Errorf("%+v: told %d times, down %t", tt, told, rdb.Down())
		}
	}
}

// A connection that only listens and breaks is noticed, because who counts on messages must
// know that some are missing. One that says nothing is noticed by two pings, a second apart.
func TestListenSaysWhenMessagesAreMissing(t *testing.T) {
	srv := redistest.Start(t)
	rdb, _ := open(t, srv)
	var connected atomic.Bool
	heard := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rdb.Listen(ctx, func(channel, payload string) { heard <- channel + " " + payload }, connected.Store, "a", "b")
	}()
	for _, trouble := range []struct{ begin, end func() }{{srv.Kill, srv.Restart}, {srv.Pause, srv.Resume}, {cancel, func() {}}} {
		redistest.Eventually(t, "the channels are subscribed to", connected.Load)
		srv.Do("PUBLISH", "b", "hello")
		if m := <-heard; m != "b hello" {
			t.Errorf("heard %q", m)
		}
		trouble.begin()
		redistest.Eventually(t, "the end of the connection is noticed", func() bool { return !connected.Load() })
		trouble.end()
	}
	<-ended
}
