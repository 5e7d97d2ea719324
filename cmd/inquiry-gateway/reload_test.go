package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/legacy"
)

const reloaded = "inquiry_gateway_config_last_reload_successful"

func TestHangupReloads(t *testing.T) {
	hangup := hangups()
	defer signal.Stop(hangup)
	p := start(t, setup{onlyWhenTold: true, prepare: func(p *program) { p.hangup = hangup }})
	must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	p.logsEventually("configuration reloaded")
	p.gets(http.StatusOK, buyerList, "buyer")
}

// A mistake leaves everything as it was, and shows in log and metrics. Keys are read whatever
// the configuration is like: a revocation that comes with a mistake elsewhere counts.
func TestReloadWithAMistake(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "request_timeout: 4s"})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.edit("request_timeout: 4s", "request_timout: 4s")
	commandSays(t, 0, "", "keys", "revoke", "buyer", "--file", filepath.Join(p.dir, "keys.yaml"))
	p.eventually("the revoked key is refused", func() bool { return p.get(buyerList, "buyer").status == http.StatusUnauthorized })
	p.eventually("the failure is counted", func() bool {
		return p.metric(`inquiry_gateway_config_reloads_total{result="failed"}`) > 0 && p.metric(reloaded) == 0
	})
	p.logsEventually("gateway.yaml:4:1: request_timout: unknown key")
	p.gets(http.StatusOK, buyerList, "other-buyer")
	p.edit("request_timout: 4s", "request_timeout: 5s")
	p.eventually("the mended file counts", func() bool { return p.metric(reloaded) == 1 })
}

// Whatever has become of the keys file, it keeps no change of the configuration back, and the old
// keys stay in force; the mended one counts. A start with such a file says so.
func TestReloadWithABadKeysFile(t *testing.T) {
	t.Parallel()
	p := start(t, setup{auth: "{keys_file: keys.yaml, cache_ttl: 8s}", yaml: "cache: {jitter: 0}", onlyWhenTold: true})
	good := p.read("keys.yaml")
	p.write("other.yaml", good)
	for state, said := range map[string]string{
		"missing": "does not exist", "": "is empty", "keys: nonsense\n": "keys: wants a list", good + strings.Repeat("# \n", keysfile.MaxSize/3): "is larger than",
	} {
		name := state[:min(len(state), 10)]
		for _, change := range [][]string{
			{"jitter: 0", "jitter: 0.5"}, {"cache_ttl: 8s", "cache_ttl: 9s"}, {"file: keys.yaml", "file: other.yaml"},
		} {
			if p.write("keys.yaml", state); state == "missing" {
				p.remove("keys.yaml")
			}
			if strings.Contains(change[1], "other") { // a start with it
				_, errOut, code := command(t, "check", "-c", p.file())
				if missing := strings.Contains(errOut, "no such file"); code != 1 || !missing && !strings.Contains(errOut, said) {
					t.Errorf("%q: check says %d %s", name, code, errOut)
				}
			}
			p.edit(change...)
			if logged := p.reload(); !strings.Contains(logged, `"configuration reloaded"`) || !strings.Contains(logged, "keys file not reloaded") || !strings.Contains(logged, said) {
				t.Errorf("%q, %s: the log says %s", name, change[1], logged)
			}
			if shown := string(p.ops("/ops/config").body); !strings.Contains(shown, strings.TrimPrefix(change[1], "file: ")) {
				t.Errorf("%q: %s is not taken over", name, change[1])
			}
			p.gets(http.StatusOK, buyerList, "buyer")
			whole, other := p.metric(reloaded), strings.Contains(change[1], "other") // which has series of its own
			if counted := p.metric(`inquiry_gateway_auth_reloads_total{result="failed"}`) > 0; (whole == 1) != other || counted == other {
				t.Errorf("%q, %s: the metric says %v, counted %t", name, change[1], whole, counted)
			}
			p.write("keys.yaml", good)
			p.edit(change[1], change[0])
			p.reload()
			if p.metric(reloaded) != 1 {
				t.Errorf("%q: the mended file does not count", name)
			}
		}
	}
}

