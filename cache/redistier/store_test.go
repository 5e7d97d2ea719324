package redistier

import (
	"bytes"
	"errors"
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
	goleak.VerifyTestMain(m)
}

var aList = List{Kind: "buyer", Account: "acme", Fingerprint: "f"}

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
	return New(Options{Client: rdb, Prefix: "iq", EpochLife: time.Hour}), srv
}

// read reads the list, and takes the lease for n.
func (tier *Tier) read(t *testing.T, n Names, seen string) Reading {
	t.Helper()
	r, err := tier.Read(t.Context(), n, 1000, true, seen)
	if err != nil || time.Since(r.Time).Abs() > time.Minute {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

// One call reads the list, the time and the epoch, and takes the lease where the list is
// not there, or is the one that the caller has refused.
func TestReadTakesTheLeaseOnlyWhereItIsWanted(t *testing.T) {
	tier, srv := open(t)
	first, second := tier.Names(aList), tier.Names(aList)
	if r, err := tier.Read(t.Context(), first, 1000, false, ""); err != nil || r.Raw != nil || r.Holder != "" {
		t.Errorf("nothing was wanted: %+v, %v", r, err)
	}
	for _, n := range []Names{first, second} {
		if r := tier.read(t, n, ""); r.Holder != first.Token {
			t.Errorf("the holder is %q", r.Holder)
		}
	}
	value := bytes.Repeat([]byte("x"), 100)
	if err := tier.Put(t.Context(), first, value, time.Minute, true); err != nil {
		t.Fatal(err)
	}
	for _, seen := range []string{"", "another"} {
		if r := tier.read(t, second, seen); !bytes.Equal(r.Raw, value) || r.Holder != "" {
			t.Errorf("a list that is there costs a lease: %+v", r)
		}
	}
	seen := string(value[:seenBytes])
	if r := tier.read(t, second, seen); r.Seen() != seen || r.Holder != second.Token {
		t.Errorf("a refused list gives no lease: %+v", r)
	}
	// A flight whose lease has passed to another one neither renews nor ends it.
	if held, err := tier.Renew(t.Context(), first); held || err != nil {
		t.Errorf("renewed: %t, %v", held, err)
	}
	if err := tier.Put(t.Context(), first, value, time.Minute, true); err != nil {
		t.Fatal(err)
	}
	if r := tier.read(t, first, seen); r.Holder != second.Token {
		t.Errorf("another's lease is ended: %+v", r)
	}
	// A Redis without room costs the lease, and not the list.
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if err := tier.Release(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if r := tier.read(t, first, seen); !bytes.Equal(r.Raw, value) || r.Holder != "" {
		t.Errorf("full: %+v", r)
	}
	if err := tier.Put(t.Context(), first, value, time.Minute, true); err == nil {
		t.Error("a full Redis has taken a list")
	}
}

// A list that a busy Redis does not take leaves no lease, for which other nodes would wait.
func TestABusyRedisKeepsNoLease(t *testing.T) {
	tier, _ := open(t)
	n := tier.Names(aList)
	tier.read(t, n, "")
	woken, stop := tier.Await(n)
	defer stop()
	for range maxWrites {
		tier.writes <- struct{}{}
	}
	listening := make(chan struct{})
	go func() { defer close(listening); tier.Listen(t.Context(), func(Notice) {}) }()
	t.Cleanup(func() { <-listening })
	redistest.Eventually(t, "messages arrive", tier.Connected)
	if err := tier.Put(t.Context(), n, []byte("x"), time.Minute, true); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Error("who waits is not woken")
	}
	other := tier.Names(aList)
	if r := tier.read(t, other, ""); r.Holder != other.Token {
		t.Errorf("the lease is still held: %+v", r)
	}
}

// An epoch only rises, from whatever Redis or the node knows, and a soft one leaves the
// floor where the last purge was.
func TestEpochs(t *testing.T) {
	tier, srv := open(t)
	raise := func(known uint64, soft bool) Epoch {
		t.Helper()
		one := []Change{{Account: Hash("acme"), Epoch: Epoch{Last: known}}}
		if err := tier.Raise(t.Context(), one, soft); err != nil || one[0].Last <= known {
			t.Fatalf("%+v, %v", one, err)
		}
		return one[0].Epoch
	}
	purge, soft := raise(0, false), raise(0, true)
	if purge.Floor != purge.Last || soft.Floor != purge.Last || soft.Last <= purge.Last {
		t.Errorf("a purge %+v, then a hint %+v", purge, soft)
	}
	srv.Do("FLUSHALL")
	ahead := uint64(time.Now().Add(time.Hour).UnixMicro()) // of a node that knows a later one
	if e := raise(ahead, true); e.Floor != 0 {
		t.Errorf("after a loss %+v", e)
	}
	back := Change{Account: Hash("acme"), Epoch: Epoch{Last: ahead + 10, Floor: soft.Floor, Since: time.Minute}}
	for _, want := range []int{1, 0} {
		if lost, err := tier.Restore(t.Context(), []Change{back}); err != nil || len(lost) != want {
			t.Errorf("%d had been lost, want %d; %v", len(lost), want, err)
		}
	}
	e := tier.read(t, tier.Names(aList), "").Epoch
	if e.Last != back.Last || e.Floor != back.Floor || e.Since < time.Minute || e.Since > 2*time.Minute {
		t.Errorf("restored as %+v", e)
	}
}

func FuzzNotice(f *testing.F) {
	f.Add("1 2; kind:buyer 5 5 0; h-W1Qr2aXvdywqTVQ7d__w 7 5 1000")
	f.Add("1 2")
	f.Add("1 2; buyer 5 6 0")
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseNotice(s)
		if !ok {
			return
		}
		for _, c := range n.Changes {
			if c.Floor > c.Last || c.Since < 0 || strings.Contains(c.Kind+c.Account, " ") {
				t.Fatalf("%q is taken as %+v", s, c)
			}
		}
	})
}
