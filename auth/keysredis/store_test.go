package keysredis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	paying  = auth.Account{ID: "acme", APIAccess: auth.AccessPaid, Plan: "pro"}
)

func testRecord(id string) auth.KeyRecord {
	return auth.KeyRecord{ID: id, Digest: auth.Hasher{}.Hash(id), Kind: auth.KindSeller, Account: "acme", Scopes: []string{auth.ScopeInquiriesRead}}
}

// hexOf is the hexadecimal SHA-256 of a key.
func hexOf(key string) string { return auth.Hasher{}.Hash(key).Hex() }

func find(t *testing.T, s *Store, key string) (*auth.Grant, error) {
	t.Helper()
	return s.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key)})
}

// eventually waits for something that happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func newRedisPair(t *testing.T, server *redistest.Server) (*Store, *auth.Editor, *redis.Client) {
	t.Helper()
	return pollingPair(t, server, 50*time.Millisecond)
}

var testPolicy = auth.CachePolicy{TTL: 30 * time.Second, MaxKeys: 1000, Timeout: 250 * time.Millisecond}

func pollingPair(t *testing.T, server *redistest.Server, poll time.Duration) (*Store, *auth.Editor, *redis.Client) {
	t.Helper()
	client := server.Client()
	cfg := auth.DefaultRedisConfig()
	cfg.Poll = poll
	store := New(client, "iq", auth.Hasher{}, cfg, testPolicy, auth.Options{})
	t.Cleanup(store.Close)
	return store, NewEditor(client, "iq", auth.Hasher{}), client
}

// A revoke reaches every node by message, and also when the message is lost.
func TestRevokeReachesEveryNode(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, admin, client := newRedisPair(t, server)
	two, _, _ := newRedisPair(t, server)
	ctx := t.Context()
	for _, id := range []string{"k1", "k2"} {
		if err := admin.Add(ctx, testRecord(id), &paying); err != nil {
			t.Fatal(err)
		}
	}
	revoked := func(s *Store, key string) bool {
		g, err := find(t, s, key)
		if err != nil {
			t.Fatal(err)
		}
		return g.Revoked
	}
	for _, s := range []*Store{one, two} {
		if revoked(s, "k1") || revoked(s, "k2") {
			t.Fatal("revoked from the start")
		}
	}
	if err := admin.Revoke(ctx, "k1"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{one, two} {
		eventually(t, "the message is heard", func() bool { return revoked(s, "k1") })
	}
	before := testutil.ToFloat64(two.dropped.WithLabelValues(causeVersion))
	// What is left of a revoke whose message nobody hears.
	revoked2 := testRecord("k2")
	revoked2.Revoked = true
	if err := errors.Join(client.HSet(ctx, one.keys.keys(), hexOf("k2"), encode(revoked2)).Err(), client.Incr(ctx, one.keys.version()).Err()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the version is read", func() bool { return revoked(two, "k2") })
	if testutil.ToFloat64(two.dropped.WithLabelValues(causeVersion)) == before {
		t.Error("the change was noticed otherwise than by the version")
	}
}

// A Redis that comes back empty must not turn every key into an unknown one.
func TestLostDataIsNoRefusal(t *testing.T) {
	server := redistest.Start(t)
	store, admin, _ := newRedisPair(t, server)
	if _, err := find(t, store, "k"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("before anything was stored: %v", err)
	}
	if err := admin.Add(t.Context(), testRecord("k"), &paying); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, store, "other"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("an unknown key: %v", err)
	}
	server.Kill()
	server.Restart()
	eventually(t, "the store is asked again", func() bool {
		_, err := find(t, store, "k")
		return err != nil && strings.Contains(err.Error(), "no version")
	})
	if err := admin.Add(t.Context(), testRecord("k"), &paying); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is good again", func() bool {
		_, err := find(t, store, "k")
		return err == nil
	})
}

// emptied loses all data just before an account is read.
type emptied struct {
	server *redis.Client
	hash   string
}

func (emptied) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (emptied) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (e emptied) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[1].Args()[1] == e.hash { // between two readings of the version
			if err := e.server.FlushAll(ctx).Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}

func TestDataLostBetweenKeyAndAccountIsNoRefusal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, admin, client := newRedisPair(t, server)
	if err := admin.Add(t.Context(), testRecord("k1"), &paying); err != nil {
		t.Fatal(err)
	}
	client.AddHook(emptied{server.Client(), store.keys.accounts()})
	if grant, err := find(t, store, "k1"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("a caller who has paid is told otherwise: %+v, %v", grant, err)
	}
}

