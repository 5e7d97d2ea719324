package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// reload has the files read at once, and gives what the log says from then on.
func (p *program) reload() (logged string) {
	p.t.Helper()
	before := len(p.logs.String())
	p.app.Reload()
	p.eventually("a reload ends", func() bool {
		logged = p.logs.String()[before:]
		return strings.Contains(logged, `"configuration reloaded"`) || strings.Contains(logged, `"configuration not reloaded`)
	})
	return logged
}

// onlyWhenTold keeps the program from polling its files, so that a reload is the
// one that the test has asked for.
const onlyWhenTold = time.Hour

const reloaded = "inquiry_gateway_config_last_reload_successful"

// A part that needs what only a start opens is refused, whole, and says so.
func TestReloadIntoARedisThatIsNotOpen(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, setup{pollFiles: onlyWhenTold, yaml: "request_timeout: 4s"})
	p.edit("request_timeout: 4s", `redis: {addrs: ["`+server.Addr+`"]}`)
	p.edit("{keys_file: keys.yaml}", "{redis: {}}")
	logged := p.reload()
	if !strings.Contains(logged, "auth.redis: ") || !strings.Contains(logged, "restart") || !strings.Contains(logged, "redis.addrs") {
		t.Errorf("the log says %s", logged)
	}
	p.gets(http.StatusOK, buyerList, "buyer")
	if p.metric(reloaded) != 0 {
		t.Error("the metric says that the file runs")
	}
	if shown := string(p.ops("/ops/config").body); !strings.Contains(shown, "keys_file: ") || strings.Contains(shown, server.Addr) {
		t.Errorf("/ops/config shows what does not run:\n%s", shown)
	}
}

// What waits for a restart is named, stays as it runs, and keeps nothing else
// from being taken over. check --against says which is which.
func TestReloadKeepsWhatNeedsARestart(t *testing.T) {
	p := start(t, setup{pollFiles: onlyWhenTold, yaml: "cache: {jitter: 0}\nredis: {prefix: first}"})
	p.edit("prefix: first", "prefix: second")
	p.edit("jitter: 0", "jitter: 0.5")
	logged := p.reload()
	if !strings.Contains(logged, `"keys":["redis.prefix"]`) {
		t.Errorf("the log does not name the key: %s", logged)
	}
	shown := string(p.ops("/ops/config").body)
	if !strings.Contains(shown, "prefix: first") || !strings.Contains(shown, "jitter: 0.5") {
		t.Errorf("/ops/config shows\n%s", shown)
	}
	if p.metric(reloaded) != 0 {
		t.Error("the metric says that all of the file runs")
	}
	out, _, code := command(t, "check", "-c", filepath.Join(p.dir, "gateway.yaml"), "--against", p.app.OpsURL())
	if code != 1 || !strings.Contains(out, "redis.prefix  first    second  restart") {
		t.Errorf("check --against: exit code %d\n%s", code, out)
	}
	p.edit("prefix: second", "prefix: first")
	p.reload()
	if p.metric(reloaded) != 1 {
		t.Error("the metric does not see that the file is what runs again")
	}
}

// A listener that others can reach keeps its token, whatever the file says of
// the next start.
func TestReloadOpensTheOpsListenerToNobody(t *testing.T) {
	p := start(t, setup{pollFiles: onlyWhenTold, prepare: func(p *program) {
		p.write("token", "first\n")
		p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0}", "ops: {listen: '0.0.0.0:0', token_file: token}", 1))
	}})
	p.edit("ops: {listen: '0.0.0.0:0', token_file: token}", "ops: {listen: 127.0.0.1:0}")
	if logged := p.reload(); !strings.Contains(logged, "set ops.token_file") || !strings.Contains(logged, "restart") {
		t.Errorf("the log says %s", logged)
	}
	if a := p.opsAs(""); a.status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", a.status)
	}
}

// opsAs reads /ops/config with a token, or without one.
func (p *program) opsAs(token string) answer {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, strings.Replace(p.app.OpsURL(), "[::]", "127.0.0.1", 1)+"/ops/config", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return p.do(r)
}

// A new token of the ops listener counts at once, and the old one no more.
func TestReloadOfTheOpsToken(t *testing.T) {
	t.Parallel() // it waits
	p := start(t, setup{prepare: func(p *program) {
		p.write("token", "first\n")
		p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0}", "ops: {listen: 127.0.0.1:0, token_file: token}", 1))
	}})
	if p.opsAs("first").status != http.StatusOK {
		t.Fatal("the token is not taken")
	}
	p.write("token", "second\n")
	p.eventually("the new token counts", func() bool { return p.opsAs("second").status == http.StatusOK })
	if old := p.opsAs("first").status; old != http.StatusUnauthorized {
		t.Errorf("the old token: %d", old)
	}
}

