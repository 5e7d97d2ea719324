package keysredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
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

// newFleet starts a Redis with the keys k1 and k2 of a paying account, and a node.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, server: redistest.Start(t)}
	f.client = open(t, f.server.Addr)
	f.editor = NewEditor(f.client, "iq", auth.Hasher{})
	f.Store = New(f.client, "iq", auth.Hasher{}, 30*time.Second, auth.Options{})
	t.Cleanup(f.Close)
	f.refuses("before anything is stored", "k1")
	f.must(f.editor.Add(t.Context(), testRecord("k1"), &auth.Account{APIAccess: auth.AccessPaid}))
	f.must(f.editor.Add(t.Context(), testRecord("k2"), nil))
	return f
}

// still ends the node's watching: the test polls from here on.
func (f *fleet) still() {
	f.stop()
	f.wg.Wait()
	f.poll(f.t.Context())
}

func (f *fleet) must(errs ...error) {
	f.t.Helper()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
}

// write changes the record of a key without telling anybody.
func (f *fleet) write(id, text string) {
	f.t.Helper()
	f.must(f.client.Set(f.t.Context(), f.layout.key(auth.Hasher{}.Hash(id)), text, 0).Err())
}

// announce appends to the stream.
func (f *fleet) announce(values ...string) {
	f.t.Helper()
	f.must(f.client.XAdd(f.t.Context(), &redis.XAddArgs{Stream: f.layout.changes(), Values: values}).Err())
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

// cached tells whether the grant of a key needs no look-up.
func (f *fleet) cached(key string) bool {
	g, _ := f.Cached(auth.Hasher{}.Hash(key))
	return g != nil
}

func everything(*auth.Grant) bool { return true }

// Three nodes refuse a revoked key within a second, and one that starts in the middle of it, too.
func TestRevokedOverTheFleet(t *testing.T) {
	f := newFleet(t)
	nodes := []*fleet{f}
	for range 2 {
		s := New(open(t, f.server.Addr), "iq", auth.Hasher{}, 10*time.Minute, auth.Options{})
		t.Cleanup(s.Close)
		nodes = append(nodes, &fleet{Store: s, t: t})
	}
	var slowest time.Duration
	for i := range 8 {
		id := fmt.Sprint("key", i)
		f.must(f.editor.Add(t.Context(), testRecord(id), nil))
		for _, node := range nodes {
			redistest.Eventually(t, "the key is cached", func() bool { node.finds("at first", id, false); return node.cached(id) })
		}
		begin := time.Now()
		f.must(f.editor.Revoke(t.Context(), id))
		for _, node := range nodes {
			redistest.Eventually(t, "the node refuses it", func() bool { g, err := node.find(id); return err == nil && g.Revoked })
		}
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("the slowest of 8 revocations was seen by 3 nodes after %v", slowest)
}

// Changes invalidate what they name. What is not understood, and what was trimmed, invalidates everything.
func TestChanges(t *testing.T) {
	f := newFleet(t)
	_, err := f.editor.SetAccount(t.Context(), auth.AccountChange{ID: "other", Create: true, APIAccess: auth.AccessPaid})
	f.must(err)
	k3 := testRecord("k3")
	k3.Account = "other"
	f.must(f.editor.Add(t.Context(), k3, nil))
	f.still()
	for _, step := range []struct {
		what       string
		change     func()
		k1, k2, k3 bool // is still cached
	}{
		{"nothing", func() {}, true, true, true},
		{"a key", func() { f.announce("key", hexOf("k1")) }, false, true, true},
		{"a key in upper case", func() { f.announce("key", strings.ToUpper(hexOf("k1"))) }, false, true, true},
		{"an account", func() { f.announce("account", "acme") }, false, false, true},
		{"two at once", func() { f.announce("key", hexOf("k1")); f.announce("account", "other") }, false, true, false},
		{"an unknown sort", func() { f.announce("plan", "pro") }, false, false, false},
		{"more than one call reads", func() {
			_, err := f.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for range 2500 {
					p.XAdd(t.Context(), &redis.XAddArgs{Stream: f.layout.changes(), Values: []string{"key", hexOf("x")}})
				}
				return nil
			})
			f.must(err)
			f.announce("key", hexOf("k2"))
		}, true, false, true},
		{"trimmed", func() {
			f.announce("key", hexOf("k1"))
			f.must(f.client.XTrimMaxLen(t.Context(), f.layout.changes(), 1).Err())
		}, false, false, false},
		{"lost", func() { f.must(f.client.Del(t.Context(), f.layout.changes()).Err()) }, true, true, true}, // Redis has lost its memory: known keys go on
		{"lost, and new changes", func() { f.announce("key", hexOf("k1")) }, false, false, false},
		{"after a failover, by a clock that is behind", func() {
			f.must(f.client.Del(t.Context(), f.layout.changes()).Err(), f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: f.layout.changes(), ID: "5-1", Values: []string{"key", hexOf("k1")}}).Err())
		}, false, false, false},
		{"after that", func() { f.announce("key", hexOf("k2")) }, true, false, true},
	} {
		for _, id := range []string{"k1", "k2", "k3"} {
			f.finds(step.what, id, false)
		}
		step.change()
		f.poll(t.Context())
		if got := [3]bool{f.cached("k1"), f.cached("k2"), f.cached("k3")}; got != [3]bool{step.k1, step.k2, step.k3} {
			t.Errorf("%s: %v are cached", step.what, got)
		}
	}
	for id, want := range map[string]float64{"1764000000123-4": 1764000000.123004, "0-1": 0.000001, "x": 0} {
		if f.setLast(id); testutil.ToFloat64(f.newest) != want {
			t.Errorf("%s is %v", id, testutil.ToFloat64(f.newest))
		}
	}
}