// As many keys as the file may hold: all that reads it has the same bound.
func TestAsManyKeysAsTheFileMayHold(t *testing.T) {
	testkit.SkipUnderRace(t)
	t.Parallel()
	var many string
	p := start(t, setup{onlyWhenTold: true, prepare: func(p *program) {
		many = p.read("keys.yaml")
		var b strings.Builder
		for i := range 21_500 {
			fmt.Fprintf(&b, "  - {id: k%d, sha256: %064x, kind: buyer, account: unpaid, scopes: [\"inquiries:read\"], revoked: false}\n", i, i)
		}
		many += b.String()
		p.write("keys.yaml", many)
	}})
	if len(many) < 2<<20 {
		t.Fatal(len(many))
	}
	p.gets(http.StatusOK, buyerList, "buyer")
	commandSays(t, 0, "good", "check", "-c", p.file())
	commandSays(t, 0, "key buyer is revoked", "keys", "-c", p.file(), "revoke", "buyer")
	if logged := p.reload(); !strings.Contains(logged, `"configuration reloaded"`) || strings.Contains(logged, "not reloaded") {
		t.Error(logged)
	}
	p.gets(http.StatusUnauthorized, buyerList, "buyer")
	p.gets(http.StatusOK, buyerList, "other-buyer")
}

// What failed is tried again by itself: here a file that a reload needs appears without any file
// that is watched having changed. A signal meanwhile has a record and counts, although the mistake is the same.
func TestReloadIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "cache: {jitter: 0.5}"})
	const failed = `inquiry_gateway_config_reloads_total{result="failed"}`
	sealing := filepath.Join(t.TempDir(), "sealing")
	p.edit("jitter: 0.5", "jitter: 0.5, sealing_keys_file: "+sealing)
	p.eventually("the missing file is told of", func() bool { return p.metric(reloaded) == 0 })
	for range 3 {
		before := p.metric(failed)
		p.reload()
		p.eventually("the signal counts", func() bool { return p.metric(failed) > before })
	}
	writeFile(t, sealing, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	p.eventually("the reload is tried again", func() bool { return p.metric(reloaded) == 1 })
}