func TestApplyMessage(t *testing.T) {
	digest := hexOf("k")
	tests := map[string]struct {
		known   int64
		message string
		cause   string // "" : nothing is dropped
		after   int64
	}{
		"key":                  {4, "5 key " + digest, causeMessage, 5},
		"account":              {4, "5 account acme", causeMessage, 5},
		"late":                 {5, "5 key " + digest, "", 5},
		"two keys":             {4, "5 key " + digest + " key " + digest, causeMessage, 5},
		"key and account":      {4, "5 key " + digest + " account acme", causeMessage, 5},
		"key and half":         {4, "5 key " + digest + " account", causeGap, 5},
		"one was lost":         {4, "6 key " + digest, causeGap, 6},
		"nothing known yet":    {-1, "6 key " + digest, causeGap, 6},
		"another kind":         {4, "5 plan pro", causeGap, 5},
		"a broken digest":      {4, "5 key abc", causeGap, 5},
		"an account's absence": {4, "5 account ", causeGap, 5},
		"not understood":       {4, "hello", causeGap, 4},
		"empty":                {4, "", causeGap, 4},
		"negative":             {4, "-1 key " + digest, causeGap, 4},
	}
	store, _, _ := newRedisPair(t, redistest.Start(t))
	store.stop()
	<-store.done // from here on the test is the watcher
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store.version = tt.known
			count := func(cause string) float64 { return testutil.ToFloat64(store.dropped.WithLabelValues(cause)) }
			before := map[string]float64{causeMessage: count(causeMessage), causeGap: count(causeGap)}
			store.apply(tt.message)
			for _, cause := range []string{causeMessage, causeGap} {
				want := 0.0
				if cause == tt.cause {
					want = 1
				}
				if got := count(cause) - before[cause]; got != want {
					t.Errorf("%s: dropped %v times, want %v", cause, got, want)
				}
			}
			if store.version != tt.after {
				t.Errorf("version %d, want %d", store.version, tt.after)
			}
		})
	}
}

func TestPollKeepsWhatItHasWhenRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	store, admin, client := newRedisPair(t, server)
	store.stop()
	<-store.done
	ctx := t.Context()
	if err := admin.Add(ctx, testRecord("k"), &paying); err != nil {
		t.Fatal(err)
	}
	store.poll(ctx)
	if _, err := find(t, store, "k"); err != nil {
		t.Fatal(err)
	}
	if err := client.HDel(ctx, store.keys.keys(), hexOf("k")).Err(); err != nil { // from here on only the node has it
		t.Fatal(err)
	}
	stored := func() bool {
		_, err := find(t, store, "k")
		return err == nil
	}
	store.poll(ctx)
	if !stored() {
		t.Error("the same version made it forget")
	}
	if err := client.Set(ctx, store.keys.version(), "garbage", 0).Err(); err != nil {
		t.Fatal(err)
	}
	store.poll(ctx)
	server.Kill()
	store.poll(ctx)
	if !stored() {
		t.Error("a failed read made it forget")
	}
	server.Restart()
	store.poll(ctx)
	if stored() || store.version != 0 {
		t.Error("a store that went back in time is taken for the same")
	}
}

