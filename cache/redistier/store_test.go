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
	return New(Options{Client: rdb, Prefix: "iq", ChangeLife: time.Hour}), srv
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
	go func() { defer close(listening); tier.Listen(t.Context(), func() {}) }()
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

// An epoch is above all that Redis or the node knows. What is lost is given back as it was, and what
// is there is not lowered.
func TestEpochs(t *testing.T) {
	tier, srv := open(t)
	purge, hint, other := Change{Hash("acme"), true}, Change{Hash("acme"), false}, Change{"buyer", true}
	loses := false // the next announcement finds that Redis has lost some
	announce := func(known uint64, all ...Change) uint64 {
		t.Helper()
		epoch, lost, err := tier.Announce(t.Context(), all, known)
		if err != nil || epoch <= known || lost != loses {
			t.Fatalf("%d after %d, lost %t, %v", epoch, known, lost, err)
		}
		loses = false
		return epoch
	}
	has := func(from, known uint64, want Epochs, last uint64, lost, back bool) {
		t.Helper()
		n, err := tier.Poll(t.Context(), from, known, time.Hour)
		if err != nil || !maps.Equal(n.Changes, want) || last > 0 && n.Last != last || n.Lost != lost || n.Back != back || n.More {
			t.Errorf("there is %+v, %v; want %v up to %d, lost %t, back %t", n, err, want, last, lost, back)
		}
	}
	if early, late := tier.Now(); !early.IsZero() || !late.IsZero() {
		t.Error("the clock is known before it was read")
	}
	has(0, 0, Epochs{}, 0, false, false)
	if early, late := tier.Now(); early.After(late) || time.Since(early).Abs() > time.Minute {
		t.Errorf("the clock says %v to %v", early, late)
	}
	first := announce(0, purge, other)
	second := announce(0, hint)
	third := announce(0, purge)
	if second <= first || third <= second {
		t.Errorf("epochs %d, %d, %d", first, second, third)
	}
	all := Epochs{purge: third, hint: second, other: first}
	has(0, 0, all, third, false, false)
	has(second, third, Epochs{purge: third, hint: second}, third, false, false)
	// A master that has not seen the last one is in use, and gets another.
	srv.Do("ZADD", "iq:4:changes", fmt.Sprint(first), purge.member())
	srv.Do("ZREM", "iq:4:epochs:{iq:4:changes}", fmt.Sprint(third))
	loses = true
	fourth := announce(third, hint)
	has(third, third, Epochs{hint: fourth}, fourth, true, false)
	has(second, second, Epochs{hint: fourth}, fourth, false, false) // who has not known it has lost nothing
	if n, err := tier.Restore(t.Context(), Epochs{purge: third}, fourth); n != 1 || err != nil {
		t.Errorf("%d had been lost, %v", n, err)
	}
	has(fourth, fourth, Epochs{hint: fourth}, 0, false, true) // and learns of it
	all = Epochs{purge: third, hint: fourth, other: first}
	has(0, third, all, 0, true, true)
	for key, before := range map[string]uint64{"iq:4:epochs:{iq:4:changes}": fourth, "iq:4:changes": fourth} {
		srv.Do("DEL", key) // evicted
		has(0, before, map[string]Epochs{"iq:4:changes": {}, "iq:4:epochs:{iq:4:changes}": all}[key], 0, true, key == "iq:4:epochs:{iq:4:changes}")
		for _, lost := range []int{map[string]int{"iq:4:changes": 3}[key], 0} {
			if n, err := tier.Restore(t.Context(), all, before); err != nil || n != lost {
				t.Errorf("%d had been lost, want %d; %v", n, lost, err)
			}
		}
		has(0, before, all, 0, false, true)
	}
	srv.Do("FLUSHALL")
	loses = true
	ahead := announce(fourth+uint64(time.Hour.Microseconds()), other) // the node knows a later one
	for _, lost := range []int{2, 0} {
		if n, err := tier.Restore(t.Context(), all, fourth); err != nil || n != lost {
			t.Errorf("%d had been lost, want %d; %v", n, lost, err)
		}
	}
	all[other] = ahead
	has(0, fourth, all, 0, false, true)
	for _, key := range []string{"iq:4:changes", "iq:4:epochs:{iq:4:changes}"} {
		if ttl := srv.Do("PTTL", key); ttl == ":-1" {
			t.Errorf("%s has no end", key)
		}
	}
	srv.Do("ZADD", "iq:4:changes", "17", "no change")
	has(0, fourth, all, 0, false, true)
}

// A first Poll asks twice, for which there is no time where Redis is far away. The next one asks once.
func TestAFirstPollThatFailsHasReadTheClock(t *testing.T) {
	tier, srv := open(t)
	srv.Do("SET", "iq:4:changes", "no sorted set")
	if _, err := tier.Poll(t.Context(), 0, 0, time.Hour); err == nil {
		t.Fatal("there are changes")
	}
	srv.Do("DEL", "iq:4:changes")
	srv.Do("CONFIG", "RESETSTAT")
	_, err := tier.Poll(t.Context(), 0, 0, time.Hour)
	if stats := srv.Do("INFO", "commandstats"); err != nil || !strings.Contains(stats, "cmdstat_time:calls=1,") {
		t.Errorf("%v, %s", err, stats)
	}
}

// More than one poll reads.
func TestManyChanges(t *testing.T) {
	tier, _ := open(t)
	all := Epochs{}
	epoch := uint64(time.Now().UnixMicro())
	for i := range perPoll + 10 {
		all[Change{fmt.Sprint("account-", i), i%2 == 0}] = epoch + uint64(i/100)
	}
	if n, err := tier.Restore(t.Context(), all, epoch); err != nil || n != len(all) {
		t.Fatalf("%d of %d, %v", n, len(all), err)
	}
	found := Epochs{}
	n, err := News{More: true}, error(nil)
	for polls := 0; n.More && polls < 3; polls++ {
		if n, err = tier.Poll(t.Context(), n.Last, 0, time.Hour); err != nil {
			t.Fatal(err)
		}
		maps.Copy(found, n.Changes)
	}
	if n.More || !maps.Equal(found, all) {
		t.Errorf("%d of %d, more %t", len(found), len(all), n.More)
	}
}