// The gateway's certificate follows its file.
func TestTLSWithReload(t *testing.T) {
	t.Parallel()
	p := start(t, overTLS(setup{}))
	shown := func() string {
		anything := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the test looks at the certificate itself
		c, err := tls.Dial("tcp", strings.TrimPrefix(p.app.URL(), "https://"), anything)
		must(t, err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if name := shown(); name != "gateway" {
		t.Fatal(name)
	}
	testkit.Certificate(t, p.dir, "second")
	p.eventually("the new certificate is shown", func() bool { return shown() == "second" })
	if strings.Contains(p.logs.String(), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}

// What is known of keys outlives reloads that do not change where they come from, while the
// key store is away: a known key stays good, and another one is neither refused nor let in.
func TestReloadWhileTheKeyStoreIsAway(t *testing.T) {
	t.Parallel()
	keepsKeys := func(t *testing.T, p *program, known string, changes ...string) {
		for ; len(changes) > 0; changes = changes[2:] {
			p.edit(changes[0], changes[1])
			if logged := p.reload(); !strings.Contains(logged, `"configuration reloaded"`) {
				t.Fatalf("%s: %s", changes[1], logged)
			}
			p.gets(http.StatusOK, buyerList, known)
			if a := p.guess(0); a.status != http.StatusServiceUnavailable {
				t.Errorf("%s: an unknown key gets %d", changes[1], a.status)
			}
		}
	}
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		p := start(t, keysInRedis(server.Addr))
		newKey(t, []*program{p}, "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1", "--api-access", "paid")
		p.readsChanges(server.Client())
		p.comesToGet(http.StatusOK, buyerList, "k1")
		p.edit("ttl: 10m", "ttl: 8m") // with Redis up
		p.reload()
		p.gets(http.StatusOK, buyerList, "k1")
		server.Kill()
		keepsKeys(t, p, "k1", "max_records: 10000", "max_records: 9999", "ttl: 8m", "ttl: 9m")
		server.Restart() // without its data, and with a key store that is not set up
		p.gets(http.StatusOK, buyerList, "k1")
		p.edit("redis: {}", "redis: null, keys_file: keys.yaml")
		p.reload()
		p.gets(http.StatusUnauthorized, buyerList, "k1")
	})
}

// A reload of auth gives no client its attempts anew, whatever it changes.
func TestAReloadOfAuthKeepsTheLimitOfInvalidKeys(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	p := start(t, setup{auth: "{keys_file: keys.yaml}", onlyWhenTold: true, now: clock.Now})
	p.write("copy.yaml", p.read("keys.yaml"))
	for i := range 50 {
		p.guess(i)
	}
	for _, change := range [][2]string{{"keys_file:", "cache_ttl: 9s, keys_file:"}, {"keys.yaml", "copy.yaml"}} {
		p.edit(change[0], change[1])
		p.reload()
		p.gets(http.StatusOK, buyerList, "buyer")
		if got := p.guess(0).status; got != http.StatusTooManyRequests {
			t.Errorf("%s: an invalid key of a client that has sent too many gets %d", change[1], got)
		}
	}
}

// What an authorization server has said of a key before a reload counts after it, until the key is
// looked up again, unless another server says it, or of another client, or it is read in another way:
// that is how a grant that was wrong is taken back. Late answers to the store of before are not stored.
func TestReloadOfIntrospection(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	server, s := introspecting(t, "4s", "cache_ttl: 10m", setup{onlyWhenTold: true, now: clock.Now})
	s.auth = strings.Replace(s.auth, "timeout:", "client_id: gate, client_secret_file: secret, timeout:", 1)
	s.prepare = func(p *program) {
		p.write("secret", "first")
		p.write("other-secret", "second")
		testkit.Certificate(t, p.dir, "ca")
	}
	p := start(t, s)
	var mode atomic.Value
	held, release := make(chan bool), make(chan bool)
	server.answer(func(w http.ResponseWriter, _ *http.Request) {
		says := mode.Load()
		if says == "held" {
			held <- true
			<-release
		}
		w.Header().Set("Content-Type", "application/json")
		switch says {
		case "away":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "gone":
			fmt.Fprint(w, `{"active":false}`)
		default:
			fmt.Fprintf(w, `{"active":true,"sub":%q,"kind":"buyer","scope":"inquiries:read","api_access":"paid"}`, legacy.BuyerTypical)
		}
	})
	for _, change := range []struct {
		old, now string
		kept     bool
	}{
		{"/introspect", "/elsewhere", false},                         // another server; in each state, and so is the first that keeps them
		{"client_id: gate", "client_id: other", false},               // a server may tell clients different things (RFC 7662, 2.2)
		{"timeout:", "claims: {account: username}, timeout:", false}, // whose lists it opens
		{"timeout:", "claims: {kind: role}, timeout:", false},        // which lists
		{"timeout:", "claims: {api_access: tier}, timeout:", false},  // whether any
		{"timeout:", "claims: {plan: tier}, timeout:", false},        // how many
		{"_file: secret", "_file: other-secret", true},               // the same client
		{"timeout:", "client_auth: post, timeout:", true},            // the same client
		{"timeout:", "ca_file: ca.pem, timeout:", true},              // the name is that of the same server
		{"timeout: 4s", "timeout: 3s", true},                         // when, not what
		{"cache_ttl: 10m", "cache_ttl: 9m", true},                    // for how long
	} {
		states := []string{"known fresh"}
		if change.now == "/elsewhere" || strings.Contains(change.now, "other-secret") {
			states = append(states, "known due", "under way", "store away")
		}
		for _, state := range states {
			name := change.now + ", " + state
			p.keys["k"] = regexp.MustCompile(`\W`).ReplaceAllString(name, "-")
			mode.Store("good")
			var asked sync.WaitGroup
			if state == "under way" {
				mode.Store("held")
				asked.Go(func() { p.gets(http.StatusOK, buyerList, "k") })
				<-held
			} else {
				p.gets(http.StatusOK, buyerList, "k")
			}
			if state == "known due" {
				clock.Add(6 * time.Minute)
			}
			p.edit(change.old, change.now)
			if logged := p.reload(); !strings.Contains(logged, `"configuration reloaded"`) {
				t.Fatalf("%s: %s", name, logged)
			}
			want := http.StatusUnauthorized
			switch mode.Store("gone"); {
			case state == "under way":
				release <- true
				asked.Wait()
			case change.kept:
				want = http.StatusOK
			}
			if state == "store away" {
				if mode.Store("away"); !change.kept {
					want = http.StatusServiceUnavailable
				}
			}
			if a := p.get(buyerList, "k"); a.status != want {
				t.Errorf("%s: %d, want %d", name, a.status, want)
			}
			mode.Store("gone")
			p.eventually("the key is asked for again", func() bool {
				clock.Add(10 * time.Second) // the breaker lets it, and a look-up under way may still have met what was before
				return p.get(buyerList, "k").status == http.StatusUnauthorized
			})
			p.edit(change.now, change.old)
			p.reload()
		}
	}
}

// oneList removes a list from the configuration.
func oneList(p *program, kind string) {
	text := p.read("gateway.yaml")
	head, rest, _ := strings.Cut(text, "\n  "+kind+":\n")
	if at := strings.Index(rest, "\n  seller:\n"); at >= 0 {
		head += rest[at:]
	}
	p.write("gateway.yaml", head+"\n")
}

// A list that a reload adds is served, and one that it takes away is not; the other notices
// nothing.
func TestReloadAddsAndTakesAwayAList(t *testing.T) {
	t.Parallel()
	var whole string
	p := start(t, setup{prepare: func(p *program) {
		whole = p.read("gateway.yaml")
		oneList(p, "seller")
	}})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.gets(http.StatusNotFound, sellerList, "seller")
	p.write("gateway.yaml", whole)
	p.comesToGet(http.StatusOK, sellerList, "seller")
	oneList(p, "seller")
	p.comesToGet(http.StatusNotFound, sellerList, "seller")
	if a := p.get(buyerList, "buyer"); !a.isHit() {
		t.Errorf("the buyers' list: %v", a.header)
	}
}

// 200 reloads under load: no request fails, no caller gets another one's list, and after each reload the
// lists are those of its mapping, whatever was in flight.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	p := start(t, setup{
		onlyWhenTold: true, legacy: legacy.Options{Seed: 3, Inquiries: 200},
		yaml:     "request_timeout: 60s\ncache: {jitter: 0, buyer: {ttl: 1ms, stale_while_revalidate: 0s}, seller: {ttl: 1ms, stale_while_revalidate: 0s}}",
		upstream: []string{"timeout: 2s", "timeout: 60s\n  headers: {X-Reload: first}"},
	})
	words := [2]string{"something-else", "other"}
	callers := p.callers[:4]
	stop := p.background(len(callers), func(w, _ int) error {
		c := callers[w]
		a := p.get(listOf(c.Kind), c.Record.ID)
		a.body = bytes.ReplaceAll(a.body, []byte(words[0]), []byte(words[1]))
		if !p.isTruth(a, c.Kind, c.Account.ID, "") {
			return fmt.Errorf("%s: %d %s", c.Record.ID, a.status, a.body)
		}
		time.Sleep(5 * time.Millisecond) // leaves the machine to other tests
		return nil
	})
	for n := range 200 {
		now, before := words[n%2], words[(n+1)%2]
		if p.edit("default: "+before, "default: "+now); n%10 == 0 { // the connections are replaced, too
			p.edit("X-Reload: ", "X-Reload: x")
		}
		if logged := p.reload(); strings.Contains(logged, "not reloaded") {
			t.Fatal(logged)
		}
		list := p.get(sellerList, "seller")
		if text := string(list.body); !strings.Contains(text, `"`+now+`"`) || strings.Contains(text, `"`+before+`"`) {
			t.Fatalf("after reload %d a list of the mapping before: %d %s", n, list.status, list.header.Get("Cache-Status"))
		}
	}
	if _, err := stop(); err != nil {
		t.Error(err)
	}
}

