package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// keysInRedis has the keys in Redis. A key is remembered for longer than a test waits: only a
// change that the node hears of can be why one is noticed.
func keysInRedis(address string) setup {
	return setup{
		onlyWhenTold: true, redis: fmt.Sprintf("{addrs: [%q], %s}", address, relaxedTimeout),
		auth: "{redis: {}, cache_ttl: 10m}", yaml: "rate_limit: {per_second: 1000, plans: {pro: {per_second: 2000}}}",
	}
}

// keysConfig writes a configuration whose keys are in the Redis at that address.
func keysConfig(t *testing.T, address, timeout string) (file string) {
	file = filepath.Join(t.TempDir(), "gateway.yaml")
	s := keysInRedis(address)
	prefix := regexp.MustCompile(`\W+`).ReplaceAllString(t.Name(), "-") // tests share a Redis
	s.redis = fmt.Sprintf("{addrs: [%q], timeout: %s, prefix: %q}", address, timeout, prefix)
	writeFile(t, file, s.configuration("http://127.0.0.1:1"))
	return file
}

// keysCommandFor runs a command about keys with --json and decodes the answer.
func keysCommandFor[T any](t *testing.T, config string, args ...string) (v T) {
	t.Helper()
	out, errOut, code := command(t, append([]string{"keys", "-c", config, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %v: %s%s", args, code, err, out, errOut)
	}
	return v
}

type shownKey struct {
	Key string
	auth.KeyRecord
	Old *auth.KeyRecord
}

// newKey runs keys new or keys rotate, and lets the nodes use the key.
func newKey(t *testing.T, nodes []*program, args ...string) shownKey {
	t.Helper()
	made := keysCommandFor[shownKey](t, nodes[0].file(), args...)
	for _, node := range nodes {
		node.keys[made.ID] = made.Key
	}
	return made
}

// The life of a key in front of running nodes, with each store: made, used, rotated, its
// account unpaid and paid again, revoked. What is stored is not the key.
func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	file := setup{auth: "{keys_file: keys.yaml, pepper_file: pepper}", prepare: func(p *program) {
		p.write("pepper", "a-pepper-that-is-long-enough\n")
		p.write("keys.yaml", "accounts: []\nkeys: []\n")
	}}
	for store, s := range map[string]setup{"keys file": file, "Redis": keysInRedis(server.Addr)} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			nodes := []*program{start(t, s)}
			if store == "Redis" {
				nodes = append(nodes, start(t, s))
			}
			everywhere := func(id string, status int) {
				t.Helper()
				for _, node := range nodes {
					node.comesToGet(status, buyerList, id)
				}
			}
			keys := func(args ...string) auth.Account {
				t.Helper()
				return keysCommandFor[auth.Account](t, nodes[0].file(), args...)
			}
			keys("account", legacy.BuyerTypical, "--api-access", "paid")
			made := newKey(t, nodes, "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1")
			everywhere("k1", http.StatusOK)
			if !regexp.MustCompile(`^iqb_[0-9A-Za-z]{36}$`).MatchString(made.Key) || strings.Contains(nodes[0].read("keys.yaml"), made.Key) {
				t.Errorf("the key %s", made.Key)
			}

			next := newKey(t, nodes, "rotate", "k1", "--id", "k2", "--overlap", "1h", "--expires", "720h")
			if next.Account != made.Account || next.Kind != "buyer" || next.Old == nil || next.Old.ExpiresAt.IsZero() || next.ExpiresAt.IsZero() {
				t.Errorf("keys rotate: %+v", next)
			}
			everywhere("k2", http.StatusOK)
			everywhere("k1", http.StatusOK)
			keys("account", legacy.BuyerTypical, "--api-access", "none")
			everywhere("k2", http.StatusForbidden)
			keys("account", legacy.BuyerTypical, "--api-access", "paid")
			everywhere("k2", http.StatusOK)
			keys("revoke", "k1")
			everywhere("k1", http.StatusUnauthorized)
			access := nodes[len(nodes)-1].explained("--key-id", "k1").Access
			if access.Verdict != "refused" || !strings.Contains(access.Reason, auth.ReasonRevoked) {
				t.Errorf("explain: %+v", access)
			}
			newKey(t, nodes, "rotate", "k2", "--id", "k3", "--overlap", "0s")
			everywhere("k2", http.StatusUnauthorized)
			everywhere("k3", http.StatusOK)
			var states []string
			for _, k := range keysCommandFor[auth.KeySet](t, nodes[0].file(), "list").Keys {
				if strings.HasPrefix(k.ID, "k") {
					states = append(states, k.ID+" "+k.State(time.Now()))
				}
			}
			if slices.Sort(states); !slices.Equal(states, []string{"k1 revoked", "k2 expired", "k3 active"}) {
				t.Errorf("keys list: %q", states)
			}
		})
	}
}

