package main

import (
	"crypto/tls"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// edit changes the running program's configuration file.
func (p *program) edit(old, next string) {
	p.t.Helper()
	file := filepath.Join(p.dir, "gateway.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		p.t.Fatalf("%q is not in the configuration (%v)", old, err)
	}
	p.write("gateway.yaml", strings.Replace(string(text), old, next, 1))
}

// A list that is cached already follows the new policy, and is not asked for
// again to do so.
func TestReloadChangesTheTTLOfCachedLists(t *testing.T) {
	p := start(t, setup{yaml: "cache: {jitter: 0, buyer: {ttl: 1h}}"})
	p.get(buyerList, "buyer")
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit; ttl=35") {
		t.Fatalf("before: %s", got)
	}
	p.edit("ttl: 1h", "ttl: 2h")
	p.eventually("the new ttl counts", func() bool {
		return strings.HasPrefix(p.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit; ttl=71")
	})
	if n := p.system.Requests().Buyer; n != 1 {
		t.Errorf("the legacy was asked %d times", n)
	}
	p.eventually("the log tells what changed", func() bool {
		return strings.Contains(p.logs.String(), `{"key":"cache.buyer.ttl","old":"1h","new":"2h"}`)
	})
	if shown := string(p.ops("/ops/config").body); !strings.Contains(shown, "ttl: 2h") {
		t.Errorf("/ops/config shows\n%s", shown)
	}
}

// A mistake leaves everything as it was, and shows in log and metrics.
func TestReloadWithAMistakeKeepsTheOldConfiguration(t *testing.T) {
	p := start(t, setup{yaml: "request_timeout: 4s"})
	p.edit("request_timeout: 4s", "request_timout: 4s")
	p.eventually("the failure is counted", func() bool {
		metrics := string(p.ops("/metrics").body)
		return strings.Contains(metrics, `inquiry_gateway_config_reloads_total{result="failed"} 1`) && strings.Contains(metrics, "inquiry_gateway_config_last_reload_successful 0")
	})
	p.eventually("the log tells where", func() bool {
		return strings.Contains(p.logs.String(), "gateway.yaml:4:1: request_timout: unknown key")
	})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.edit("request_timout: 4s", "request_timeout: 5s")
	p.eventually("the mended file counts", func() bool {
		return strings.Contains(string(p.ops("/metrics").body), "inquiry_gateway_config_last_reload_successful 1")
	})
}

func TestHangupReloads(t *testing.T) {
	p := start(t, setup{})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.eventually("SIGHUP reloads", func() bool {
		return strings.Contains(p.logs.String(), "configuration reloaded")
	})
	p.gets(http.StatusOK, buyerList, "buyer")
}

func TestPurge(t *testing.T) {
	p := start(t, setup{yaml: "cache: {buyer: {ttl: 1h}}"})
	p.get(buyerList, "buyer")
	p.get(buyerList, "other-buyer")
	p.system.Answer(legacy.BuyerTypical)
	post := func(body string) answer {
		r, err := http.NewRequest(http.MethodPost, p.app.OpsURL()+"/ops/purge", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return p.do(r)
	}
	if a := post(`{"account":"` + legacy.BuyerTypical + `"}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"epoch":1`) {
		t.Fatalf("purge: %d %s", a.status, a.body)
	}
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); got != "inquiry-gateway; fwd=miss; stored" {
		t.Errorf("the purged account: %s", got)
	}
	if got := p.get(buyerList, "other-buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit") {
		t.Errorf("another account: %s", got)
	}
	for _, body := range []string{"", "{}", `{"kind":"buyer","account":"x"}`, `{"kin":"buyer"}`, `{"kind":"buyer"} x`, `{"kind":"admin"}`} {
		if a := post(body); a.status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, a.status)
		}
	}
	r, err := http.NewRequest(http.MethodPost, p.app.OpsURL()+"/ops/purge", strings.NewReader(`{"kind":"buyer"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if a := p.do(r); a.status != http.StatusForbidden {
		t.Errorf("a page of another origin purged: %d", a.status)
	}
}

func TestTLSWithReload(t *testing.T) {
	p := start(t, setup{prepare: func(p *program) { testkit.Certificate(t, p.dir, "first") }, yaml: "tls: {cert_file: cert.pem, key_file: key.pem}"})
	seen := func() (string, string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test looks at the certificate itself
		resp, err := client.Do(p.request(http.MethodGet, buyerList, "buyer"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.TLS.PeerCertificates[0].Subject.CommonName, resp.Proto
	}
	if name, proto := seen(); name != "first" || proto != "HTTP/2.0" {
		t.Fatalf("%s over %s", name, proto)
	}
	testkit.Certificate(t, p.dir, "second")
	p.eventually("the new certificate is shown", func() bool { name, _ := seen(); return name == "second" })
}

// keyChanges change every key of the configuration at least once; each is a part
// of the file, put over that of a program with Redis.
func keyChanges() []string {
	changes := []string{
		"listen: '127.0.0.2:0'", "ops: {listen: '127.0.0.2:0'}", "ops: {token_file: token}", "ops: {token_file: token, read_token_file: secret}", "tls: {cert_file: cert.pem, key_file: key.pem}",
		"request_timeout: 4s", "shutdown_delay: 1s", "shutdown_grace: 19s", "max_connections: 99",
		"gateway: {unknown_parameters: ignore}", "gateway: {docs: false}", "gateway: {hit_lane: off}", "gateway: {trusted_proxies: [10.0.0.1]}",
		"auth: {keys_file: more.yaml}", "auth: {unknown_keys: {per_second: 3, burst: 7}, cache_ttl: 1m}", "auth: {keys_file: peppered.yaml, pepper_file: secret}",
		"auth: {keys_file: null, redis: {timeout: 90ms}}",
		"auth: {keys_file: null, introspection: {url: 'http://127.0.0.1:1/introspect', client_id: gw, client_secret_file: secret, client_auth: post, ca_file: cert.pem, " +
			"timeout: 90ms, claims: {account: a, kind: b, api_access: d, plan: e}}}",
		"rate_limit: {per_second: 1000, burst: 2000}", "rate_limit: {plans: {pro: {per_second: 5, burst: 6}}}",
		"log: {sample_hits: 7}", "log: {access_keys: hashed}",
		"redis: {addrs: ['127.0.0.1:1']}", "redis: {mode: single}", "redis: {mode: sentinel, master_name: m, sentinel_username: u, sentinel_password_file: secret}",
		"redis: {username: u, password_file: secret}", "redis: {tls: {enabled: true, ca_file: cert.pem, cert_file: cert.pem, key_file: key.pem}}",
		"redis: {prefix: other}", "redis: {timeout: 70ms}",
		"cache: {max_bytes: 300MiB}", "cache: {jitter: 0.3}", "cache: {max_entry_bytes: 4MiB}",
		"cache: {sealing_keys_file: sealing}",
		"cache: {rechecks_per_second: 0.5}",
		"cache: {goals: {max_upstream_per_second: 5, max_outdated: 0.1}}",
		"upstream: {base_url: 'http://127.0.0.1:1'}", "upstream: {timeout: 1s}", "upstream: {max_response_bytes: 1MiB}", "upstream: {max_records: 99}",
		"upstream: {max_concurrent: 9}", "upstream: {max_concurrent_per_account: 3}", "upstream: {max_requests_per_second: 9, max_nodes: 3}", "upstream: {headers: {X-Tenant: acme}}", "upstream: {attempts: 1}",
		"upstream: {breaker: {min_requests: 9, failure_ratio: 0.9, open_for: 9s}}",
		"upstream: {auth: {type: basic, username: u, password_file: secret}}", "upstream: {auth: {type: bearer, token_file: secret}}",
		"upstream: {auth: {type: header, name: X-Key, token_file: secret}}",
		"upstream: {auth: {type: oauth2_client_credentials, token_url: 'http://127.0.0.1:1/token', client_id: c, client_secret_file: secret, params: {audience: x}}}",
		"upstream: {auth: {type: session, username: u, password_file: secret, login: {path: /login, method: POST, query: {v: '2'}, body_type: json, body: {p: '{password}'}, headers: {X-A: b}, expect: [{path: code, equals: OK}]}, " +
			"token: t, send_as: header, name: X-T, renew_on: [401, 403], renew_if: [{path: code, equals: EXPIRED}], ttl: 1h}}",
		"upstream: {auth: {type: session, username: u, password_file: secret, login: {base_url: 'http://127.0.0.1:1', path: /login, basic: true, body_type: form, body_charset: euc-kr, body: {a: b}}, token_header: X-T}}",
		"upstream: {auth: {type: session, username: u, password_file: secret, login: {path: /login, basic: true}, token_cookie: SID, name: OTHER}}",
		"upstream: {base_url: 'https://127.0.0.1:1', tls: {ca_file: cert.pem, cert_file: cert.pem, key_file: key.pem}}",
		"upstream: {buyer: {fields: {title: reference}}}", "upstream: {seller: {fields: {title: other}}}",
		"canary: {every: 29s}", "canary: {buyer_keys: [buyer.key, other-buyer.key]}", "canary: {seller_keys: [seller.key, other-seller.key]}",
	}
	for _, kind := range []string{"buyer", "seller"} {
		changes = append(changes, "cache: {"+kind+": {ttl: 29s}}", "cache: {"+kind+": {stale_while_revalidate: 29s}}",
			"cache: {"+kind+": {stale_if_error: 9m}}", "cache: {"+kind+": {by_status: {pending: {ttl: 9s}}}}")
	}
	return changes
}

// keysIn lists the keys under a struct; a mapping of fields is one key.
func keysIn(t reflect.Type, key string) (keys []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || key == "upstream.buyer" || key == "upstream.seller" {
		return []string{key}
	}
	for i := range t.NumField() {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			keys = append(keys, keysIn(t.Field(i).Type, key)...)
		case t.Field(i).IsExported() && name != "-":
			keys = append(keys, keysIn(t.Field(i).Type, strings.TrimPrefix(key+"."+name, "."))...)
		}
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
		at := strings.TrimPrefix(key+"."+name, ".")
		if below, ok := value.(map[string]any); ok {
			keys = append(keys, leaves(below, at)...)
		} else {
			keys = append(keys, at)
		}
	}
	return keys
}

// within tells whether a key is another one or below it.
func within(key, other string) bool {
	rest, ok := strings.CutPrefix(key, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func parsed(t *testing.T, text string) (tree map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// put makes a tree the program's configuration, and gives what the log says to
// it and what runs then.
func (p *program) put(tree map[string]any) (logged, runs string) {
	p.t.Helper()
	text, err := yaml.Marshal(tree)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("gateway.yaml", string(text))
	logged = p.reload()
	return logged, string(p.opsAs("token").body) // ops.token_file is live
}

// Every key of the configuration is changed in a running program: one that is
// live runs as the file says, one that is not runs as before and is named, and
// nothing else changes.
func TestEveryKeyIsReloaded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := start(t, setup{pollFiles: onlyWhenTold, yaml: "redis: {addrs: ['" + server.Addr + "']}", prepare: func(p *program) {
		testkit.Certificate(t, p.dir, "gateway")
		canaryKeys(p)
		p.write("token", "token\n")
		p.write("secret", "a-secret-that-is-long-enough\n")
		p.write("sealing", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
		p.write("more.yaml", p.read("keys.yaml"))
		p.write("peppered.yaml", "accounts: []\nkeys: []\n")
	}})
	base := parsed(t, p.read("gateway.yaml"))
	_, runs := p.put(base)
	var reached []string
	for _, text := range keyChanges() {
		change := parsed(t, text)
		logged, now := p.put(over(base, change))
		changed, diff := leaves(change, ""), config.Diff(runs, now)
		reached = append(reached, changed...)
		for _, d := range diff {
			if !slices.ContainsFunc(changed, func(key string) bool { return within(d.Key, key) }) {
				t.Errorf("%s: %s went from %q to %q", text, d.Key, d.Old, d.New)
			}
		}
		_, waiting, _ := strings.Cut(logged, "these keys take effect at the next start only")
		for _, key := range changed {
			takenOver := slices.ContainsFunc(diff, func(d config.Change) bool { return within(d.Key, key) })
			if live := (config.Change{Key: key}).Effect() == config.Live; live != takenOver || live != (waiting == "") {
				t.Errorf("%s: %s has been taken over: %t\n%s", text, key, takenOver, logged)
			}
			if section := strings.Join(strings.SplitN(key, ".", 3)[:min(2, 1+strings.Count(key, "."))], "."); waiting != "" && !strings.Contains(waiting, `"`+section+`"`) {
				t.Errorf("%s: the log does not name %s: %s", text, section, waiting)
			}
		}
	}
	for _, key := range keysIn(reflect.TypeFor[config.Config](), "") {
		if !slices.ContainsFunc(reached, func(r string) bool { return within(r, key) }) {
			t.Errorf("%s is never changed; add it to keyChanges", key)
		}
	}
	if _, now := p.put(base); now != runs || p.metric(reloaded) != 1 || p.get(buyerList, "buyer").status != http.StatusOK {
		t.Errorf("after all that, this runs:\n%s", now)
	}
}