// keysIn lists the keys under a struct; a mapping of fields is one key.
func keysIn(t reflect.Type, key string) (keys []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !yamlfile.HasKeys(t) || key == "upstream.buyer" || key == "upstream.seller" {
		return []string{key}
	}
	for _, f := range yamlfile.FieldsOf(t) {
		keys = append(keys, keysIn(t.FieldByIndex(f.Index).Type, yamlfile.Join(key, f.Key))...)
	}
	return keys
}

// over puts one tree of YAML over another; null takes a key away.
func over(base, change map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, value := range change {
		below, isMap := value.(map[string]any)
		old, _ := merged[name].(map[string]any)
		switch {
		case value == nil:
			delete(merged, name)
		case isMap:
			merged[name] = over(old, below)
		default:
			merged[name] = value
		}
	}
	return merged
}

// leaves lists the keys of a tree that have no keys below them.
func leaves(tree map[string]any, key string) (keys []string) {
	for name, value := range tree {
		at := yamlfile.Join(key, name)
		if below, ok := value.(map[string]any); ok {
			keys = append(keys, leaves(below, at)...)
		} else {
			keys = append(keys, at)
		}
	}
	return keys
}

// within tells whether a key is another one or below it.
func within(key, other string) bool { return key == other || yamlfile.Under(key, other) }