// What the commands say where keys are in Redis, and where that is away.
func TestKeysInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, keysInRedis(server.Addr))
	p.script("keys-redis")

	// A record that cannot be read is named, and hides no other one.
	commandSays(t, 0, "iqb_", "keys", "-c", p.file(), "new", "--kind", "buyer", "--account", "newcomer", "--id", "good")
	digest := strings.Repeat("0a", 32)
	server.Do("HSET", "iq:{keys}:sha256", "id:bad", digest, digest, "bad")
	server.Do("SET", "iq:key:sha256:"+digest, `{"id":"bad","kind":"buyer","account":"newcomer","revoke":true}`)
	server.Do("HSET", "iq:{keys}:accounts", "odd", "")
	server.Do("SET", "iq:account:odd", "paid")
	commandSays(t, 0, "account newcomer: api access paid", "keys", "-c", p.file(), "account", "newcomer", "--api-access", "paid")
	for _, args := range [][]string{{"list", "good", "key bad"}, {"account", "newcomer", "account odd"}, {"--json list", `"keys":[{"id":"good"`, "key bad"}} {
		out, errOut, code := command(t, append([]string{"keys", "-c", p.file()}, strings.Fields(args[0])...)...)
		if code != 1 || !strings.Contains(out, args[1]) || !strings.Contains(errOut, args[2]) || strings.Contains(errOut, digest) {
			t.Errorf("keys %s: exit code %d: %s%s", args[0], code, out, errOut)
		}
	}
	server.Kill()
	commandSays(t, 1, "refused", "keys", "-c", p.file(), "list")
	if a := p.guess(0); a.status != http.StatusServiceUnavailable {
		t.Errorf("an unknown key: %d", a.status)
	}
	p.consoleSays("keystore", "refused")
}

// An empty prefix is the default one, for all that the gateway has in Redis.
func TestAnEmptyPrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := keysInRedis(server.Addr)
	s.redis = fmt.Sprintf("{addrs: [%q], prefix: '', %s}", server.Addr, relaxedTimeout)
	s.upstream = []string{"timeout: 2s", "timeout: 2s\n  max_requests_per_second: 100"}
	p := start(t, s)
	newKey(t, []*program{p}, "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1", "--api-access", "paid")
	p.comesToGet(http.StatusOK, buyerList, "k1")
	commandSays(t, 0, "", "purge", "--ops", p.app.OpsURL(), "--account", legacy.BuyerTypical)
	p.comesToGet(http.StatusOK, buyerList, "k1")
	found := server.Client().Keys(t.Context(), "*").Val()
	for _, key := range found {
		if !strings.HasPrefix(key, "iq:") {
			t.Errorf("%s is outside of the prefix", key)
		}
	}
	if len(found) < 6 {
		t.Errorf("only %q is there", found)
	}
}

