package keysredis

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Reconnecting()) }

// fleet is a node with its key store in a Redis, and the editor of its records.
type fleet struct {
	*Store
	t      *testing.T
	server *redistest.Server
	client *redisclient.Client
	editor *auth.Editor
}

// open gives a client that waits for its servers, however busy the machine is.
func open(t *testing.T, addrs ...string) *redisclient.Client {
	t.Helper()
	client, err := redisclient.Open(redisclient.Config{Addrs: addrs, Timeout: 10 * time.Second}, redisclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newFleet starts a Redis with the keys k1 and k2 of a paying account, and a node that has heard of
// them. Each of the three is in another shard; k5 is in that of the account.
func newFleet(t *testing.T, pollEvery time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, server: redistest.Start(t)}
	f.client = open(t, f.server.Addr)
	f.editor = NewEditor(f.client, "iq", auth.Hasher{})
	f.Store = newStore(f.client, "iq", auth.Hasher{}, 30*time.Second, auth.Options{}, pollEvery)
	t.Cleanup(f.Close)
	f.refuses("before anything is stored", "k1")
	f.must(f.editor.Add(t.Context(), testRecord("k1"), &auth.Account{APIAccess: auth.AccessPaid}))
	f.must(f.editor.Add(t.Context(), testRecord("k2"), nil))
	f.heard()
	return f
}

// still ends the node's watchers: the test does their work from here on.
func (f *fleet) still() {
	f.stop()
	f.wg.Wait()
}

func (f *fleet) must(errs ...error) {
	f.t.Helper()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
}

// heard waits until the node knows the versions that are in Redis.
func (f *fleet) heard() {
	f.t.Helper()
	versions, err := everyShard().read(f.t.Context(), f.client, f.layout)
	f.must(err)
	sum := 0.0
	for _, text := range versions {
		v, err := strconv.ParseFloat(text, 64)
		f.must(err)
		sum += v
	}
	redistest.Eventually(f.t, "the node hears of the change", func() bool { return testutil.ToFloat64(f.taken) == sum })
}

// shard is the one of a key.
func (f *fleet) shard(key string) string { return f.layout.hash(shardOf(auth.Hasher{}.Hash(key))) }

// write changes the record of a key without telling anybody.
func (f *fleet) write(id, text string) {
	f.t.Helper()
	f.must(f.client.HSet(f.t.Context(), f.shard(id), "sha256:"+hexOf(id), text).Err())
}

func testRecord(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme"}
}

// hexOf is the hexadecimal SHA-256 of a key.
func hexOf(key string) string { return auth.Hasher{}.Hash(key).Hex() }

func (f *fleet) find(key string) (*auth.Grant, error) {
	return f.Find(f.t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key)})
}

// refuses wants an error that says nothing about the key.
func (f *fleet) refuses(what, key string) {
	f.t.Helper()
	if g, err := f.find(key); err == nil || errors.Is(err, auth.ErrUnknownKey) || strings.Contains(err.Error(), hexOf(key)[:8]) {
		f.t.Errorf("%s: %+v, %v", what, g, err)
	}
}

// finds wants the grant of a key, revoked or not.
func (f *fleet) finds(what, key string, revoked bool) {
	f.t.Helper()
	if g, err := f.find(key); err != nil || g.Revoked != revoked || !g.Principal.PaidAccess {
		f.t.Errorf("%s: %+v, %v", what, g, err)
	}
}

// recalls tells whether a key is good without a look-up.
func (f *fleet) recalls(key string) bool {
	g, _ := f.Recall(auth.Hasher{}.Hash(key))
	return g != nil
}

// raise raises the version of the shard of a key, and tells nobody.
func (f *fleet) raise(key string) {
	f.t.Helper()
	f.must(f.client.HIncrBy(f.t.Context(), f.shard(key), fieldVersion, 1).Err())
}