func parsed[T any](t *testing.T, text string) (tree T) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(text), &tree))
	return tree
}

// put makes a tree the program's configuration, and gives what the log says to
// it and what runs then.
func (p *program) put(tree map[string]any) (logged, runs string) {
	p.t.Helper()
	text, err := yaml.Marshal(tree)
	must(p.t, err)
	p.write("gateway.yaml", string(text))
	logged = p.reload()
	return logged, string(p.opsAs("a-token-that-is-long-enough", http.MethodGet, "/ops/config", "").body) // a reload takes over ops.token_file
}

// Every key of the configuration is changed in a running program: the file is taken over whole, or, if
// the key needs a restart, refused whole and the key is named.
func TestEveryKeyIsReloaded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, setup{onlyWhenTold: true, redis: fmt.Sprintf("{addrs: [%q], %s}", server.Addr, relaxedTimeout), prepare: func(p *program) {
		testkit.Certificate(t, p.dir, "gateway")
		p.write("token", "a-token-that-is-long-enough\n")
		p.write("secret", "a-secret-that-is-long-enough\n")
		p.write("sealing", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
		p.write("more.yaml", p.read("keys.yaml"))
		p.write("peppered.yaml", "accounts: []\nkeys: []\n")
	}})
	text, err := os.ReadFile("testdata/key-changes.yaml")
	must(t, err)
	base := parsed[map[string]any](t, p.read("gateway.yaml"))
	_, first := p.put(base)
	last := first
	var reached []string
	for _, change := range parsed[[]map[string]any](t, string(text)) {
		logged, now := p.put(over(base, change))
		changed := leaves(change, "")
		before, reloads := last, config.EffectOf(changed[0]) == config.AfterReload
		if reloads {
			before = first
		}
		last = now
		diff, err := config.Diff(before, now)
		must(t, err)
		reached = append(reached, changed...)
		for _, d := range diff {
			if !slices.ContainsFunc(changed, func(key string) bool { return within(d.Key, key) }) {
				t.Errorf("%v: %s went from %q to %q", change, d.Key, d.Old, d.New)
			}
		}
		for _, key := range changed {
			takenOver := slices.ContainsFunc(diff, func(d config.Change) bool { return within(d.Key, key) })
			named := strings.Contains(logged, ": "+key+": cannot change while the gateway runs")
			if reloads != takenOver || reloads == named || reloads != strings.Contains(logged, `"configuration reloaded"`) {
				t.Errorf("%v: %s has been taken over: %t, the log names it: %t\n%s", change, key, takenOver, named, logged)
			}
		}
	}
	for _, key := range keysIn(reflect.TypeFor[config.Config](), "") {
		if !slices.ContainsFunc(reached, func(r string) bool { return within(r, key) }) {
			t.Errorf("%s is never changed; add it to key-changes.yaml", key)
		}
	}
	if _, now := p.put(base); now != first || p.metric(reloaded) != 1 || p.get(buyerList, "buyer").status != http.StatusOK {
		t.Errorf("after all that, this runs:\n%s", now)
	}
}