// No command that waits for standard input outlives Ctrl-C or SIGTERM.
func TestWhatWaitsForInputEnds(t *testing.T) {
	testkit.SkipShort(t)
	config := keysConfig(t, "127.0.0.1:1", "1s")
	in, out, err := os.Pipe()
	must(t, err)
	standard := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = standard; _ = out.Close(); _ = in.Close() })
	for _, args := range [][]string{
		{"keys", "hash"}, {"draft", "--buyer", "-", "--buyer-account", "a"}, {"ttl", "--log", "-"},
		{"probe", "-c", config, "--buyer", "a", "--sample", "-"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int)
		var said bytes.Buffer
		go func() { ended <- run(ctx, append([]string{"inquiry-gateway"}, args...), io.Discard, &said) }()
		interrupt()
		select {
		case code := <-ended:
			if code != exitFailed || !strings.Contains(said.String(), "interrupted") {
				t.Errorf("%v: exit code %d: %s", args, code, said.String())
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%v waits on", args)
		}
	}
}

// Only what a caller can present is hashed.
func TestKeysHash(t *testing.T) {
	testkit.SkipShort(t)
	standard, file := os.Stdin, filepath.Join(t.TempDir(), "input")
	t.Cleanup(func() { os.Stdin = standard })
	for input, want := range map[string]string{
		"password": "", "password\n": "", "password\r\n": "", "password\nanother": "", strings.Repeat("k", 8192): "",
		"": "no key", "\n": "no key", "password \n": "no blanks", " password": "no blanks", "pass word": "no blanks", "p\u00e4ss": "visible ASCII",
		strings.Repeat("k", 8193): "longer than 8192", strings.Repeat("k", 8200) + "\n": "longer than 8192", strings.Repeat("k", 50000): "longer than 8192",
		"iqb_" + strings.Repeat("0", 36): "checksum",
	} {
		writeFile(t, file, input)
		f, err := os.Open(file)
		must(t, err)
		os.Stdin = f
		out, errOut, code := command(t, "keys", "hash")
		_ = f.Close()
		if want == "" && (code != 0 || !strings.HasPrefix(out, "sha256: ")) || want != "" && (code != 1 || out != "" || !strings.Contains(errOut, want)) {
			t.Errorf("%.20q: exit code %d: %s%s; want %q", input, code, out, errOut, want)
		}
	}
}

// A Redis that evicts is told of, and whatever it drops refuses nobody.
func TestKeysInARedisThatEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	p := start(t, keysInRedis(server.Addr))
	p.logsEventually("its maxmemory-policy is allkeys-lru; set noeviction")
	if _, errOut, code := command(t, "probe", "-c", p.file(), "--buyer", legacy.BuyerTypical); code != 0 || !strings.Contains(errOut, "its maxmemory-policy is allkeys-lru") {
		t.Errorf("probe: exit code %d, %s", code, errOut)
	}
	for i := range 3 {
		newKey(t, []*program{p}, "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", fmt.Sprint("k", i+1), "--api-access", "paid")
	}
	p.readsChanges(server.Client())
	p.comesToGet(http.StatusOK, buyerList, "k1")
	server.Do("DEL", "iq:key:sha256:"+auth.Hasher{}.Hash(p.keys["k3"]).Hex())
	p.gets(http.StatusServiceUnavailable, buyerList, "k3")
	commandSays(t, 1, "key k3", "keys", "-c", p.file(), "list")
	server.Do("DEL", "iq:account:"+legacy.BuyerTypical)
	p.gets(http.StatusServiceUnavailable, buyerList, "k2")
	server.Do("DEL", "iq:{keys}:sha256")
	p.gets(http.StatusOK, buyerList, "k1") // within its ttl
	if a := p.guess(0); a.status != http.StatusServiceUnavailable {
		t.Errorf("an unknown key: %d", a.status)
	}
}