// A revocation whose message is lost is noticed by the version at the next poll. A version that
// is the same, cannot be read, is away or is lost takes no key away, nor does that of another shard;
// one of before does.
func TestPoll(t *testing.T) {
	f := newFleet(t, 10*time.Millisecond)
	f.finds("at first", "k1", false)
	f.write("k1", strings.Replace(encode(testRecord("k1")), `"revoked":false`, `"revoked":true`, 1))
	f.raise("k1")
	redistest.Eventually(t, "the version is read", func() bool {
		g, err := f.find("k1")
		return err == nil && g.Revoked
	})

	f.still()
	poll := func() { f.Store.poll(t.Context()) }
	f.finds("at first", "k2", false)
	f.write("k2", "cannot be read")
	poll()
	f.finds("the same version", "k2", false)
	f.raise("k1")
	poll()
	f.finds("another shard", "k2", false)
	f.must(f.client.HSet(t.Context(), f.shard("k2"), fieldVersion, "garbage").Err())
	poll()
	f.finds("a version that is no number", "k2", false)
	f.server.Kill()
	poll()
	f.finds("Redis is away", "k2", false)
	f.refuses("a key that is not stored", "k3")
	if !f.Away() {
		t.Error("nobody is told that Redis is away")
	}
	f.server.Restart()
	redistest.Eventually(t, "Redis is asked again", func() bool { poll(); return !f.Away() })
	f.finds("Redis has lost its data", "k2", false)
	f.refuses("another key then", "k3")
	f.must(f.client.HSet(t.Context(), f.shard("k2"), fieldVersion, 0).Err())
	if poll(); f.recalls("k2") {
		t.Error("a key is good that is not in a Redis that has gone back in time")
	}
	f.Close()
	f.refuses("after the end", "k2")
}

// A poll that overtakes messages waits a little for them, so that they take single keys away and
// not all. Without a connection for messages it does not.
func TestAPollWaitsForMessages(t *testing.T) {
	for name, tt := range map[string]struct {
		hears        bool
		comes, waits time.Duration
	}{
		"a message comes": {true, 9 * time.Millisecond, 10 * time.Millisecond}, "it is late": {true, time.Second, messageDelay}, "it was lost": {false, time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Store{memory: auth.NewMemory()}
			s.memory.SetVersion(3, 5)
			s.hears.Store(tt.hears)
			time.AfterFunc(tt.comes, func() { s.memory.SetVersion(3, 6) })
			begin := time.Now()
			s.awaitMessages(map[int]int64{3: 6, 4: 1})
			if took := time.Since(begin); took != tt.waits {
				t.Errorf("%s: waits for %v, want %v", name, took, tt.waits)
			}
		})
	}
	f := newFleet(t, time.Hour)
	f.still()
	f.hears.Store(true)
	redistest.Eventually(t, "a message is faster than the end of a poll", func() bool {
		f.finds("before", "k1", false)
		v, _ := f.memory.Version(6)
		f.raise("k1")
		polled := make(chan struct{})
		go func() { f.Store.poll(t.Context()); close(polled) }()
		time.Sleep(time.Millisecond)
		f.apply(fmt.Sprintf("6 %d key %s", v+1, hexOf("k3")))
		<-polled
		return f.recalls("k1")
	})
}

// A new connection for messages is no reason to forget: the version says that nothing was missed,
// and the keys may be in a part of Redis that is away.
func TestANewSubscriptionForgetsNothing(t *testing.T) {
	f := newFleet(t, time.Hour)
	f.finds("at first", "k1", false)
	f.write("k1", "cannot be read")
	if got := f.server.Do("CONFIG", "RESETSTAT"); got != "+OK" {
		t.Fatal(got)
	}
	if n, err := f.client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result(); err != nil || n == 0 {
		t.Fatalf("%d connections ended, %v", n, err)
	}
	redistest.Eventually(t, "the node listens again and has read the version", func() bool {
		return strings.Contains(f.server.Do("INFO", "commandstats"), "cmdstat_hmget:")
	})
	f.must(f.editor.Revoke(t.Context(), "k2"))
	f.heard()
	f.finds("another key has changed", "k1", false)
	f.finds("the changed key", "k2", true)
}

