package cache

import (
	"context"
	"fmt"
	"github.com/prometheus/client_golang/prometheus"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit/redistest"
)

// openRedis connects to a test server as the gateway would.
func openRedis(t testing.TB, c redisclient.Config) *redisclient.Client {
	t.Helper()
	rdb, err := redisclient.Open(c, redisclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func redisAt(addr string) redisclient.Config {
	c := redisclient.DefaultConfig()
	c.Addrs = []string{addr}
	return c
}

// namesOf are the keys of a list that no mapping is named for.
func namesOf(l *Lists, k Key) redistier.Names { return l.redis.Names(listOf(k, "")) }

func entryKey(l *Lists, k Key) string { return namesOf(l, k).Entry }

// freshReader is another node: the same Redis, an empty process.
func freshReader(t testing.TB, rdb *redisclient.Client, g *legacy) *Lists {
	t.Helper()
	return setup{fill: g.fill, now: g.clock.Now, redis: rdb}.start(t)
}

func TestAnotherNodeTakesTheListFromRedisWithItsAge(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, redisAt(srv.Addr))
	g := &legacy{clock: newClock()}
	first := freshReader(t, rdb, g)
	filled := mustGet(t, first, aKey)
	settled(first)
	g.clock.Add(4 * time.Second)
	shift(t, rdb, 4*time.Second)

	second := freshReader(t, rdb, g)
	r := mustGet(t, second, aKey)
	if r.Outcome != Hit || r.Tier != TierRedis || !about(r.Age, 4*time.Second) || r.Age+r.TTL != 10*time.Second {
		t.Fatalf("%s from %q, age %s, ttl %s", r.Outcome, r.Tier, r.Age, r.TTL)
	}
	if body(r) != body(filled) || r.Entry.ETag[0] != filled.Entry.ETag[0] {
		t.Error("the two nodes serve different lists")
	}
	g.clock.Add(4 * time.Second)
	if r, ok := second.Lookup(aKey); !ok || !about(r.Age, 8*time.Second) {
		t.Errorf("in the second tier the age is %s; tiers must not add up", r.Age)
	}
	g.clock.Add(2 * time.Second)
	if _, ok := second.Lookup(aKey); ok {
		t.Error("fresh past its ttl")
	}
}

// about allows for what round trips add to an age; none is ever taken off.
func about(got, want time.Duration) bool { return got >= want && got < want+time.Second }

// A caller whose time is up while the legacy is waited for gets the stale list
// that Redis had, although this node has never served it.
func TestOutOfTimeWithAStaleListInRedis(t *testing.T) {
	rdb := openRedis(t, relaxTimeouts(redisAt(redistest.Start(t).Addr)))
	g := &legacy{clock: newClock()}
	first := freshReader(t, rdb, g)
	filled := mustGet(t, first, aKey)
	settled(first)
	g.clock.Add(30 * time.Second) // past ttl and stale_while_revalidate
	shift(t, rdb, 30*time.Second)

	slow := &legacy{clock: g.clock, hold: make(chan struct{})}
	second := freshReader(t, rdb, slow)
	late, stop := context.WithCancel(t.Context())
	defer stop()
	type answer struct {
		r   Result
		err error
	}
	answers := make(chan answer, 1)
	go func() { r, err := second.Get(outOfTime{late}, aKey); answers <- answer{r, err} }()
	redistest.Eventually(t, "the legacy is asked", func() bool { return slow.calls.Load() == 1 })
	stop()
	a := <-answers
	close(slow.hold)
	settled(second)
	if a.err != nil || a.r.Outcome != StaleError || a.r.Tier != TierRedis || body(a.r) != body(filled) {
		t.Errorf("%s from %q, %v", a.r.Outcome, a.r.Tier, a.err)
	}
}

// outOfTime is a context whose end is a deadline that has passed.
type outOfTime struct{ context.Context }

func (c outOfTime) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

func TestKeysInRedisHaveAnEndAndHoldNoNames(t *testing.T) {
	srv := redistest.Start(t)
	g := &legacy{clock: newClock()}
	l := freshReader(t, openRedis(t, redisAt(srv.Addr)), g)
	mustGet(t, l, Key{KindSeller, "acme-ltd", "pending", "delivery"})
	for _, s := range []Scope{{Kind: KindSeller}, {Account: "acme-ltd"}} {
		if _, err := l.Purge(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	settled(l)
	plain := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer func() { _ = plain.Close() }()
	keys, err := plain.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 4 { // list, two epochs, number of purges
		t.Fatalf("keys %v, %v", keys, err)
	}
	for _, k := range keys {
		ttl := plain.PTTL(t.Context(), k).Val()
		if ttl <= 0 || ttl > epochLife {
			t.Errorf("%s lives for %s", k, ttl)
		}
		for _, secret := range []string{"acme", "pending", "delivery"} {
			if strings.Contains(k, secret) {
				t.Errorf("key %s holds %q", k, secret)
			}
		}
		if !strings.HasPrefix(k, "iq:3:") {
			t.Errorf("key %s is outside of the prefix", k)
		}
	}
}

func TestGarbageInRedisIsRefusedAndFilledAgain(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, relaxTimeouts(redisAt(srv.Addr)))
	g := &legacy{clock: newClock()}
	writer := freshReader(t, rdb, g)
	mustGet(t, writer, aKey)
	otherKey := Key{Kind: KindBuyer, Account: "globex", Status: "pending"}
	mustGet(t, writer, otherKey)
	settled(writer)
	key := entryKey(writer, aKey)
	good := rdb.Get(t.Context(), key).Val()
	foreign := rdb.Get(t.Context(), entryKey(writer, otherKey)).Val()
	early := newEntry(origin{key: aKey, answeredAt: time.Now().Add(time.Hour)}, []byte("x"), 1).encode()
	tests := []struct{ name, value, reason string }{
		{"another account's list", foreign, "foreign"},
		{"cut", good[:len(good)-1], "checksum"},
		{"no entry", "hello", "format"},
		{"answered in the future", string(early), "future"},
		{"huge", strings.Repeat("x", int(testConfig().MaxEntryBytes)+100), "too_big"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := rdb.Set(t.Context(), key, tt.value, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			l := freshReader(t, rdb, g)
			r := mustGet(t, l, aKey)
			settled(l)
			if r.Outcome != Miss || r.Entry.Account != "acme" {
				t.Errorf("%s of %s", r.Outcome, r.Entry.Account)
			}
			if n := counter(t, l.metrics.refused.WithLabelValues(TierRedis, tt.reason)); n != 1 {
				t.Errorf("%v refused for %s", n, tt.reason)
			}
		})
	}
	if err := rdb.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.LPush(t.Context(), key, "not even a string").Err(); err != nil {
		t.Fatal(err)
	}
	l := freshReader(t, rdb, g)
	if r := mustGet(t, l, aKey); r.Outcome != Miss || l.RedisState() != "ok" {
		t.Errorf("%s with a list in the place; Redis is %s", r.Outcome, l.RedisState())
	}
	settled(l)
}

// TestRedisTroubleNeverFailsARequest asks for ever new keys, so that each
// look-up goes to Redis.
func TestRedisTroubleNeverFailsARequest(t *testing.T) {
	tests := []struct {
		name    string
		trouble func(*redistest.Server)
		recover func(*redistest.Server)
		breaks  bool
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart, true},
		{"stopped", (*redistest.Server).Pause, (*redistest.Server).Resume, true},
		{"full", func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
			func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "0") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := redistest.Start(t, "--maxmemory-policy", "noeviction")
			rdb := openRedis(t, redisAt(srv.Addr))
			g := &legacy{clock: newClock()}
			l := freshReader(t, rdb, g)
			n := 0
			ask := func() time.Duration {
				n++
				start := time.Now() // the injected clock stands still
				mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint("account-", n)})
				took := time.Since(start)
				settled(l)
				return took
			}
			ask()
			tt.trouble(srv)
			var worst, last time.Duration
			for range 20 {
				last = ask()
				worst = max(worst, last)
			}
			t.Logf("a call took %s at worst, %s at last", worst, last)
			if (l.RedisState() == "down") != tt.breaks {
				t.Errorf("Redis is %q", l.RedisState())
			}
			tt.recover(srv)
			redistest.Eventually(t, "Redis is ok again", func() bool { return l.RedisState() == "ok" })
			k := Key{Kind: KindBuyer, Account: "after"}
			mustGet(t, l, k)
			settled(l)
			if r := mustGet(t, freshReader(t, rdb, g), k); r.Tier != TierRedis {
				t.Errorf("after the trouble a list came from %q, outcome %s", r.Tier, r.Outcome)
			}
		})
	}
}

