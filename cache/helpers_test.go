package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redisclient.Silence()
	_ = flag.Set("test.parallel", "4") // what runs beside others waits for Redis most of the time
	goleak.VerifyTestMain(m, redistest.Reconnecting())
}

var (
	aKey      = Key{Kind: KindBuyer, Account: "acme", Status: "pending"}
	sellers   = Key{Kind: KindSeller, Account: "acme"}
	otherKey  = Key{Kind: KindBuyer, Account: "globex"}
	errLegacy = error(legacyDown{})
)

// legacyDown is an error of the legacy, which may have asked to wait, or of who did not ask it.
type legacyDown struct {
	refused bool
	wait    time.Duration
}

func (legacyDown) Error() string               { return "the legacy is down" }
func (e legacyDown) Refused() bool             { return e.refused }
func (e legacyDown) RetryAfter() time.Duration { return e.wait }

// legacy numbers its answers, fails on demand, and holds its answers back.
type legacy struct {
	clock *testkit.Clock // that of all nodes, too
	calls atomic.Int64
	fail  atomic.Pointer[error]
	hold  chan struct{} // non-nil: answers wait for it to be closed
}

func newLegacy() *legacy {
	return &legacy{clock: testkit.NewClock(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))}
}

func (g *legacy) fill(ctx context.Context, k Key, _ FillInfo) (Content, error) {
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

// testConfig is exact: no jitter. A list is fresh for 10 s, served while it is refreshed
// for another 10 s, and while the legacy fails for a minute.
func testConfig() Config {
	c := DefaultConfig()
	c.Jitter = 0
	c.Buyer = KindConfig{Freshness: Freshness{TTL: 10 * time.Second, StaleWhileRevalidate: 10 * time.Second, StaleIfError: time.Minute}}
	c.Seller = c.Buyer
	return c
}

// setup is what a test may change of a node.
type setup struct {
	Config
	Options
}

// node is a cache in front of the legacy.
func (g *legacy) node(t testing.TB, rdb *redisclient.Client, change ...func(*setup)) *Cache {
	t.Helper()
	s := setup{testConfig(), Options{Fill: g.fill, Now: g.clock.Now, Redis: rdb, Prefix: "iq"}}
	for _, c := range change {
		c(&s)
	}
	l, err := New(s.Config, s.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// alone is a node without Redis.
func alone(t testing.TB, change ...func(*setup)) (*Cache, *legacy) {
	t.Helper()
	g := newLegacy()
	return g.node(t, nil, change...), g
}

// pendingFor gives the lists of pending inquiries a ttl of their own, without
// stale_while_revalidate.
func pendingFor(ttl time.Duration) func(*setup) {
	return func(s *setup) {
		var none time.Duration
		s.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &ttl, StaleWhileRevalidate: &none}}
	}
}

// filledBy is a node whose lists all have this body.
func filledBy(body string) func(*setup) {
	return func(s *setup) {
		s.Fill = func(context.Context, Key, FillInfo) (Content, error) { return Content{Body: []byte(body)}, nil }
	}
}

func mustGet(t testing.TB, l *Cache, k Key) Result {
	t.Helper()
	r, err := l.Get(context.Background(), k)
	if err != nil {
		t.Fatalf("Get(%v): %v", k, err)
	}
	return r
}

// asking is what a look-up will get that waits.
func asking(t testing.TB, l *Cache, k Key) <-chan Result {
	t.Helper()
	got := make(chan Result, 1)
	go func() {
		r, err := l.Get(context.Background(), k)
		if err != nil {
			t.Errorf("Get(%v): %v", k, err)
		}
		got <- r
	}()
	return got
}

func body(r Result) string { return string(r.Entry.Identity.Body) }

// want is a list of the legacy's answer of this number, or of one that ends like it.
func want(t testing.TB, r Result, o Outcome, answer string) {
	t.Helper()
	if r.Outcome != o || !strings.HasSuffix(body(r), answer) {
		t.Errorf("%s with %q, want %s with %s", r.Outcome, body(r), o, answer)
	}
}

// settled waits until no flight is left, nor what it leaves behind.
func settled(all ...*Cache) {
	for _, l := range all {
		l.wg.Wait()
	}
}

// acme purges all lists of that account.
var acme = Purge{Accounts: []string{"acme"}}

func purge(t testing.TB, l *Cache, p Purge) {
	t.Helper()
	if _, err := l.Purge(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// synced tells whether a node has polled.
func synced(l *Cache) bool { _, ok := l.invalidations.position(); return ok }

// registryOf is where a node counts.
func registryOf(l *Cache) *prometheus.Registry { return l.opts.Registerer.(*prometheus.Registry) }

// fleet is some nodes, each with its own client, over one Redis and one legacy.
type fleet struct {
	*legacy
	srv     *redistest.Server
	rdb     *redisclient.Client // of the first node
	nodes   []*Cache
	clients []*prometheus.Registry // what the nodes' clients count
}

func newFleet(t testing.TB, size int, change ...func(*setup)) *fleet {
	t.Helper()
	f := &fleet{legacy: newLegacy(), srv: redistest.Start(t)}
	for range size {
		f.add(t, f.srv.Addr, 4*time.Second, change...) // a busy machine needs more time than production gives
	}
	return f
}

// add starts a further node.
func (f *fleet) add(t testing.TB, addr string, timeout time.Duration, change ...func(*setup)) *Cache {
	t.Helper()
	return f.join(t, []string{addr}, nil, timeout, change...)
}

// join starts a further node that dials Redis in its own way, or in the usual one.
func (f *fleet) join(t testing.TB, addrs []string, dial redisclient.Dial, timeout time.Duration, change ...func(*setup)) *Cache {
	t.Helper()
	c := redisclient.DefaultConfig()
	c.Addrs, c.Timeout = addrs, timeout
	reg := prometheus.NewRegistry()
	rdb, err := redisclient.Open(c, redisclient.Options{Registerer: reg, Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	if f.rdb == nil {
		f.rdb = rdb
	}
	l := f.node(t, rdb, change...)
	f.nodes, f.clients = append(f.nodes, l), append(f.clients, reg)
	return l
}

// called is how many calls of Redis a node has made, by command.
func (f *fleet) called(t testing.TB, node int, commands ...string) (n float64) {
	t.Helper()
	all, err := testkit.Values(f.clients[node], "inquiry_gateway_redis_operations_total")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		n += all[command+"ok"]
	}
	return n
}

// warm fills keys on every node.
func (f *fleet) warm(t testing.TB, keys ...Key) {
	t.Helper()
	for _, l := range f.nodes {
		// What a node fetches before it has read the clock of Redis is purged by its first poll.
		redistest.Eventually(t, "the node has polled", func() bool { return synced(l) })
		for _, k := range keys {
			mustGet(t, l, k)
			settled(l)
			if _, ok := l.Lookup(k); !ok {
				t.Fatalf("%v is not warm", k)
			}
		}
	}
}

// gone waits until each node serves k no longer from what it has.
func (f *fleet) gone(t testing.TB, k Key) {
	t.Helper()
	for _, l := range f.nodes {
		redistest.Eventually(t, "the old list is not served", func() bool { _, ok := l.Lookup(k); return !ok })
	}
}

// waiting counts the flights that wait for another node.
func (f *fleet) waiting() (n int) {
	for _, l := range f.nodes {
		l.mu.Lock()
		for _, x := range l.flights {
			if x.polls.Load() {
				n++
			}
		}
		l.mu.Unlock()
	}
	return n
}

// filling waits until one node fills and so many others wait for it.
func (f *fleet) filling(t testing.TB, calls, waiting int) {
	t.Helper()
	redistest.Eventually(t, "one node fills and the others wait", func() bool {
		return f.calls.Load() == int64(calls) && f.waiting() == waiting
	})
}

// grow makes every list older by d, in the processes and in Redis.
func (f *fleet) grow(t testing.TB, d time.Duration) {
	t.Helper()
	f.clock.Add(d)
	for _, key := range f.rdb.Keys(t.Context(), "*").Val() {
		raw, _ := f.rdb.Get(t.Context(), key).Bytes()
		var head entryHead
		if !bytes.HasPrefix(raw, []byte(entryMagic)) {
			continue // a lease or the purges
		}
		if _, err := binary.Decode(raw[headSize:], binary.BigEndian, &head); err != nil {
			t.Fatal(err)
		}
		id, body := raw[headSize+entryHeadSize:][:head.ID], raw[headSize+entryHeadSize:][head.ID:]
		e := newEntry(origin{answeredAtRedis: head.AnsweredAt - int64(d), fetch: fetchVersion{began: head.FetchBegan}}, body, 0)
		e.sum = head.Sum
		if err := f.rdb.Set(t.Context(), key, e.encode(id), redis.KeepTTL).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// namesOf are the keys in Redis of a list that no mapping is named for.
func (f *fleet) namesOf(k Key) redistier.Names { return f.nodes[0].redis.Names(idOf(k, "")) }