// A Redis that evicts, fails over or comes back empty may lose whole shards: what is not there is
// believed only of a shard that is. Nobody is refused for that, and no command goes on as if the
// rest were all.
func TestLostShards(t *testing.T) {
	const good, unknown, unavailable = "good", "unknown", "unavailable"
	for _, tt := range []struct {
		gone               string // digits of shards: 6 has k1, 0 has k2, 8 the account and k5, 2 has k3
		k1, k2, k3, k5     string // what they get; the last two never were
		add, revoke, lists bool   // what succeeds: keys new of k5, keys revoke k1, keys list
	}{
		{"", good, good, unknown, unknown, true, true, true},
		{"6", unavailable, good, unknown, unknown, false, false, false},
		{"0", good, unavailable, unknown, unknown, false, true, false},
		{"8", unavailable, unavailable, unknown, unavailable, false, true, false},
		{"2", good, good, unavailable, unknown, false, true, false},
		{digits, unavailable, unavailable, unavailable, unavailable, true, false, true}, // as a new store
	} {
		f := newFleet(t, time.Hour)
		for _, digit := range tt.gone {
			f.must(f.client.Del(t.Context(), fmt.Sprintf("iq:{auth.%c}", digit)).Err())
		}
		for key, want := range map[string]string{"k1": tt.k1, "k2": tt.k2, "k3": tt.k3, "k5": tt.k5} {
			got := good
			if _, err := f.find(key); errors.Is(err, auth.ErrUnknownKey) {
				got = unknown
			} else if err != nil {
				got = unavailable
			}
			if got != want {
				t.Errorf("without %q: %s is %s, want %s", tt.gone, key, got, want)
			}
		}
		for id, there := range map[string]bool{"k1": tt.k1 == good || tt.gone == "8", "k3": false} {
			_, err := f.DigestOf(t.Context(), id) // for explain
			if lost := errors.Is(err, errLost); (err == nil) != there || !there && lost != (tt.gone != "") {
				t.Errorf("without %q: the id %s: %v", tt.gone, id, err)
			}
		}
		err := f.editor.Keys(t.Context(), func(auth.Listing) error { return nil })
		if (err == nil) != tt.lists {
			t.Errorf("without %q: keys list: %v", tt.gone, err)
		}
		if err := f.editor.Revoke(t.Context(), "k1"); (err == nil) != tt.revoke {
			t.Errorf("without %q: keys revoke: %v", tt.gone, err)
		}
		if err := f.editor.Add(t.Context(), testRecord("k5"), &auth.Account{APIAccess: auth.AccessPaid}); (err == nil) != tt.add {
			t.Errorf("without %q: keys new: %v", tt.gone, err)
		}
		if f.ForgetAll(); !tt.add {
			if _, err := f.find("k2"); errors.Is(err, auth.ErrUnknownKey) {
				t.Errorf("without %q: after keys new another key is unknown", tt.gone)
			}
		}
	}
}

