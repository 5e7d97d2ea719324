package keysredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a node with its key store in a Redis, and the editor of its records.
type fleet struct {
	*Store
	t      *testing.T
	server *redistest.Server
	client *redis.Client
	editor *auth.Editor
}

// newFleet starts a Redis with the keys k1 and k2 of a paying account, and a node that has heard of
// them.
func newFleet(t *testing.T, poll time.Duration) *fleet {
	t.Helper()
	f := &fleet{t: t, server: redistest.Start(t)}
	f.client = f.server.Client()
	f.editor = NewEditor(f.client, "iq", auth.Hasher{})
	cfg := auth.DefaultRedisConfig()
	cfg.Poll, cfg.Timeout = poll, 10*time.Second // however busy the machine is
	policy := auth.CachePolicy{TTL: 30 * time.Second, MaxKeys: 1000, Timeout: cfg.Timeout}
	f.Store = New(f.client, "iq", auth.Hasher{}, cfg, policy, auth.Options{})
	t.Cleanup(f.Close)
	f.refuses("before anything is stored", "k1")
	f.must(f.editor.Add(t.Context(), testRecord("k1"), &auth.Account{APIAccess: auth.AccessPaid}))
	f.must(f.editor.Add(t.Context(), testRecord("k2"), nil))
	f.heard()
	return f
}

// still ends the node's watcher: the test does its work from here on.
func (f *fleet) still() {
	f.stop()
	<-f.done
}

func (f *fleet) must(errs ...error) {
	f.t.Helper()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
}

// heard waits until the node knows the version that is in Redis.
func (f *fleet) heard() {
	f.t.Helper()
	n, err := f.client.Get(f.t.Context(), f.keys.version()).Float64()
	f.must(err)
	redistest.Eventually(f.t, "the node hears of the change", func() bool { return testutil.ToFloat64(f.taken) == n })
}

// write changes the record of a key without telling anybody.
func (f *fleet) write(id, text string) {
	f.t.Helper()
	f.must(f.client.HSet(f.t.Context(), f.keys.keys(), hexOf(id), text).Err())
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

// A revocation whose message is lost is noticed by the version at the next poll. A version that
// is the same, cannot be read or is away takes no key away; one of before does.
func TestPoll(t *testing.T) {
	f := newFleet(t, 10*time.Millisecond)
	f.finds("at first", "k1", false)
	f.write("k1", strings.Replace(encode(testRecord("k1")), `"revoked":false`, `"revoked":true`, 1))
	f.must(f.client.Incr(t.Context(), f.keys.version()).Err())
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
	f.must(f.client.Set(t.Context(), f.keys.version(), "garbage", 0).Err())
	poll()
	f.finds("a version that is no number", "k2", false)
	f.server.Kill()
	poll()
	f.finds("Redis is away", "k2", false)
	f.refuses("a key that is not stored", "k3")
	f.server.Restart()
	poll()
	f.refuses("Redis has lost its data", "k2")
	f.Close()
	f.refuses("after the end", "k2")
}

// A client that has guessed too often is told that Redis is away as soon as the node knows it.
func TestAGuesserWhileRedisIsAway(t *testing.T) {
	f := newFleet(t, time.Hour)
	f.still()
	opts := auth.Options{Guesses: auth.NewGuesses(rate.Plan{PerSecond: 0.001, Burst: 1}, nil)}
	f.Store = New(f.client, "iq", auth.Hasher{}, f.cfg, auth.CachePolicy{TTL: time.Minute, MaxKeys: 10, Timeout: time.Minute}, opts)
	t.Cleanup(f.Close)
	f.still()
	gets := func(key string) error {
		_, err := f.Find(t.Context(), auth.Credential{Digest: auth.Hasher{}.Hash(key), Caller: stranger{}})
		return err
	}
	if err := gets("guess"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("a guess: %v", err)
	}
	if err := gets("k1"); !errors.Is(err, auth.ErrTooManyAttempts) {
		t.Errorf("a new key of who guesses: %v", err)
	}
	f.server.Kill()
	f.Store.poll(t.Context())
	if err := gets("k2"); err == nil || errors.Is(err, auth.ErrTooManyAttempts) {
		t.Errorf("a new key of who guesses, Redis away: %v", err)
	}
}

type stranger struct{}

func (stranger) ClientIP() string       { return "192.0.2.1" }
func (stranger) Deadline() time.Time    { return time.Now().Add(time.Minute) }
func (stranger) LogRefusal(string) bool { return false }

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
		return strings.Contains(f.server.Do("INFO", "commandstats"), "cmdstat_get:")
	})
	f.must(f.editor.Revoke(t.Context(), "k2"))
	f.heard()
	f.finds("another key has changed", "k1", false)
	f.finds("the changed key", "k2", true)
}

