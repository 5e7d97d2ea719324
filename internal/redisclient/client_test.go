package redisclient

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
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
	Silence()
	goleak.VerifyTestMain(m, redistest.Reconnecting())
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

// A call that reaches a server that has stopped costs its caller the timeout, so they are few: those
// that open the breaker, then one probe in each breakerOpen. All others fail at once.
func TestAStoppedRedisDelaysOnlyProbes(t *testing.T) {
	srv := redistest.Start(t)
	rdb, _ := open(t, srv)
	result := func(name, result string) float64 {
		return testutil.ToFloat64(rdb.metrics.operations.WithLabelValues(name, result))
	}
	get := func() error {
		ctx, cancel := rdb.Bounded(t.Context())
		defer cancel()
		return rdb.Get(ctx, "k").Err()
	}
	srv.Pause()
	defer srv.Resume()
	for range breakerCalls {
		if err := get(); err == nil {
			t.Fatal("a stopped server answered")
		}
	}
	if !rdb.Down() {
		t.Fatal("the breaker is closed")
	}
	if _, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Get(t.Context(), "k"); return nil }); err != errSkipped {
		t.Fatalf("with the breaker open a pipeline got %v", err)
	}
	opened := time.Now()
	redistest.Eventually(t, "two probes were let through", func() bool {
		_ = get()
		return result("get", "timeout") >= breakerCalls+2
	})
	if probes, most := result("get", "timeout")-breakerCalls, time.Since(opened).Seconds()/breakerOpen.Seconds()+1; probes > most {
		t.Errorf("%v calls waited for a stopped server, want at most %v", probes, most)
	}
	if result("get", "skipped") == 0 {
		t.Error("no call was skipped")
	}
	srv.Resume()
	redistest.Eventually(t, "a probe closes the breaker", func() bool { return get() == redis.Nil && !rdb.Down() })
}

// After many failed dials go-redis tries one in a second.
func TestALongOutageDelaysTheReturnByASecond(t *testing.T) {
	srv := redistest.Start(t)
	rdb, _ := open(t, srv)
	srv.Kill()
	for range 2 * poolSize {
		_ = rdb.client.Ping(context.WithValue(t.Context(), insideKey{}, true)).Err()
	}
	srv.Restart()
	back := time.Now()
	for rdb.client.Ping(t.Context()).Err() != nil && time.Since(back) < 10*time.Second {
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(back); took > 2*time.Second { // one, and one for a machine that is busy
		t.Errorf("Redis was back for %v before it was used", took)
	}
}

// A Cluster may have had any number of nodes: the client forgets those that go-redis has forgotten.
func TestNodesThatHaveLeftAreForgotten(t *testing.T) {
	rdb, _ := open(t, redistest.Start(t))
	for range 100 {
		node := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		rdb.addServer(node)
		_ = node.Close()
	}
	redistest.Eventually(t, "they are forgotten", func() bool {
		runtime.GC()
		last := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		defer runtime.KeepAlive(last)
		rdb.addServer(last)
		_ = last.Close()
		rdb.mu.Lock()
		defer rdb.mu.Unlock()
		return len(rdb.servers) < 10
	})
	if rdb.Get(t.Context(), "key").Err() != redis.Nil || rdb.Down() || rdb.servers[0].Value() == nil {
		t.Error("the server that is there is forgotten, too")
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

// go-redis cannot see that the server has ended these connections, as over TLS, or where it died
// without a word. A call uses up four of them at most, so that few calls fail.
func TestDeadConnectionsFailFewCalls(t *testing.T) {
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
	const connections = 16
	var busy sync.WaitGroup
	for range connections {
		busy.Go(func() { _ = rdb.client.Do(t.Context(), "BLPOP", "nothing", "0.2").Err() })
	}
	busy.Wait()
	if n := rdb.client.PoolStats().IdleConns; n < connections {
		t.Fatalf("%d idle connections, want %d", n, connections)
	}
	srv.Do("CLIENT", "KILL", "SKIPME", "yes")
	failed := 0
	for range 2 * connections {
		if err := rdb.Get(t.Context(), "key").Err(); err != redis.Nil {
			failed++
		}
	}
	if failed > connections/4 || rdb.Down() {
		t.Errorf("%d calls failed, want at most %d; down: %t", failed, connections/4, rdb.Down())
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
