package redistier

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m, redistest.Reconnecting())
}

var aList = ListID{Kind: "buyer", Account: "acme", Fingerprint: "f"}

func open(t *testing.T) (*Tier, *redistest.Server) {
	t.Helper()
	srv := redistest.Start(t)
	c := redisclient.DefaultConfig()
	c.Addrs, c.Timeout = []string{srv.Addr}, 4*time.Second
	rdb, err := redisclient.Open(c, redisclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return New(Options{Client: rdb, Prefix: "iq", PurgeLife: time.Hour}), srv
}

// lease is who has the lease of the list after a flight with a token wants it, which has refused
// what is there where that is what seen says. There is this list.
func (tier *Tier) lease(t *testing.T, token, seen string, list []byte) (holder string) {
	t.Helper()
	raw, holder, err := tier.Lease(t.Context(), tier.Names(aList), token, 1000, seen)
	if err != nil || !bytes.Equal(raw, list) {
		t.Fatalf("%q, %q, %v", raw, holder, err)
	}
	return holder
}

// The lease is for who knows what is there. Whoever stores or gives up wakes those who wait, and
// tells nobody where nobody does.
func TestTheLeaseOfAList(t *testing.T) {
	tier, srv := open(t)
	n := tier.Names(aList)
	listening := make(chan struct{})
	go func() { defer close(listening); tier.Listen(t.Context()) }()
	t.Cleanup(func() { <-listening })
	redistest.Eventually(t, "messages arrive", tier.Connected)
	messages := func() string {
		_, stats, _ := strings.Cut(srv.Do("INFO", "commandstats"), "cmdstat_publish:calls=")
		number, _, _ := strings.Cut(stats, ",")
		return number
	}
	put := func(value []byte, token string) {
		t.Helper()
		if err := tier.Put(t.Context(), n, value, time.Minute, token); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := tier.Read(t.Context(), n, 1000); err != nil || len(raw) > 0 {
		t.Errorf("nothing is there: %q, %v", raw, err)
	}
	value := bytes.Repeat([]byte("x"), 100)
	if holder := tier.lease(t, "first", "", nil); holder != "first" {
		t.Errorf("the holder is %q", holder)
	}
	put(value, "first")
	if n := messages(); n != "" {
		t.Errorf("%s messages, and nobody waits", n)
	}
	if raw, err := tier.Read(t.Context(), n, 1000); err != nil || !bytes.Equal(raw, value) {
		t.Errorf("read as %q, %v", raw, err)
	}
	for _, seen := range []string{"", "another"} {
		if holder := tier.lease(t, "second", seen, value); holder != "" {
			t.Errorf("a list that is there gives %q a lease", holder)
		}
	}
	seen := Seen(value)
	for _, token := range []string{"second", "third", "fourth"} {
		woken, stop := tier.Await(n)
		if holder := tier.lease(t, token, seen, nil); holder != "second" {
			t.Errorf("after a refused list %q has the lease", holder)
		}
		select {
		case <-woken:
			t.Error("woken too early")
		default:
			stop()
		}
	}
	if held, err := tier.Renew(t.Context(), n, "second"); !held || err != nil {
		t.Errorf("renewed while others wait: %t, %v", held, err)
	}
	// A flight whose lease has passed to another one neither renews nor ends it.
	if held, err := tier.Renew(t.Context(), n, "first"); held || err != nil {
		t.Errorf("renewed: %t, %v", held, err)
	}
	put(value, "first")
	if holder := tier.lease(t, "third", seen, nil); holder != "second" {
		t.Errorf("another's lease is ended, %q has it", holder)
	}
	woken, stop := tier.Await(n)
	defer stop()
	// A Redis without room costs the lease, and not the list.
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if err := tier.Release(t.Context(), n, "second"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Error("who waits is not woken")
	}
	if holder := tier.lease(t, "third", seen, nil); holder != "" {
		t.Errorf("%q has a lease for which there is no room", holder)
	}
	if err := tier.Put(t.Context(), n, value, time.Minute, "third"); err == nil {
		t.Error("a full Redis has taken a list")
	}
}

// A list that a busy Redis does not take leaves no lease, for which other nodes would wait.
func TestABusyRedisKeepsNoLease(t *testing.T) {
	tier, _ := open(t)
	n := tier.Names(aList)
	tier.lease(t, "first", "", nil)
	for range maxWrites {
		tier.writes <- struct{}{}
	}
	if err := tier.Put(t.Context(), n, []byte("x"), time.Minute, "first"); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if holder := tier.lease(t, "second", "", nil); holder != "second" {
		t.Errorf("%q has the lease", holder)
	}
}

// The moment of a purge is on the clock of Redis, later than all there, and not before that which is
// asked for. Only what is lost is given a new one.
func TestPurges(t *testing.T) {
	tier, srv := open(t)
	hard, soft, other := Purge{Hash("acme"), false}, Purge{Hash("acme"), true}, Purge{"buyer", false}
	began := Purge{All, true}
	make := func(atLeast uint64, all ...Purge) uint64 {
		t.Helper()
		moment, err := tier.Purge(t.Context(), all, atLeast)
		if err != nil || moment < atLeast {
			t.Fatalf("%d, not before %d, %v", moment, atLeast, err)
		}
		return moment
	}
	has := func(from uint64, remembered bool, want map[Purge]uint64) {
		t.Helper()
		found, err := tier.PurgesSince(t.Context(), from, time.Hour)
		if err != nil || !maps.Equal(found.Moments, want) || found.Remembered != remembered || found.More {
			t.Errorf("there is %+v, %v; want %v, remembered %t", found, err, want, remembered)
		}
	}
	if early, late := tier.Now(); !early.IsZero() || !late.IsZero() {
		t.Error("the clock is known before it was read")
	}
	has(0, false, map[Purge]uint64{})
	if early, late := tier.Now(); early.After(late) || time.Since(early).Abs() > time.Minute {
		t.Errorf("the clock says %v to %v", early, late)
	}
	first := make(0, hard, other)
	second := make(0, soft)
	third := make(0, hard)
	if second <= first || third <= second {
		t.Errorf("moments %d, %d, %d", first, second, third)
	}
	all := map[Purge]uint64{began: first, hard: third, soft: second, other: first}
	has(0, true, all)
	has(second, true, map[Purge]uint64{hard: third, soft: second})
	srv.Do("ZADD", "iq:5:purges", fmt.Sprint(first), hard.member()) // a replica has become the master
	if err := tier.Repeat(t.Context(), map[Purge]uint64{hard: third, soft: second}); err != nil {
		t.Fatal(err)
	}
	found, err := tier.PurgesSince(t.Context(), 0, time.Hour)
	if fourth := found.Moments[hard]; err != nil || fourth <= third || found.Newest != fourth || found.Moments[soft] != second {
		t.Errorf("%+v after %v, %v", found, all, err)
	}
	ahead := make(found.Newest+uint64(time.Hour.Microseconds()), other)
	if next := make(0, soft); next <= ahead {
		t.Errorf("%d after %d", next, ahead)
	}
	srv.Do("ZADD", "iq:5:purges", "17", "no purge")
	srv.Do("FLUSHALL")
	has(0, false, map[Purge]uint64{})
	again := make(0)
	has(0, true, map[Purge]uint64{began: again})
	srv.Do("ZADD", "iq:5:purges", "1000", began.member(), "1000", hard.member())
	last := make(0, other)
	has(1, true, map[Purge]uint64{other: last})
	if n := srv.Do("ZCARD", "iq:5:purges"); n != ":2" {
		t.Errorf("%s members, want the last purge and since when they are remembered", n)
	}
}

// A first call asks twice, for which there is no time where Redis is far away. The next one asks once.
func TestAFirstCallThatFailsHasReadTheClock(t *testing.T) {
	tier, srv := open(t)
	srv.Do("SET", "iq:5:purges", "no sorted set")
	if _, err := tier.PurgesSince(t.Context(), 0, time.Hour); err == nil {
		t.Fatal("there are purges")
	}
	srv.Do("DEL", "iq:5:purges")
	srv.Do("CONFIG", "RESETSTAT")
	_, err := tier.PurgesSince(t.Context(), 0, time.Hour)
	if stats := srv.Do("INFO", "commandstats"); err != nil || !strings.Contains(stats, "cmdstat_time:calls=1,") {
		t.Errorf("%v, %s", err, stats)
	}
}

// More than one call reads.
func TestManyPurges(t *testing.T) {
	tier, _ := open(t)
	all, found := map[Purge]bool{}, map[Purge]bool{}
	for len(all) < perRead {
		var some []Purge
		for range 1000 {
			p := Purge{fmt.Sprint("account-", len(all)), len(all)%2 == 0}
			some, all[p] = append(some, p), true
		}
		if _, err := tier.Purge(t.Context(), some, 0); err != nil {
			t.Fatal(err)
		}
	}
	all[Purge{All, true}] = true
	n, err := Purges{More: true}, error(nil)
	for polls := 0; n.More && polls < 3; polls++ {
		if n, err = tier.PurgesSince(t.Context(), n.Newest, time.Hour); err != nil {
			t.Fatal(err)
		}
		for p := range n.Moments {
			found[p] = true
		}
	}
	if n.More || !maps.Equal(found, all) {
		t.Errorf("%d of %d, more %t", len(found), len(all), n.More)
	}
}