// TestAStalledRedisUnderLoadFailsNobody lets many callers run into a stopped
// server at once; that they all end is seen by the leak check, too.
func TestAStalledRedisUnderLoadFailsNobody(t *testing.T) {
	srv := redistest.Start(t)
	g := &legacy{clock: newClock()}
	l := freshReader(t, openRedis(t, redisAt(srv.Addr)), g)
	mustGet(t, l, aKey)
	settled(l)
	srv.Pause()
	defer srv.Resume()
	var wg sync.WaitGroup
	var worst atomic.Int64
	for n := range 3000 {
		wg.Go(func() {
			start := time.Now()
			r := mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint(n)})
			if r.Outcome != Miss || !r.Stored {
				t.Errorf("%s, stored %t", r.Outcome, r.Stored)
			}
			for took := int64(time.Since(start)); ; {
				if old := worst.Load(); took <= old || worst.CompareAndSwap(old, took) {
					return
				}
			}
		})
	}
	wg.Wait()
	settled(l)
	t.Logf("the slowest of 3,000 callers took %s", time.Duration(worst.Load()))
	if n := g.calls.Load(); n != 3001 {
		t.Errorf("%d fills", n)
	}
}

// TestASluggishRedisIsCalledOncePerMiss: calls that take long, but not so long
// that they fail, do not open the breaker; they must not add up either.
func TestASluggishRedisIsCalledOncePerMiss(t *testing.T) {
	srv := redistest.Start(t)
	cable := redistest.NewProxy(t, srv.Addr)
	rdb := openRedis(t, redisAt(cable.Addr))
	g := &legacy{clock: newClock()}
	l := freshReader(t, rdb, g)
	mustGet(t, l, otherKey)
	settled(l)
	srv.Do("CONFIG", "RESETSTAT")
	cable.Delay(redisclient.DefaultConfig().Timeout * 5 / 8)
	for n := range 5 {
		start := time.Now()
		if r := mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint(n)}); r.Outcome != Miss {
			t.Fatalf("outcome %s", r.Outcome)
		}
		t.Logf("a miss took %s", time.Since(start))
		settled(l)
	}
	// A lease would read the list a second time.
	if stats := srv.Do("INFO", "commandstats"); !strings.Contains(stats, "cmdstat_getrange:calls=5,") {
		t.Errorf("a sluggish Redis was not read once per miss:\n%s", stats)
	}
}