// interrupted does something between the first two commands about a hash.
type interrupted struct {
	hash string
	do   func() error
}

func (*interrupted) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*interrupted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (i *interrupted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[1].Args()[1] != i.hash {
			return next(ctx, cmds)
		}
		return errors.Join(next(ctx, cmds[:1]), i.do(), next(ctx, cmds[1:]))
	}
}

// A key or an account that is not there is believed only where a version is set all the while.
func TestLostDataIsNoRefusal(t *testing.T) {
	f := newFleet(t, time.Hour)
	other := f.server.Client()
	if _, err := f.find("k3"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("an unknown key: %v", err)
	}
	f.must(other.Del(t.Context(), f.keys.version()).Err(), other.LPush(t.Context(), f.keys.version(), "no string").Err())
	f.finds("a key that is there, where the version cannot be read", "k1", false)
	f.refuses("a key that is not there, where the version cannot be read", "k4")

	f.must(other.Del(t.Context(), f.keys.version()).Err())
	between := &interrupted{f.keys.keys(), func() error { return other.Set(t.Context(), f.keys.version(), 7, 0).Err() }}
	f.client.AddHook(between)
	f.refuses("data restored while a key is read", "k5")
	between.hash, between.do = f.keys.accounts(), func() error { return other.FlushAll(t.Context()).Err() }
	f.refuses("data lost while an account is read", "k2")
	f.refuses("all data lost", "k6")
}

// A Redis that evicts drops whole hashes while the version stays: what is not there is believed only
// of a hash that is. Nobody is refused for that, and no command goes on as if the rest were all.
func TestEvictedHashes(t *testing.T) {
	const good, unknown, unpaid, unavailable = "good", "unknown", "unpaid", "unavailable"
	for _, tt := range []struct {
		gone            []string
		key, other, add string // what a key in the store, one that never was, and keys new get
		revokes         bool
	}{
		{nil, good, unknown, good, true},
		{[]string{"sha256"}, unavailable, unavailable, unavailable, false},
		{[]string{"accounts"}, unavailable, unknown, unavailable, true},
		{[]string{"ids"}, good, unknown, good, false},
		{[]string{"sha256", "accounts"}, unavailable, unavailable, unavailable, false},
		{[]string{"sha256", "accounts", "ids"}, unavailable, unavailable, unavailable, false},
		{[]string{"version"}, good, unavailable, good, true},
		{[]string{"sha256", "accounts", "ids", "version"}, unavailable, unavailable, good, false}, // as a new store
	} {
		f := newFleet(t, time.Hour)
		for _, name := range tt.gone {
			f.must(f.client.Del(t.Context(), "iq:{auth}:"+name).Err())
		}
		gets := func(key string) string {
			g, err := f.find(key)
			switch {
			case errors.Is(err, auth.ErrUnknownKey):
				return unknown
			case err != nil:
				return unavailable
			case !g.Principal.PaidAccess:
				return unpaid
			}
			return good
		}
		if key, other := gets("k1"), gets("k3"); key != tt.key || other != tt.other {
			t.Errorf("without %q: a key is %s, another %s; want %s, %s", tt.gone, key, other, tt.key, tt.other)
		}
		err := f.editor.Add(t.Context(), testRecord("k4"), &auth.Account{APIAccess: auth.AccessPaid})
		if (err == nil) != (tt.add == good) {
			t.Errorf("without %q: keys new: %v, want %s", tt.gone, err, tt.add)
		}
		if err := f.editor.Revoke(t.Context(), "k1"); (err == nil) != tt.revokes {
			t.Errorf("without %q: keys revoke: %v", tt.gone, err)
		}
		if f.ForgetAll(); tt.add == unavailable && gets("k2") != unavailable {
			t.Errorf("without %q: after keys new another key is %s", tt.gone, gets("k2"))
		}
	}
}