// Keys in the layout of before are not read, which nodes and commands say; what docs/redis.md has
// for it brings them over.
func TestOlderLayout(t *testing.T) {
	f := &fleet{t: t, server: redistest.Start(t)}
	f.client = open(t, f.server.Addr)
	f.editor = NewEditor(f.client, "iq", auth.Hasher{})
	for _, id := range []string{"k1", "k2"} {
		f.must(f.client.HSet(t.Context(), "iq:{auth}:sha256", hexOf(id), encode(testRecord(id))).Err(),
			f.client.HSet(t.Context(), "iq:{auth}:ids", id, hexOf(id)).Err())
	}
	f.must(f.client.HSet(t.Context(), "iq:{auth}:accounts", "acme", `{"id":"acme","api_access":"paid"}`).Err(),
		f.client.Set(t.Context(), "iq:{auth}:version", 7, 0).Err())
	var log testkit.Log
	f.Store = New(f.client, "iq", auth.Hasher{}, time.Minute, auth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(f.Close)
	f.refuses("before", "k1")
	if err := f.editor.Add(t.Context(), testRecord("k3"), &auth.Account{APIAccess: auth.AccessPaid}); !errors.Is(err, errOlder) {
		t.Errorf("keys new: %v", err)
	}
	redistest.Eventually(t, "the node says so", func() bool { return strings.Contains(log.String(), errOlder.Error()) })

	page, err := os.ReadFile("../../docs/redis.md")
	f.must(err)
	_, script, _ := strings.Cut(string(page), "## An older layout")
	_, script, _ = strings.Cut(script, "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(script, "redis-cli", "redis-cli -p "+f.server.Port())).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.finds("brought over", "k1", false)
	f.must(f.editor.Revoke(t.Context(), "k2"), f.editor.Add(t.Context(), testRecord("k3"), nil))
	redistest.Eventually(t, "changes are heard of", func() bool {
		g, err := f.find("k2")
		return err == nil && g.Revoked
	})
}

// The masters of a Cluster share the keys: without one of them the keys of the others go on, and
// are changed and heard of.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	client := open(t, cluster.Addrs()...)
	editor := NewEditor(client, "iq", auth.Hasher{})
	s := newStore(client, "iq", auth.Hasher{}, time.Minute, auth.Options{}, 20*time.Millisecond)
	t.Cleanup(s.Close)
	state := func(id string) string {
		g, err := s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(id)})
		switch {
		case err != nil:
			return "unavailable"
		case g.Revoked:
			return "revoked"
		}
		return "good"
	}
	of := map[string][]string{} // the keys of each master
	for i := range 60 {
		id := fmt.Sprint("key", i)
		if err := editor.Add(t.Context(), testRecord(id), &auth.Account{APIAccess: auth.AccessPaid}); err != nil {
			t.Fatal(err)
		}
		slot := client.ClusterKeySlot(t.Context(), (&fleet{Store: s}).shard(id)).Val()
		master := cluster.Masters[slot*3/16384].Addr
		of[master] = append(of[master], id)
	}
	account := client.ClusterKeySlot(t.Context(), s.layout.hash(shardOfAccount("acme"))).Val() * 3 / 16384
	lost := (account + 1) % 3
	for i, master := range cluster.Masters {
		if n := len(of[master.Addr]); n < 60/6 {
			t.Errorf("master %d has %d of 60 keys", i, n)
		}
	}
	cluster.Masters[lost].Kill()
	for i, master := range cluster.Masters {
		want := "good"
		if i == int(lost) {
			want = "unavailable"
		}
		if got := state(of[master.Addr][0]); got != want {
			t.Errorf("a key of master %d, without master %d: %s", i, lost, got)
		}
	}
	id := of[cluster.Masters[account].Addr][1]
	state(id)
	text := strings.Replace(encode(testRecord(id)), `"revoked":false`, `"revoked":true`, 1)
	key := s.layout.key(auth.Hasher{}.Hash(id))
	if err := errors.Join(client.HSet(t.Context(), s.layout.hash(key.shard), key.field, text).Err(),
		client.HIncrBy(t.Context(), s.layout.hash(key.shard), fieldVersion, 1).Err()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "a revocation without a message is read beside a master that is away", func() bool { return state(id) == "revoked" })
}