// Wherever the connection of keys new and keys rotate breaks, the command says that the outcome is unknown, and can be
// repeated. Nobody is locked out by what is half done, and whoever was not shown the key can revoke it.
func TestKeysCommandsAreRepeatableWhereverRedisIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, args := range map[string][]string{
		"new":    {"new", "--kind", "buyer", "--account", "acme", "--id", "X", "--api-access", "paid"},
		"rotate": {"rotate", "old", "--id", "X", "--overlap", "1h"},
		"revoke": {"revoke", "old"},
	} {
		for what, lose := range map[string]func(*redistest.Proxy){
			"requests":   (*redistest.Proxy).Cut,
			"answers":    func(p *redistest.Proxy) { p.DropAnswer(true) },
			"one answer": func(p *redistest.Proxy) { p.DropAnswer(false) },
		} {
			// broken runs the command over a connection that breaks at its n-th write.
			broken := func(t *testing.T, n int) (met bool) {
				direct := keysConfig(t, server.Addr, "2s")
				commandSays(t, 0, "iqb_", "keys", "-c", direct, "new", "--kind", "buyer", "--account", "acme", "--id", "old", "--api-access", "paid")
				var reached atomic.Bool
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.BeforeWrite(func(i int) {
					if i == n {
						reached.Store(true)
						lose(proxy)
					}
				})
				timeout := "250ms"
				if what == "one answer" { // the connection ends at once; a timeout would make another one, and other writes the n-th
					timeout = "2s"
				}
				again := append([]string{"keys", "-c", direct}, args...)
				out, errOut, code := command(t, append([]string{"keys", "-c", keysConfig(t, proxy.Addr, timeout)}, args...)...)
				stored := map[string]auth.KeyRecord{}
				listed, _, _ := command(t, "keys", "-c", direct, "--json", "list") // which may name a key that was not finished
				var l auth.KeySet
				must(t, json.Unmarshal([]byte(listed), &l))
				for _, k := range l.Keys {
					stored[k.ID] = k
				}
				next, has := stored["X"]
				old, there := stored["old"]
				if !there || name == "rotate" && !old.ExpiresAt.IsZero() && !has {
					t.Errorf("the old key has ended and there is no new one: %+v", stored)
				}
				switch {
				case code == 0 && name != "revoke" && (!has || !strings.HasPrefix(out, "iqb_")), code == 0 && name == "revoke" && !old.Revoked:
					t.Errorf("the command succeeds, but %+v, %q", stored, out)
				case code != 0 && (has || old.Revoked || !old.ExpiresAt.IsZero()) && !strings.Contains(errOut, "outcome unknown"):
					t.Errorf("something is changed, and the command says %s", errOut)
				case code != 0 && name == "revoke":
					commandSays(t, 0, "old is revoked", again...)
				case code != 0 && has:
					if !strings.Contains(errOut, "keys list") || !strings.Contains(errOut, "revoke") {
						t.Errorf("a key that nobody was shown, and not a word about it: %s", errOut)
					}
					commandSays(t, 0, "X is revoked", "keys", "-c", direct, "revoke", "X")
				case code != 0: // X is not blocked
					commandSays(t, 0, "iqb_", again...)
				}
				if next.Revoked {
					t.Errorf("%+v", next)
				}
				return reached.Load()
			}
			t.Run(name+", lost "+what, func(t *testing.T) {
				t.Parallel()
				for n, met := 1, true; met; n++ {
					t.Run(fmt.Sprint("from write ", n, " on"), func(t *testing.T) { met = broken(t, n) })
				}
			})
		}
	}
}

// What one command reads before another one has written, it does not write back.
func TestAccountsSetTwiceAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	set := func(config string, args ...string) error {
		args = append([]string{"keys", "-c", config, "account", "acme"}, args...)
		if out, errOut, code := command(t, args...); code != 0 {
			return fmt.Errorf("%v: exit code %d: %s%s", args, code, out, errOut)
		}
		return nil
	}
	direct := keysConfig(t, server.Addr, "2s")
	for n, met := 1, true; met; n++ {
		must(t, set(direct, "--api-access", "paid", "--plan", ""))
		met = false
		var between error
		proxy := redistest.NewProxy(t, server.Addr)
		proxy.BeforeWrite(func(i int) {
			if i == n {
				met, between = true, set(direct, "--api-access", "none")
			}
		})
		must(t, errors.Join(set(keysConfig(t, proxy.Addr, "5s"), "--plan", "pro"), between))
		want := auth.Account{ID: "acme", APIAccess: auth.AccessNone, Plan: "pro"}
		if !met {
			want.APIAccess = auth.AccessPaid
		}
		if got := keysCommandFor[[]auth.Account](t, direct, "account"); !slices.Equal(got, []auth.Account{want}) {
			t.Errorf("another command before write %d of this one: %+v, want %+v", n, got, want)
		}
	}
}