// A new connection for messages is no reason to forget: the version says that
// nothing was missed, and the keys may be in a part of Redis that is away.
func TestResubscribingForgetsNothing(t *testing.T) {
	server := redistest.Start(t)
	store, admin, client := pollingPair(t, server, time.Minute) // so that a change is heard, not read
	ctx := t.Context()
	if err := admin.Add(ctx, testRecord("k"), &paying); err != nil {
		t.Fatal(err)
	}
	inForce := func() bool {
		n, err := client.Get(ctx, store.keys.version()).Float64()
		return err == nil && testutil.ToFloat64(store.taken) == n
	}
	eventually(t, "the node hears of the key", inForce)
	if _, err := find(t, store, "k"); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(ctx, store.keys.keys(), hexOf("k"), "cannot be read").Err(); err != nil {
		t.Fatal(err)
	}
	if got := server.Do("CONFIG", "RESETSTAT"); got != "+OK" {
		t.Fatal(got)
	}
	if n, err := client.ClientKillByFilter(ctx, "TYPE", "pubsub").Result(); err != nil || n == 0 {
		t.Fatalf("%d connections ended, %v", n, err)
	}
	eventually(t, "the node listens again and has read the version", func() bool {
		return strings.Contains(server.Do("INFO", "commandstats"), "cmdstat_get:")
	})
	if err := admin.Add(ctx, testRecord("other"), nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node hears of the other key", inForce)
	if _, err := find(t, store, "k"); err != nil {
		t.Errorf("a key that was good a moment ago: %v", err)
	}
}

func TestRedisGarbage(t *testing.T) {
	t.Parallel()
	store, admin, client := newRedisPair(t, redistest.Start(t))
	ctx := t.Context()
	if err := admin.SetAccount(ctx, auth.AccountChange{ID: "acme", Create: true}); err != nil {
		t.Fatal(err)
	}
	key := func(text string) func() error {
		return func() error { return client.HSet(ctx, store.keys.keys(), hexOf("k"), text).Err() }
	}
	account := func(text string) func() error {
		return func() error { return client.HSet(ctx, store.keys.accounts(), "acme", text).Err() }
	}
	const rest = `"kind":"buyer","account":"acme"`
	for name, spoil := range map[string]func() error{
		"no JSON":         key("x"),
		"two records":     key(`{"id":"k",` + rest + `} {}`),
		"no id":           key(`{` + rest + `}`),
		"a strange id":    key(`{"id":"a b",` + rest + `}`),
		"no kind":         key(`{"id":"k","account":"acme"}`),
		"a strange kind":  key(`{"id":"k","kind":"admin","account":"acme"}`),
		"no account":      key(`{"id":"k","kind":"buyer"}`),
		"a strange time":  key(`{"id":"k",` + rest + `,"expires_at":"tomorrow"}`),
		"a strange mark":  key(`{"id":"k",` + rest + `,"revoked":"yes"}`),
		"a misspelt mark": key(`{"id":"k",` + rest + `,"revoke":true}`),
		"a long record":   key(`{"id":"k",` + rest + strings.Repeat(" ", maxRecord) + `}`),
		"strange access":  account(`{"id":"acme","api_access":"maybe"}`),
		"strange plan":    account(`{"id":"acme","api_access":"paid","plan":"a b"}`),
		"another account": account(`{"id":"rich","api_access":"paid"}`),
		"keys no hash": func() error {
			return errors.Join(client.Del(ctx, store.keys.keys()).Err(), client.Set(ctx, store.keys.keys(), "x", 0).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(client.Del(ctx, store.keys.keys()).Err(), key(`{"id":"k",`+rest+`}`)(), account(`{"id":"acme","api_access":"paid"}`)())
			if err != nil {
				t.Fatal(err)
			}
			store.ForgetAll()
			if _, err := find(t, store, "k"); err != nil {
				t.Fatalf("a good record: %v", err)
			}
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			store.ForgetAll()
			g, err := find(t, store, "k")
			if g != nil || !errors.Is(err, auth.ErrGarbage) || errors.Is(err, auth.ErrUnknownKey) || strings.Contains(err.Error(), hexOf("k")[:8]) {
				t.Errorf("%+v, %v", g, err)
			}
		})
	}
}

// A key of another issuer may have an account that is not there.
func TestRedisRecordsOfOtherIssuers(t *testing.T) {
	store, _, client := newRedisPair(t, redistest.Start(t))
	ctx := t.Context()
	record := `{"id":"k","kind":"buyer","account":"ghost","scopes":["openid","inquiries:read"]}`
	if err := errors.Join(client.Incr(ctx, store.keys.version()).Err(), client.HSet(ctx, store.keys.keys(), hexOf("k"), record).Err()); err != nil {
		t.Fatal(err)
	}
	g, err := find(t, store, "k")
	if err != nil || g.Revoked || g.Principal.PaidAccess || !g.Principal.Scopes.Has(auth.ScopeInquiriesRead) {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestRedisStoreEndsWithRedisAway(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	store, _, _ := newRedisPair(t, server)
	if _, err := find(t, store, "k"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("without Redis: %v", err)
	}
	store.Close()
	if _, err := store.Find(context.Background(), auth.Credential{Digest: auth.Hasher{}.Hash("k")}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after the end: %v", err)
	}
}

// Where the version cannot be read, a key that is there is found, and no key is called unknown.
func TestRedisStoreWithoutTheVersion(t *testing.T) {
	store, admin, client := newRedisPair(t, redistest.Start(t))
	ctx := t.Context()
	if err := admin.Add(ctx, testRecord("k1"), &paying); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Del(ctx, store.keys.version()).Err(), client.LPush(ctx, store.keys.version(), "no string").Err()); err != nil {
		t.Fatal(err)
	}
	if g, err := find(t, store, "k1"); err != nil || g.Principal.KeyID != "k1" {
		t.Errorf("a key that is there: %+v, %v", g, err)
	}
	if _, err := find(t, store, "k2"); err == nil || errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// In a Cluster every change has to stay within a slot.
func TestRedisCluster(t *testing.T) {
	t.Parallel() // a cluster takes two seconds to start
	client := redistest.StartCluster(t, 1).Client(t)
	cfg := auth.DefaultRedisConfig()
	cfg.Poll, cfg.Timeout = 50*time.Millisecond, 5*time.Second
	store := New(client, "iq", auth.Hasher{}, cfg, testPolicy, auth.Options{})
	t.Cleanup(store.Close)
	admin := NewEditor(client, "iq", auth.Hasher{})
	ctx := t.Context()
	added := admin.Add(ctx, testRecord("k1"), &paying)
	_, rotated := admin.Rotate(ctx, "k1", testRecord("k2"), testNow)
	err := errors.Join(
		added, rotated,
		admin.SetAccount(ctx, auth.AccountChange{ID: "acme", APIAccess: auth.AccessPaid}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := find(t, store, "k2"); err != nil || !g.Principal.PaidAccess {
		t.Fatalf("%+v, %v", g, err)
	}
	if err := admin.Revoke(ctx, "k2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoke is heard", func() bool {
		g, err := find(t, store, "k2")
		return err == nil && g.Revoked
	})
	if l, err := admin.List(ctx); err != nil || len(l.Keys) != 2 || !l.Keys[1].Revoked {
		t.Errorf("lists %+v, %v", l, err)
	}
}