// The operator is told of a Redis that may drop keys, where the node may read that.
func TestEvictionPolicyIsTold(t *testing.T) {
	server := redistest.Start(t)
	for policy, told := range map[string]bool{"noeviction": false, "volatile-lru": false, "allkeys-lru": true, "allkeys-random": true} {
		if got := server.Do("CONFIG", "SET", "maxmemory-policy", policy); got != "+OK" {
			t.Fatal(got)
		}
		var log testkit.Log
		cfg := auth.DefaultRedisConfig()
		cfg.Timeout = 10 * time.Second
		s := New(server.Client(), "iq", auth.Hasher{}, cfg, auth.CachePolicy{MaxKeys: 1}, auth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		t.Cleanup(s.Close)
		s.tellPolicy(t.Context())
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
		"5 " + key: {causeMessage, 5}, "5 account acme": {causeMessage, 5},
		"5 " + key + " " + key: {causeMessage, 5}, "5 " + key + " account acme": {causeMessage, 5},
		"4 " + key: {"", 4}, // late
		"6 " + key: {causeGap, 6}, "5 " + key + " account": {causeGap, 5}, "5 plan pro": {causeGap, 5}, "5 key abc": {causeGap, 5},
		"5 account ": {causeGap, 5}, "5": {causeGap, 5}, "hello": {causeGap, 4}, "": {causeGap, 4}, "-1 " + key: {causeGap, 4},
	} {
		f.known.SetVersion(4)
		f.finds("before", "k1", false)
		before := map[string]float64{}
		for _, cause := range []string{causeMessage, causeGap} {
			before[cause] = testutil.ToFloat64(f.dropped.WithLabelValues(cause))
		}
		f.apply(message)
		_, recalled := f.Recall(auth.Hasher{}.Hash("k1"))
		if v := f.known.Version(); v != want.after || recalled != (want.cause == "") {
			t.Errorf("%q: version %d, want %d; recalled %t", message, v, want.after, recalled)
		}
		for cause, n := range before {
			if got := testutil.ToFloat64(f.dropped.WithLabelValues(cause)) - n; got != 0 != (cause == want.cause) {
				t.Errorf("%q: dropped %v times by a %s", message, got, cause)
			}
		}
	}
	f.known.SetVersion(-1)
	if f.apply("6 " + key); f.known.Version() != 6 {
		t.Errorf("the first message of all: version %d", f.known.Version())
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
		f.must(f.client.HSet(t.Context(), f.keys.accounts(), "acme", text).Err())
		f.ForgetAll()
		f.refuses(text, "k1")
	}
	if _, err := f.editor.List(t.Context()); !errors.Is(err, auth.ErrGarbage) {
		t.Errorf("lists garbage: %v", err)
	}
	f.must(f.client.Del(t.Context(), f.keys.keys()).Err(), f.client.Set(t.Context(), f.keys.keys(), "x", 0).Err())
	f.refuses("no hash", "k2")
}

func TestListIsReadInSteps(t *testing.T) {
	f := newFleet(t, time.Hour)
	var fields []any
	for i := range 2000 {
		id := fmt.Sprint("more", i)
		fields = append(fields, hexOf(id), encode(testRecord(id)))
	}
	f.must(f.client.HSet(t.Context(), f.keys.keys(), fields...).Err())
	if l, err := f.editor.List(t.Context()); err != nil || len(l.Keys) != 2002 || len(l.Accounts) != 1 {
		t.Errorf("lists %d keys of %d accounts, %v", len(l.Keys), len(l.Accounts), err)
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