// Without Redis known keys go on for their TTL. A node that has not read any change yet invalidates all when it does.
func TestANodeWithoutRedis(t *testing.T) {
	f := newFleet(t)
	f.still()
	f.finds("at first", "k1", false)
	f.server.Kill()
	f.poll(t.Context())
	f.finds("without Redis", "k1", false)
	f.refuses("another key", "k2")
	f.server.Restart() // it is empty
	f.poll(t.Context())
	f.finds("with an empty Redis", "k1", false)
	f.refuses("another key", "k2")
	f.last = ""
	f.poll(t.Context())
	if f.cached("k1") || f.last != noChange {
		t.Errorf("cached, or the last change is %q", f.last)
	}
}

// A record that is missing although the index knows it is lost, and so is everything without an index: nobody is refused for that.
func TestLostRecords(t *testing.T) {
	f := newFleet(t)
	gone := func(names ...string) {
		t.Helper()
		f.must(f.client.Del(t.Context(), names...).Err())
		f.Invalidate(everything)
	}
	if _, err := f.find("nobody"); !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("an unknown key: %v", err)
	}
	gone(f.layout.key(auth.Hasher{}.Hash("k1")))
	f.refuses("a lost key", "k1")
	f.finds("another one", "k2", false)
	gone(f.layout.account("acme"))
	f.refuses("its account is lost", "k2")
	gone(f.layout.index())
	f.refuses("without an index", "nobody")
}

// The editor takes a change that was cut off anywhere as its beginning: the id of a key that was never finished is free, and what is
// there already is announced again.
func TestRepeatedChanges(t *testing.T) {
	f := newFleet(t)
	ctx := t.Context()
	f.must(f.client.HSet(ctx, f.layout.index(), "id:cut", hexOf("cut"), hexOf("cut"), "cut").Err())
	err := f.editor.Keys(ctx, func(auth.KeySet) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "key cut: ") || !strings.Contains(err.Error(), "keys new --id") {
		t.Errorf("keys list: %v", err)
	}
	if err := f.editor.Revoke(ctx, "cut"); !errors.Is(err, auth.ErrNoSuchKey) {
		t.Errorf("keys revoke: %v", err)
	}
	again := testRecord("again")
	again.ID = "cut"
	f.must(f.editor.Add(ctx, again, nil), f.editor.Keys(ctx, func(auth.KeySet) error { return nil }))
	if n := f.client.HLen(ctx, f.layout.index()).Val(); n != 3*2 {
		t.Errorf("the index has %d fields", n)
	}
	f.must(f.editor.Revoke(ctx, "k1"))
	before := f.client.XLen(ctx, f.layout.changes()).Val()
	f.must(f.editor.Revoke(ctx, "k1"))
	_, err = f.editor.SetAccount(ctx, auth.AccountChange{ID: "acme", APIAccess: auth.AccessPaid})
	f.must(err)
	if n := f.client.XLen(ctx, f.layout.changes()).Val(); n != before+2 {
		t.Errorf("%d announcements of what is so already", n-before)
	}
	_, err = f.editor.Get(ctx, "k1")
	f.must(err)
	if n := f.client.XLen(ctx, f.layout.changes()).Val(); n != before+2 {
		t.Error("a read is announced")
	}
}