func TestAWrongPasswordIsAnOutageNotACrash(t *testing.T) {
	srv := redistest.Start(t, "--requirepass", "right")
	for name, want := range map[string]string{"wrong": "down", "right": "ok"} {
		c := redisAt(srv.Addr)
		c.PasswordFile = secretfile.New("password", name+"\n")
		l := freshReader(t, openRedis(t, c), &legacy{clock: newClock()})
		for n := range 10 {
			mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint(n)})
			settled(l)
		}
		if got := l.RedisState(); got != want {
			t.Errorf("with the %s password Redis is %q, want %q", name, got, want)
		}
	}
}

// counted opens a client and tells how many calls of an operation it has made.
func counted(t *testing.T, addr string) (*redisclient.Client, func(operation string) float64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	rdb, err := redisclient.Open(relaxTimeouts(redisAt(addr)), redisclient.Options{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, func(operation string) (n float64) {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			for _, m := range family.Metric {
				for _, label := range m.Label {
					if family.GetName() == "inquiry_gateway_redis_operations_total" && label.GetValue() == operation {
						n += m.Counter.GetValue()
					}
				}
			}
		}
		return n
	}
}

// A cold miss is two calls of Redis: one reads and takes the lease, one stores. A list
// that is there is one call.
func TestHowOftenRedisIsCalled(t *testing.T) {
	srv := redistest.Start(t)
	rdb, calls := counted(t, srv.Addr)
	l := freshReader(t, rdb, &legacy{clock: newClock()})
	mustGet(t, l, otherKey) // loads the scripts
	settled(l)
	before := calls("evalsha")
	mustGet(t, l, aKey)
	settled(l)
	if n := calls("evalsha") - before; n != 2 {
		t.Errorf("a cold miss is %v calls", n)
	}
	l.tier.InvalidateAll()
	before = calls("evalsha")
	if r := mustGet(t, l, aKey); r.Tier != TierRedis {
		t.Errorf("from %q", r.Tier)
	}
	settled(l)
	if n := calls("evalsha") - before; n != 1 {
		t.Errorf("a hit in Redis is %v calls", n)
	}
}

// A hint of a thousand accounts is one pipeline and one message, and reaches all nodes.
func TestAHintOfAThousandAccounts(t *testing.T) {
	f := newFleet(t, 1)
	rdb, calls := counted(t, f.srv.Addr)
	f.nodes = append(f.nodes, freshReader(t, rdb, f.legacy))
	f.warm(t, aKey, otherKey)
	h := Hint{Accounts: []string{"acme", "globex"}}
	for i := range MaxHintIDs - 2 {
		h.Accounts = append(h.Accounts, fmt.Sprint("account-", i))
	}
	pipelines, scripts, start := calls("pipeline"), calls("eval")+calls("evalsha"), time.Now()
	if n, err := f.nodes[1].Changed(t.Context(), h); n != MaxHintIDs || err != nil {
		t.Fatalf("%d are marked, %v", n, err)
	}
	polls := 1 + time.Since(start).Seconds()/pollEvery.Seconds()
	if p, s := calls("pipeline")-pipelines, calls("eval")+calls("evalsha")-scripts; p > 1+polls || s > 2 {
		t.Errorf("%v pipelines, with %.1f polls among them, and %v calls", p, polls, s)
	}
	for _, l := range f.nodes {
		gone(t, l, aKey)
		gone(t, l, otherKey)
	}
}

// A write that Redis executes late does not make a list young.
func TestALateWriteIsAsOldAsItIs(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, otherKey)
	f.hold = make(chan struct{})
	filled := make(chan Result)
	go func() { filled <- mustGet(t, f.nodes[0], aKey) }()
	redistest.Eventually(t, "the fill has begun", func() bool { return f.calls.Load() == 2 })
	f.srv.Pause()
	close(f.hold)
	<-filled
	const late = 1200 * time.Millisecond
	time.Sleep(late) // Redis has the write, and has not read it
	f.srv.Resume()
	f.settled()
	if r := mustGet(t, f.nodes[1], aKey); r.Tier != TierRedis || r.Age < late {
		t.Errorf("from %q, at the age of %s", r.Tier, r.Age)
	}
}

func TestAUserWithTooFewRightsIsToldOfOnce(t *testing.T) {
	for name, missing := range map[string]string{"command": "-getrange", "command in a script": "-publish"} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			srv.Do("ACL", "SETUSER", "default", missing)
			var log testkit.Log
			rdb, err := redisclient.Open(relaxTimeouts(redisAt(srv.Addr)), redisclient.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = rdb.Close() })
			l := freshReader(t, rdb, &legacy{clock: newClock()})
			for n := range 10 {
				mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint(n)})
				settled(l)
				_, _ = l.Purge(t.Context(), Scope{Account: fmt.Sprint(n)}) // may be what is denied
			}
			if n := strings.Count(log.String(), "may not do what the gateway needs"); n != 1 || l.RedisState() != "ok" {
				t.Errorf("told %d times, Redis is %s:\n%s", n, l.RedisState(), log.String())
			}
		})
	}
}