// authServer is an authorization server (RFC 7662) that is asked about the keys of a program.
type authServer struct {
	*httptest.Server
	p      *program
	broken atomic.Pointer[http.HandlerFunc] // answers instead where it is not nil

	mu    sync.Mutex
	asked map[string]int // by key
}

// introspecting completes a set-up whose keys an authorization server knows. section goes into
// auth, timeout is that of a question.
func introspecting(t *testing.T, timeout, section string, s setup) (*authServer, setup) {
	server := &authServer{asked: map[string]int{}}
	server.Server = httptest.NewServer(server)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.auth = fmt.Sprintf("{introspection: {url: %q, timeout: %s}, %s}", server.URL+"/introspect", timeout, section)
	s.prepare = func(p *program) { server.p = p }
	return server, s
}

func (s *authServer) answer(h http.HandlerFunc) { s.broken.Store(&h) }

func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.PostFormValue("token") // what is read whole is seen to be given up
	s.mu.Lock()
	s.asked[key]++
	s.mu.Unlock()
	if h := s.broken.Load(); h != nil {
		(*h)(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for _, c := range s.p.callers {
		if s.p.keys[c.Record.ID] == key && !c.Record.Revoked && c.Record.ExpiresAt.IsZero() {
			fmt.Fprintf(w, `{"active":true,"sub":%q,"kind":%q,"scope":"other %s","api_access":%q,"jti":%q}`,
				c.Account.ID, c.Kind, strings.Join(c.Record.Scopes, " "), c.Account.APIAccess, c.Record.ID)
			return
		}
	}
	_, _ = io.WriteString(w, `{"active":false}`) // a gateway that left needs no answer
}

// What the authorization server says of a key is what the gateway grants, and no more.
func TestIntrospection(t *testing.T) {
	t.Parallel()
	server, s := introspecting(t, "500ms", "cache_ttl: 10m", setup{})
	p := start(t, s)
	p.keys["nobody"] = "nobodys-key"
	for range 3 {
		p.script("introspection")
	}
	for _, id := range []string{"buyer", "seller"} {
		if n := server.asked[p.keys[id]]; n != 1 {
			t.Errorf("asked %d times about %s, whose grant is cached", n, id)
		}
	}
	if text := p.logs.String(); strings.Contains(text, "nobodys-key") || !strings.Contains(text, `"key_id":"buyer"`) {
		t.Error("the log has a key, or has not the key's id")
	}

	// The time of a request is one for all that it waits for: a key store that is slower than
	// that is unavailable, and not the legacy system too slow.
	server, s = introspecting(t, "10s", "cache_ttl: 10s", setup{yaml: "request_timeout: 500ms", upstream: shortTimeouts})
	p = start(t, s)
	server.answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	begun := time.Now()
	a := p.get(buyerList, "buyer")
	if took := time.Since(begun); a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "auth_unavailable") ||
		took < 400*time.Millisecond || took > 9*time.Second { // the store's own time is 10 s
		t.Errorf("after %v: %d %s", took, a.status, a.body)
	}
	begun = time.Now()
	p.stop()
	if took := time.Since(begun); took > 4*time.Second { // it needs some milliseconds; the look-up would take 9.5 s
		t.Errorf("the stop waits %v for a look-up", took)
	}
}

// guess sends a key that does not exist.
func (p *program) guess(i int, headers ...string) answer {
	return p.get(buyerList, "", append(headers, "Authorization", fmt.Sprintf("Bearer made-up-%d", i))...)
}