// A longer request_timeout holds for fills.
func TestReloadOfTheRequestTimeout(t *testing.T) {
	t.Parallel() // it waits
	p := start(t, setup{pollFiles: onlyWhenTold, yaml: "request_timeout: 200ms", upstream: []string{"timeout: 2s", "timeout: 200ms"}})
	p.system.SetLatency(500 * time.Millisecond)
	p.gets(http.StatusGatewayTimeout, buyerList, "buyer")
	p.edit("request_timeout: 200ms", "request_timeout: 1m")
	p.edit("  timeout: 200ms", "  timeout: 5s")
	p.reload()
	p.gets(http.StatusOK, buyerList, "buyer")
}

// revoke revokes the key "buyer" in the keys file.
func (p *program) revoke() {
	p.t.Helper()
	if _, errOut, code := command(p.t, "keys", "revoke", "buyer", "--file", filepath.Join(p.dir, "keys.yaml")); code != 0 {
		p.t.Fatal(errOut)
	}
}

// Keys are read whatever the configuration is like: a revocation that comes
// with a mistake elsewhere counts.
func TestRevocationBesideAFaultyConfiguration(t *testing.T) {
	p := start(t, setup{yaml: "request_timeout: 4s"})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.edit("request_timeout: 4s", "request_timout: 4s")
	p.revoke()
	begun := time.Now()
	p.soon("the revoked key is refused", func() bool { return p.get(buyerList, "buyer").status == http.StatusUnauthorized })
	t.Logf("refused after %s", time.Since(begun).Round(time.Millisecond))
	p.eventually("the metric tells of the mistake", func() bool { return p.metric(reloaded) == 0 })
	p.edit("request_timout: 4s", "request_timeout: 5s")
	p.eventually("the mended file counts", func() bool { return p.metric(reloaded) == 1 })
}

// soon is eventually for what has a second, and some time for a busy machine.
func (p *program) soon(what string, ok func() bool) {
	p.t.Helper()
	begun := time.Now()
	p.eventually(what, ok)
	if took := time.Since(begun); took > 2*time.Second {
		p.t.Errorf("%s only after %s", what, took)
	}
}

// A bad keys file keeps no change of the configuration back, and the mended one
// counts.
func TestConfigurationBesideAFaultyKeysFile(t *testing.T) {
	t.Parallel() // it waits
	p := start(t, setup{yaml: "request_timeout: 4s"})
	good := p.read("keys.yaml")
	p.write("keys.yaml", "keys: nonsense\n")
	p.eventually("the metric tells of the keys", func() bool { return p.metric(reloaded) == 0 })
	if p.gets(http.StatusOK, buyerList, "buyer"); !strings.Contains(p.logs.String(), "keys file not reloaded") || p.metric(`inquiry_gateway_auth_reloads_total{result="failed"}`) != 1 {
		t.Error("the mistake is not logged and counted")
	}
	p.edit("request_timeout: 4s", "request_timeout: 5s")
	p.soon("the change counts", func() bool { return strings.Contains(string(p.ops("/ops/config").body), "request_timeout: 5s") })
	if p.metric(reloaded) != 0 {
		t.Error("the metric forgets the keys file")
	}
	p.write("keys.yaml", good)
	p.eventually("all is good again", func() bool { return p.metric(reloaded) == 1 })
}

