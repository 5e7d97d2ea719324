package cache

import (
	"context"
	"fmt"
	"inquiry-gateway/internal/redisclient"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

func newClock() *testkit.Clock { return testkit.NewClock(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)) }

// legacy is a fill that numbers its answers and fails on demand.
type legacy struct {
	clock *testkit.Clock
	calls atomic.Int64
	fail  atomic.Pointer[error]
	hold  chan struct{} // non-nil: answers wait for it to be closed
}

func (g *legacy) fill(ctx context.Context, k Key) (Content, error) {
	n := g.calls.Add(1)
	if g.hold != nil {
		select {
		case <-g.hold:
		case <-ctx.Done():
			return Content{}, ctx.Err()
		}
	}
	if err := g.fail.Load(); err != nil && *err != nil {
		return Content{}, *err
	}
	return Content{Body: fmt.Appendf(nil, "%s/%s/%s/%s #%d", k.Kind, k.Account, k.Status, k.InquiryType, n), AnsweredAt: g.clock.Now()}, nil
}

func (g *legacy) failWith(err error) { g.fail.Store(&err) }

// testConfig is exact: no jitter.
func testConfig() Config {
	c := DefaultConfig()
	c.Jitter = 0
	c.Buyer = KindConfig{TTL: 10 * time.Second, StaleWhileRevalidate: 10 * time.Second, StaleIfError: time.Minute}
	c.Seller = c.Buyer
	return c
}

type setup struct {
	cfg     Config
	fill    Fill
	now     func() time.Time
	redis   *redisclient.Client
	limit   time.Duration
	reg     prometheus.Registerer
	failing func(kind string) bool

	mappings   map[string]Mapping
	derivation Derivation
}

func (s setup) start(t testing.TB) *Lists {
	t.Helper()
	if s.cfg.MaxBytes == 0 {
		s.cfg = testConfig()
	}
	l, err := New(s.cfg, Options{Fill: s.fill, Fills: Fills{Timeout: s.limit, Mappings: s.mappings}, Derivation: s.derivation,
		Redis: s.redis, Now: s.now, Registerer: s.reg, Failing: s.failing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLists(t, l) })
	return l
}

func closeLists(t testing.TB, l *Lists) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func mustGet(t testing.TB, l *Lists, k Key) Result {
	t.Helper()
	r, err := l.Get(context.Background(), k)
	if err != nil {
		t.Fatalf("Get(%v): %v", k, err)
	}
	return r
}

// shift makes every list in Redis older by d, as if Redis' clock went on by it.
func shift(t testing.TB, rdb redis.Cmdable, d time.Duration) {
	t.Helper()
	ctx := context.Background()
	for _, key := range rdb.Keys(ctx, "*").Val() {
		raw, _ := rdb.Get(ctx, key).Bytes()
		e, err := decode(raw)
		if err != nil {
			continue // a lease or an epoch
		}
		e.stamp -= int64(d)
		if err := rdb.Set(ctx, key, e.encode(), redis.KeepTTL).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// settled waits until no flight is left, which ends by itself.
func settled(l *Lists) { l.wg.Wait() }

func body(r Result) string { return string(r.Entry.Identity.Body) }

var aKey = Key{Kind: KindBuyer, Account: "acme", Status: "pending"}

func counter(t testing.TB, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	if m.Counter != nil {
		return m.Counter.GetValue()
	}
	return m.Gauge.GetValue()
}

// stampede lets 500 callers on each node ask at once, and returns how long each
// waited.
func (f *fleet) stampede(b *testing.B, k Key) []time.Duration {
	waits := make([]time.Duration, 500*len(f.nodes))
	var ready, done sync.WaitGroup
	ready.Add(len(waits))
	start := make(chan struct{})
	for i := range waits {
		done.Go(func() {
			ready.Done()
			<-start
			begin := time.Now()
			if _, err := f.nodes[i%len(f.nodes)].Get(context.Background(), k); err != nil {
				b.Error(err)
			}
			waits[i] = time.Since(begin)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return waits
}

func report(b *testing.B, calls int64, waits []time.Duration) {
	slices.Sort(waits)
	b.ReportMetric(float64(calls)/float64(b.N), "upstream-requests/op")
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
}