// The operator is told of a Redis that may drop keys, where the node may read that.
func TestEvictionPolicyIsTold(t *testing.T) {
	server := redistest.Start(t)
	for policy, told := range map[string]bool{"noeviction": false, "volatile-lru": false, "allkeys-lru": true, "allkeys-random": true} {
		if got := server.Do("CONFIG", "SET", "maxmemory-policy", policy); got != "+OK" {
			t.Fatal(got)
		}
		var log testkit.Log
		s := New(open(t, server.Addr), "iq", auth.Hasher{}, time.Minute, auth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		t.Cleanup(s.Close)
		s.warn(t.Context())
		if got := strings.Contains(log.String(), policy) && strings.Contains(log.String(), "noeviction"); got != told {
			t.Errorf("%s: the log says %s", policy, log.String())
		}
	}
}

// Messages name what has changed. What is not understood, or does not follow the last version,
// makes a node forget all.
func TestMessages(t *testing.T) {
	f := newFleet(t, time.Hour)
	f.still()
	key := "key " + hexOf("k1")
	for message, want := range map[string]struct {
		cause string // empty: nothing is dropped
		after int64
	}{
		"6 5 " + key: {causeMessage, 5}, "6 5 account acme": {causeMessage, 5},
		"6 5 " + key + " " + key: {causeMessage, 5}, "6 5 " + key + " account acme": {causeMessage, 5},
		"6 4 " + key: {"", 4}, // late
		"6 6 " + key: {causeGap, 6}, "6 5 " + key + " account": {causeGap, 5}, "6 5 plan pro": {causeGap, 5}, "6 5 key abc": {causeGap, 5},
		"6 5 account ": {causeGap, 5}, "6 5": {causeGap, 5}, "hello": {causeGap, 4}, "": {causeGap, 4}, "6 -1 " + key: {causeGap, 4},
		"66 5 " + key: {causeGap, 4}, "g 5 " + key: {causeGap, 4}, "8 9 plan pro": {causeGap, 4}, // the shard of the account
	} {
		for n := range shards {
			f.memory.SetVersion(n, 4)
		}
		f.finds("before", "k1", false)
		f.finds("before", "k2", false)
		before := map[string]float64{}
		for _, cause := range []string{causeMessage, causeGap} {
			before[cause] = testutil.ToFloat64(f.dropped.WithLabelValues(cause))
		}
		f.apply(message)
		recalled := f.recalls("k1")
		if v, _ := f.memory.Version(6); v != want.after || recalled != (want.cause == "") {
			t.Errorf("%q: version %d, want %d; recalled %t", message, v, want.after, recalled)
		}
		if recalled := f.recalls("k2"); recalled != (strings.HasPrefix(message, "6 ") && !strings.Contains(message, "acme") && want.after != 4 || want.cause == "") {
			t.Errorf("%q: another key is recalled: %t", message, recalled)
		}
		for cause, n := range before {
			if got := testutil.ToFloat64(f.dropped.WithLabelValues(cause)) - n; got != 0 != (cause == want.cause) {
				t.Errorf("%q: dropped %v times by a %s", message, got, cause)
			}
		}
	}
	f.memory = auth.NewMemory()
	f.apply("6 6 " + key)
	if v, known := f.memory.Version(6); v != 6 || !known {
		t.Errorf("the first message of all: version %d", v)
	}
}

// Records of other issuers: an account that is not there has paid for nothing, scopes of others are
// kept, and what makes no sense lets nobody in and refuses nobody.
func TestRecordsOfOtherIssuers(t *testing.T) {
	f := newFleet(t, time.Hour)
	const rest = `"kind":"buyer","account":"acme"`
	f.write("k3", `{"id":"k3","kind":"buyer","account":"ghost","scopes":["openid","inquiries:read"]}`)
	if g, err := f.find("k3"); err != nil || g.Revoked || g.Principal.PaidAccess || g.Principal.Scopes != "openid inquiries:read" {
		t.Errorf("%+v, %v", g, err)
	}
	f.write("k3", `{"id":"k3",`+rest+`}`)
	f.ForgetAll()
	f.finds("a good record", "k3", false)
	for _, text := range []string{
		"x", `{"id":"k","account":"acme"}`, `{"id":"k","kind":"buyer"}`, `{"id":"k","kind":"admin","account":"acme"}`,
		`{` + rest + `}`, `{"id":"a b",` + rest + `}`, `{"id":"k",` + rest + `} {}`, `{"id":"k",` + rest + `,"expires_at":"tomorrow"}`,
		`{"id":"k",` + rest + `,"revoked":"yes"}`, `{"id":"k",` + rest + `,"revoke":true}`,
		`{"id":"k",` + rest + strings.Repeat(" ", maxRecord) + `}`,
	} {
		f.write("k3", text)
		f.ForgetAll()
		f.refuses(fmt.Sprintf("%.80s", text), "k3")
	}
	for _, text := range []string{
		`{"id":"acme","api_access":"maybe"}`, `{"id":"acme","api_access":"paid","plan":"a b"}`, `{"id":"rich","api_access":"paid"}`,
	} {
		f.must(f.client.HSet(t.Context(), f.layout.hash(shardOfAccount("acme")), "account:acme", text).Err())
		f.ForgetAll()
		f.refuses(text, "k1")
	}
	if err := f.editor.Keys(t.Context(), func(auth.Listing) error { return nil }); !errors.Is(err, auth.ErrGarbage) {
		t.Errorf("lists garbage: %v", err)
	}
	f.must(f.client.Del(t.Context(), f.shard("k2")).Err(), f.client.Set(t.Context(), f.shard("k2"), "x", 0).Err())
	f.refuses("no hash", "k2")
}

// A long list comes in pages, all of it and each page in order.
func TestListsComeInPages(t *testing.T) {
	f := newFleet(t, time.Hour)
	_, err := f.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 5000 {
			k := testRecord(fmt.Sprint("more", i))
			k.Account = fmt.Sprint("account", i)
			p.HSet(t.Context(), f.shard(k.ID), "sha256:"+hexOf(k.ID), encode(k))
			p.HSet(t.Context(), f.layout.hash(shardOfAccount(k.Account)), "account:"+k.Account, encode(auth.Account{ID: k.Account, APIAccess: auth.AccessPaid}))
		}
		return nil
	})
	f.must(err)
	keys, accounts, longest := 0, 0, 0
	f.must(f.editor.Keys(t.Context(), func(l auth.Listing) error {
		keys, longest = keys+len(l.Keys), max(longest, len(l.Keys))
		for _, k := range l.Keys {
			if a := l.Account(k.Account); a == nil || a.APIAccess != auth.AccessPaid {
				t.Errorf("%s is listed with the account %+v", k.ID, a)
			}
		}
		if !slices.IsSortedFunc(l.Keys, func(a, b auth.KeyRecord) int { return strings.Compare(a.ID, b.ID) }) {
			t.Error("a page is in no order")
		}
		return nil
	}), f.editor.Accounts(t.Context(), func(some []auth.Account) error {
		accounts, longest = accounts+len(some), max(longest, len(some))
		return nil
	}))
	if keys != 5002 || accounts != 5001 || longest > 3*pageSize {
		t.Errorf("lists %d keys and %d accounts, up to %d in a page", keys, accounts, longest)
	}
	enough := errors.New("enough")
	if err := f.editor.Keys(t.Context(), func(auth.Listing) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("who has seen enough: %v", err)
	}
}

// What is read back is what was stored, and nothing that is stored makes a key that was not meant.
func FuzzRecord(f *testing.F) {
	f.Add(`{"id":"k1","kind":"buyer","account":"acme","scopes":["inquiries:read"],"expires_at":"2027-01-01T00:00:00Z","revoked":true}`)
	f.Add(`{"id":"acme","api_access":"paid","plan":"pro"}`)
	f.Add(`{"id":"k1","kind":"buyer","account":"acme"}{}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseKey(auth.Digest{}, text)
		switch {
		case text == "" && !errors.Is(err, auth.ErrUnknownKey), text != "" && err != nil && !errors.Is(err, auth.ErrGarbage):
			t.Fatal(err)
		case err == nil:
			if again, err := parseKey(auth.Digest{}, encode(k)); err != nil || k.Validate() != nil || !again.Equal(k) {
				t.Fatalf("%+v came back as %+v, %v", k, again, err)
			}
		}
		a, err := parseAccount("acme", text)
		if err == nil && (a.ID != "acme" || a.Validate() != nil) || err != nil && !errors.Is(err, auth.ErrGarbage) {
			t.Fatalf("%+v, %v", a, err)
		}
	})
}
