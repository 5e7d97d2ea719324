package redistier

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redisclient.Silence()
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
	return New(rdb, "iq", time.Hour), srv
}

// lease tells whether a flight with a token gets the lease of the list, where it has refused what seen
// says. It reads this list.
func (tier *Tier) lease(t *testing.T, token, seen string, list []byte) (won bool) {
	t.Helper()
	raw, won, err := tier.Lease(t.Context(), tier.Names(aList), token, time.Minute, 1000, seen)
	if err != nil || !bytes.Equal(raw, list) {
		t.Fatalf("%q, %v", raw, err)
	}
	return won
}

// One flight has the lease, and whoever has it next reads what it has stored.
func TestTheLeaseOfAList(t *testing.T) {
	tier, srv := open(t)
	n := tier.Names(aList)
	put := func(value []byte, token string) {
		t.Helper()
		if err := tier.Put(t.Context(), n, value, time.Minute, token); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := tier.Read(t.Context(), n, 1000); err != nil || len(raw) > 0 {
		t.Errorf("nothing is there: %q, %v", raw, err)
	}
	value, newer := bytes.Repeat([]byte("x"), 100), bytes.Repeat([]byte("y"), 100)
	if !tier.lease(t, "first", "", nil) || tier.lease(t, "second", "", nil) {
		t.Error("the first flight does not have the lease, or the second one has it, too")
	}
	put(value, "first")
	if raw, err := tier.Read(t.Context(), n, 1000); err != nil || !bytes.Equal(raw, value) {
		t.Errorf("read as %q, %v", raw, err)
	}
	if !tier.lease(t, "second", "", value) || tier.lease(t, "third", Seen(value), nil) {
		t.Error("a list that was refused does not give one flight the lease")
	}
	put(newer, "first") // whose lease has passed to the second one
	if tier.lease(t, "third", Seen(value), newer) {
		t.Error("another's lease has ended")
	}
	if err := tier.Release(t.Context(), n, "second"); err != nil || !tier.lease(t, "third", Seen(newer), nil) {
		t.Errorf("a lease that was released is not free: %v", err)
	}
	// A Redis without room costs the lease, and not the list.
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if err := tier.Release(t.Context(), n, "third"); err != nil {
		t.Fatal(err)
	}
	if raw, won, err := tier.Lease(t.Context(), n, "fourth", time.Minute, 1000, ""); err == nil || won || !bytes.Equal(raw, newer) {
		t.Errorf("%q, %t, %v", raw, won, err)
	}
	if err := tier.Put(t.Context(), n, value, time.Minute, "fourth"); err == nil {
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
	if !tier.lease(t, "second", "", nil) {
		t.Error("the lease is not free")
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
	srv.Do("ZADD", "iq:6:purges", fmt.Sprint(first), hard.member()) // a replica has become the master
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
	srv.Do("ZADD", "iq:6:purges", "17", "no purge")
	srv.Do("FLUSHALL")
	has(0, false, map[Purge]uint64{})
	again := make(0)
	has(0, true, map[Purge]uint64{began: again})
	srv.Do("ZADD", "iq:6:purges", "1000", began.member(), "1000", hard.member())
	last := make(0, other)
	has(1, true, map[Purge]uint64{other: last})
	if n := srv.Do("ZCARD", "iq:6:purges"); n != ":2" {
		t.Errorf("%s members, want the last purge and since when they are remembered", n)
	}
}

// A first call asks twice, for which there is no time where Redis is far away. The next one asks once.
func TestAFirstCallThatFailsHasReadTheClock(t *testing.T) {
	tier, srv := open(t)
	srv.Do("SET", "iq:6:purges", "no sorted set")
	if _, err := tier.PurgesSince(t.Context(), 0, time.Hour); err == nil {
		t.Fatal("there are purges")
	}
	srv.Do("DEL", "iq:6:purges")
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
	for len(all) < PerRead {
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