// meanwhile runs something before each command that replaces a record.
type meanwhile struct {
	redis.Hook
	record string
	do     func()
}

func (m meanwhile) DialHook(next redis.DialHook) redis.DialHook { return next }
func (m meanwhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (m meanwhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && cmd.Args()[3] == m.record {
			m.do()
		}
		return next(ctx, cmd)
	}
}

// A rotation beside another operator, who changes the old key when the new one has just been stored, leaves no active key that
// nobody has been shown, or says so.
func TestRotationBesideAnotherOperator(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(f *fleet, n int) error // n: the attempt, from 0 on
		want        error
		state, left string // of the new key and of the old one
	}{
		"revoked": {func(f *fleet, _ int) error { return f.editor.Revoke(t.Context(), "k1") }, auth.ErrRevoked, auth.StateRevoked, auth.StateRevoked},
		"changed once": {func(f *fleet, n int) error {
			if n > 0 {
				return nil
			}
			_, err := f.editor.Rotate(t.Context(), "k1", testRecord("other"), time.Now().Add(time.Hour))
			return err
		}, nil, auth.StateActive, auth.StateExpired},
		"changed all the time": {func(f *fleet, n int) error {
			_, err := f.editor.Rotate(t.Context(), "k1", testRecord(fmt.Sprint("other", n)), time.Now().Add(time.Hour-time.Duration(n)*time.Minute))
			return err
		}, auth.ErrOutcomeUnknown, auth.StateActive, auth.StateActive},
	} {
		t.Run(name, func(t *testing.T) {
			f, n := newFleet(t), 0
			client := redis.NewClient(&redis.Options{Addr: f.server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			client.AddHook(meanwhile{record: f.layout.key(auth.Hasher{}.Hash("k1")), do: func() {
				f.must(test.change(f, n))
				n++
			}})
			if _, err := NewEditor(client, "iq", auth.Hasher{}).Rotate(t.Context(), "k1", testRecord("next"), time.Now()); !errors.Is(err, test.want) {
				t.Errorf("%v", err)
			}
			for id, want := range map[string]string{"next": test.state, "k1": test.left} {
				if k, err := f.editor.Get(t.Context(), id); err != nil || k.State(time.Now().Add(time.Second)) != want {
					t.Errorf("%s: %+v, %v", id, k, err)
				}
			}
		})
	}
}

// Two operators at once make no id and no digest twice, and lose no change.
func TestTwoOperatorsAtOnce(t *testing.T) {
	f := newFleet(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	for n := range 8 {
		wg.Go(func() {
			for i := range 20 {
				k := testRecord(fmt.Sprint("key ", n, i)) // another digest for each
				k.ID = fmt.Sprint("id", i)
				err := f.editor.Add(t.Context(), k, nil)
				if err == nil {
					mu.Lock()
					made[k.ID]++
					mu.Unlock()
				} else if !errors.Is(err, auth.ErrDuplicate) {
					t.Error(err)
				}
				if err := f.editor.Revoke(t.Context(), k.ID); err != nil && !errors.Is(err, errConflict) && !errors.Is(err, auth.ErrNoSuchKey) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 20 {
		switch id := fmt.Sprint("id", i); made[id] {
		case 0: // all have given way to each other: one repeats it
			k := testRecord("repeated " + id)
			k.ID = id
			f.must(f.editor.Add(t.Context(), k, nil), f.editor.Revoke(t.Context(), id))
		case 1:
		default:
			t.Errorf("%s was made %d times", id, made[id])
		}
	}
	keys := 0
	f.must(f.editor.Keys(t.Context(), func(l auth.KeySet) error {
		for _, k := range l.Keys {
			if keys++; strings.HasPrefix(k.ID, "id") && !k.Revoked {
				t.Errorf("%s is not revoked", k.ID)
			}
		}
		return nil
	}))
	if keys != 22 {
		t.Errorf("%d keys", keys)
	}
}

// The masters of a Cluster share the records: without one of them the keys of the others go on, and
// are changed and read, unless it is that of the index and the changes.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	client := open(t, cluster.Addrs()...)
	editor := NewEditor(client, "iq", auth.Hasher{})
	s := New(client, "iq", auth.Hasher{}, time.Minute, auth.Options{})
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
	master := func(name string) int64 { return client.ClusterKeySlot(t.Context(), name).Val() * 3 / 16384 }
	of := map[int64][]string{} // the keys of each master
	for i := range 60 {
		id := fmt.Sprint("key", i)
		if err := editor.Add(t.Context(), testRecord(id), &auth.Account{APIAccess: auth.AccessPaid}); err != nil {
			t.Fatal(err)
		}
		n := master(s.layout.key(auth.Hasher{}.Hash(id)))
		of[n] = append(of[n], id)
	}
	index, account := master(s.layout.index()), master(s.layout.account("acme"))
	lost := (index + 1) % 3
	if lost == account {
		lost = (index + 2) % 3
	}
	listed := 0
	if err := editor.Keys(t.Context(), func(l auth.KeySet) error { listed += len(l.Keys); return nil }); err != nil || listed != 60 {
		t.Errorf("%d keys are listed, %v", listed, err)
	}
	cluster.Masters[lost].Kill()
	for n := range int64(3) {
		want := "good"
		if n == lost {
			want = "unavailable"
		}
		if got := state(of[n][0]); len(of[n]) < 10 || got != want {
			t.Errorf("one of %d keys of master %d, without master %d: %s", len(of[n]), n, lost, got)
		}
	}
	id := of[index][1]
	state(id)
	if err := editor.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "a revocation is read beside a master that is down", func() bool { return state(id) == "revoked" })
}

// The operator is told of a Redis that may drop keys, if the node may read that.
func TestEvictionPolicyIsTold(t *testing.T) {
	server := redistest.Start(t)
	for policy, told := range map[string]bool{"noeviction": false, "volatile-lru": false, "allkeys-lru": true, "allkeys-random": true} {
		if got := server.Do("CONFIG", "SET", "maxmemory-policy", policy); got != "+OK" {
			t.Fatal(got)
		}
		var log testkit.Log
		s := New(open(t, server.Addr), "iq", auth.Hasher{}, time.Minute, auth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s.Close()
		s.begin(t.Context())
		if got := strings.Contains(log.String(), policy) && strings.Contains(log.String(), "noeviction"); got != told {
			t.Errorf("%s: the log says %s", policy, log.String())
		}
	}
}

// Records of other issuers: an account that does not exist has paid for nothing, scopes of others are
// kept, and what makes no sense lets nobody in and refuses nobody.
func TestRecordsOfOtherIssuers(t *testing.T) {
	f := newFleet(t)
	f.still()
	const rest = `"kind":"buyer","account":"acme"`
	f.write("k3", `{"id":"k3","kind":"buyer","account":"ghost","scopes":["openid","inquiries:read"]}`)
	if g, err := f.find("k3"); err != nil || g.Revoked || g.Principal.PaidAccess || g.Principal.Scopes != "openid inquiries:read" {
		t.Errorf("%+v, %v", g, err)
	}
	f.write("k3", `{"id":"k3",`+rest+`}`)
	f.Invalidate(everything)
	f.finds("a good record", "k3", false)
	for _, text := range []string{
		"x", `{"id":"k","account":"acme"}`, `{"id":"k","kind":"buyer"}`, `{"id":"k","kind":"admin","account":"acme"}`,
		`{` + rest + `}`, `{"id":"a\nb",` + rest + `}`, `{"id":"k",` + rest + `} {}`, `{"id":"k",` + rest + `,"expires_at":"tomorrow"}`,
		`{"id":"k",` + rest + `,"revoked":"yes"}`, `{"id":"k",` + rest + `,"revoke":true}`,
		`{"id":"k",` + rest + strings.Repeat(" ", maxRecord) + `}`,
	} {
		f.write("k3", text)
		f.Invalidate(everything)
		f.refuses(fmt.Sprintf("%.80s", text), "k3")
	}
	f.must(f.client.HSet(t.Context(), f.layout.index(), "id:k3", hexOf("k3")).Err())
	for _, text := range []string{
		`{"id":"acme","api_access":"maybe"}`, `{"id":"acme","api_access":"paid","plan":"a\nb"}`, `{"id":"rich","api_access":"paid"}`,
	} {
		f.must(f.client.Set(t.Context(), f.layout.account("acme"), text, 0).Err())
		f.Invalidate(everything)
		f.refuses(text, "k1")
	}
	if err := f.editor.Keys(t.Context(), func(auth.KeySet) error { return nil }); !errors.Is(err, auth.ErrMalformedResponse) {
		t.Errorf("lists garbage: %v", err)
	}
	f.must(f.client.Del(t.Context(), f.layout.key(auth.Hasher{}.Hash("k2"))).Err(), f.client.LPush(t.Context(), f.layout.key(auth.Hasher{}.Hash("k2")), "x").Err())
	f.refuses("no string", "k2")
}

// A long list comes in pages, all of it and each page in order.
func TestListsComeInPages(t *testing.T) {
	f := newFleet(t)
	fill(t, f.client, f.layout, 5000)
	keys, accounts, longest := map[string]bool{}, map[string]bool{}, 0
	f.must(f.editor.Keys(t.Context(), func(l auth.KeySet) error {
		longest = max(longest, len(l.Keys))
		for _, k := range l.Keys {
			keys[k.ID] = true
			if a := l.Account(k.Account); a == nil || a.APIAccess != auth.AccessPaid {
				t.Errorf("%s is listed with the account %+v", k.ID, a)
			}
		}
		if !slices.IsSortedFunc(l.Keys, func(a, b auth.KeyRecord) int { return strings.Compare(a.ID, b.ID) }) {
			t.Error("a page is in no order")
		}
		return nil
	}), f.editor.Accounts(t.Context(), func(some []auth.Account) error {
		longest = max(longest, len(some))
		for _, a := range some {
			accounts[a.ID] = true
		}
		return nil
	}))
	if len(keys) != 5002 || len(accounts) != 5001 || longest > pageSize {
		t.Errorf("lists %d keys and %d accounts, up to %d in a page", len(keys), len(accounts), longest)
	}
	enough := errors.New("enough")
	if err := f.editor.Keys(t.Context(), func(auth.KeySet) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("who has seen enough: %v", err)
	}
}

// fill stores n keys, each of an account of its own, as an issuer may.
func fill(t *testing.T, client redis.Cmdable, l layout, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := from; i < min(n, from+1000); i++ {
				k := testRecord(fmt.Sprint("more", i))
				k.Account = fmt.Sprint("account", i)
				p.Set(t.Context(), l.key(k.Digest), encode(k), 0)
				p.Set(t.Context(), l.account(k.Account), encode(auth.Account{ID: k.Account, APIAccess: auth.AccessPaid}), 0)
				p.HSet(t.Context(), l.index(), fieldID+k.ID, k.Digest.Hex(), k.Digest.Hex(), k.ID)
				p.HSet(t.Context(), l.accounts(), k.Account, "")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What is read back is what was stored, and nothing that is stored makes a key that was not meant.
func FuzzRecord(f *testing.F) {
	f.Add(`{"id":"k1","kind":"buyer","account":"acme","scopes":["inquiries:read"],"expires_at":"2027-01-01T00:00:00Z","revoked":true}`)
	f.Add(`{"id":"acme","api_access":"paid","plan":"pro"}`)
	f.Add(`{"id":"k1","kind":"buyer","account":"acme"}{}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		var k, again auth.KeyRecord
		if err := parse(text, &k); err == nil {
			if err := parse(encode(k), &again); err != nil || k.Validate() != nil || !again.Equal(k) {
				t.Fatalf("%+v came back as %+v, %v", k, again, err)
			}
		} else if !errors.Is(err, auth.ErrMalformedResponse) {
			t.Fatal(err)
		}
		var a auth.Account
		if err := parse(text, &a); err == nil && a.Validate() != nil || err != nil && !errors.Is(err, auth.ErrMalformedResponse) {
			t.Fatalf("%+v, %v", a, err)
		}
	})
}

// LISTED_KEYS keys are listed page by page, in a Cluster too. In make nightly there are a million, which
// do not fit into the memory that the listing may use.
func TestManyKeys(t *testing.T) {
	n := int(testkit.Number(t, "LISTED_KEYS", 20_000))
	for name, addrs := range map[string][]string{"standalone": {redistest.Start(t).Addr}, "cluster": redistest.StartCluster(t, 3).Addrs()} {
		client := open(t, addrs...)
		fill(t, client, layout{"iq", "sha256"}, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		begin, keys, most := time.Now(), 0, uint64(0)
		if err := NewEditor(client, "iq", auth.Hasher{}).Keys(t.Context(), func(l auth.KeySet) error {
			if keys += len(l.Keys); keys*10/n != (keys-len(l.Keys))*10/n {
				runtime.ReadMemStats(&after)
				most = max(most, after.HeapInuse)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d keys in %v, heap in use at most %d MiB, %d before", name, keys, time.Since(begin), most>>20, before.HeapInuse>>20)
		if keys < n || most > before.HeapInuse+64<<20 {
			t.Errorf("%s: %d keys are listed, with %d MiB", name, keys, most>>20)
		}
	}
}