// What failed is tried again by itself: here a file that a reload needs appears
// without any file that is watched having changed.
func TestAFailedReloadIsTriedAgain(t *testing.T) {
	t.Parallel() // it waits
	p := start(t, setup{yaml: "cache: {jitter: 0}", pollFiles: 10 * time.Millisecond})
	sealing := filepath.Join(t.TempDir(), "sealing")
	p.edit("jitter: 0", "jitter: 0.5, sealing_keys_file: "+sealing)
	p.eventually("the missing file is told of", func() bool { return p.metric(reloaded) == 0 })
	writeFile(t, sealing, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	p.eventually("the reload is tried again", func() bool { return p.metric(reloaded) == 1 })
}

// What is known of keys outlives a reload that does not change where they come
// from.
func TestReloadWhileTheKeyStoreIsAway(t *testing.T) {
	server := redistest.Start(t)
	p := keysInRedis(t, server.Addr)
	keysCommandFor[auth.Account](p, "keys", "account", legacy.BuyerTypical, "--api-access", "paid")
	p.keys["k1"] = keysCommandFor[shownKey](p, "keys", "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1").Key
	p.eventually("both changes are known", func() bool { return p.metric("inquiry_gateway_auth_store_version") == 2 })
	p.eventually("the key works", func() bool { return p.get(buyerList, "k1").status == http.StatusOK })
	server.Kill()
	p.keepsKeys("k1", "max_records: 10000", "max_records: 9999", "ttl: 10m", "ttl: 9m", "redis: {}", "redis: {timeout: 90ms}")
	if !strings.Contains(string(p.ops("/metrics").body), `inquiry_gateway_auth_lookups_total{result="found",store="redis"} 1`) {
		t.Error("the counters of the key store began anew")
	}
	server.Restart() // without its data, and with a key store that is not set up
	p.gets(http.StatusOK, buyerList, "k1")
	p.edit("redis: {timeout: 90ms}", "redis: null, keys_file: keys.yaml")
	p.reload()
	p.gets(http.StatusUnauthorized, buyerList, "k1")
}

func TestReloadWhileTheAuthorizationServerIsAway(t *testing.T) {
	p, s := introspecting(t, "cache_ttl: 10m", func(s *setup) { s.pollFiles = onlyWhenTold })
	p.gets(http.StatusOK, buyerList, "buyer")
	s.change(func() {
		s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	})
	p.keepsKeys("buyer", "ttl: 10m", "ttl: 9m", "timeout: 500ms", "timeout: 400ms", "kind: role", "kind: other",
		"/introspect", "/elsewhere")
	s.change(func() {
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"active":false}`)
		}
	})
	p.edit("ttl: 9m", "ttl: 8m")
	p.reload()
	p.eventually("the server's answer counts again", func() bool { return p.get(buyerList, "buyer").status == http.StatusUnauthorized })
}

// keepsKeys makes changes of the configuration, one reload each, while the key store is away:
// a known key stays good, and another one is neither refused nor let in.
func (p *program) keepsKeys(known string, changes ...string) {
	p.t.Helper()
	for ; len(changes) > 0; changes = changes[2:] {
		p.edit(changes[0], changes[1])
		if logged := p.reload(); !strings.Contains(logged, `"configuration reloaded"`) {
			p.t.Fatalf("%s: %s", changes[1], logged)
		}
		p.gets(http.StatusOK, buyerList, known)
		if a := p.guess(0); a.status != http.StatusServiceUnavailable {
			p.t.Errorf("%s: an unknown key gets %d", changes[1], a.status)
		}
	}
}

// Two hundred reloads under load: after each the lists are those of its mapping, whatever was
// under way, and the legacy system never sees more requests at a time than the bulkhead lets
// through.
func TestTwoHundredReloadsUnderLoad(t *testing.T) {
	system := legacy.New(legacy.Options{})
	var under, most atomic.Int64
	p := start(t, setup{
		pollFiles: onlyWhenTold, yaml: "cache: {jitter: 0, buyer: {ttl: 1ms, stale_while_revalidate: 0s}, seller: {ttl: 1ms, stale_while_revalidate: 0s}}",
		upstream: []string{"timeout: 2s", "timeout: 4s\n  max_concurrent: 3\n  max_concurrent_per_account: 2"},
		backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := under.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer under.Add(-1)
			time.Sleep(2 * time.Millisecond)
			system.ServeHTTP(w, r)
		}),
	})
	done := make(chan struct{})
	var load sync.WaitGroup
	for _, id := range []string{"buyer", "other-buyer", "empty-buyer", "seller"} {
		for _, query := range []string{"", "?status=pending"} {
			load.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(5 * time.Millisecond):
					}
					if a := p.get(listOf(strings.TrimPrefix(strings.TrimPrefix(id, "other-"), "empty-"))+query, id); a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
						t.Errorf("%s: %d %s", id, a.status, a.body)
						return
					}
				}
			})
		}
	}
	begun, words := time.Now(), [2]string{"something-else", "other"}
	for n := range 200 {
		now, before := words[n%2], words[(n+1)%2]
		p.edit("default: "+before, "default: "+now)
		if logged := p.reload(); strings.Contains(logged, "not reloaded") {
			t.Fatal(logged)
		}
		var list answer
		p.eventually("sellers have a place", func() bool { list = p.get(sellerList, "seller"); return list.status == http.StatusOK })
		if text := string(list.body); !strings.Contains(text, `"`+now+`"`) || strings.Contains(text, `"`+before+`"`) {
			t.Fatalf("after reload %d a list of the mapping before: %s", n, list.header.Get("Cache-Status"))
		}
	}
	took := time.Since(begun)
	close(done)
	load.Wait()
	t.Logf("200 reloads in %s; at most %d requests at a time", took.Round(time.Millisecond), most.Load())
	if most.Load() > 3 {
		t.Errorf("%d requests at a time reached the legacy system, 3 may", most.Load())
	}
}
