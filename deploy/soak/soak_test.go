package soak

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/deploy/live"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

var (
	length = flag.Duration("for", 0, "how long; 0: not at all")
	rate   = flag.Int("rate", 100, "requests per second in all")
)

const (
	warmUp     = 5 * time.Minute // or a third of the run: what is measured then is compared with the end
	round      = 75 * time.Second
	tolerance  = 0.05
	workers    = 16
	filters    = 8                 // all lists have been asked for long before warmUp is over
	settleTime = 110 * time.Second // idle connections to the legacy system are closed after 90
)

// soak is two gateways, of clear text and of TLS, with one Redis and one legacy system.
type soak struct {
	t      *testing.T
	nodes  [2]*node
	redis  *redistest.Server
	legacy string // its URL
	keys   []key
	stats  sync.Map // what happened, to *atomic.Int64
	paused sync.RWMutex
}

type key struct{ text, list string }

type node struct {
	url, ops, config string
	process          *testkit.Process
	clients          [2]*http.Client
}

// TestSoak is what make soak runs.
func TestSoak(t *testing.T) {
	if *length == 0 {
		t.Skip("left out: make soak runs it")
	}
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { s.call(ctx, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	begin := time.Now()
	s.faultsUntil(begin.Add(min(warmUp, *length/3)))
	before := s.measure()
	s.faultsUntil(begin.Add(*length))
	after := s.measure()
	cancel()
	group.Wait()
	for i, n := range s.nodes {
		t.Logf("%s\n  at minute %.0f: %v\n  at the end:  %v", n.url, min(warmUp, *length/3).Minutes(), before[i], after[i])
		for name, was := range before[i] {
			if now := after[i][name]; now > was*(1+tolerance) {
				t.Errorf("%s: %s was %.0f and is %.0f", n.url, name, was, now)
			}
		}
	}
	s.report()
}

func start(t *testing.T) *soak {
	binary := live.Build(t)
	s := &soak{t: t, redis: redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")}
	s.legacy = "http://" + redistest.FreeAddr(t)
	testkit.Run(t, testkit.Program{Name: "legacy", Path: binary, Args: []string{"legacy", "--listen", strings.TrimPrefix(s.legacy, "http://"), "--latency", "5ms"},
		Addr: strings.TrimPrefix(s.legacy, "http://"), Dir: t.TempDir()})
	file := s.makeKeys()
	for i := range s.nodes {
		s.nodes[i] = s.startNode(binary, file, i == 1)
		t.Logf("%s, ops on %s", s.nodes[i].url, s.nodes[i].ops)
	}
	return s
}

// makeKeys makes a key for each of the larger accounts.
func (s *soak) makeKeys() string {
	var accounts []struct{ Kind, Account string }
	if err := json.Unmarshal(live.Get(s.t, s.legacy+"/admin/accounts"), &accounts); err != nil {
		s.t.Fatal(err)
	}
	var names, keys strings.Builder
	for i, a := range accounts[:min(len(accounts), 40)] {
		text, err := auth.Generate(a.Kind)
		if err != nil {
			s.t.Fatal(err)
		}
		s.keys = append(s.keys, key{text, "/api/v1/" + a.Kind + "/inquiries"})
		fmt.Fprintf(&names, "  - {id: %q, api_access: paid}\n", a.Account)
		fmt.Fprintf(&keys, "  - {id: k%d, sha256: %s, kind: %s, account: %q, scopes: [\"inquiries:read\"]}\n", i, auth.Hasher{}.Hash(text).Hex(), a.Kind, a.Account)
	}
	return "accounts:\n" + names.String() + "keys:\n" + keys.String()
}

func (s *soak) startNode(binary, keys string, secure bool) *node {
	dir, addr, ops := s.t.TempDir(), redistest.FreeAddr(s.t), redistest.FreeAddr(s.t)
	n := &node{url: "http://" + addr, ops: "http://" + ops, config: filepath.Join(dir, "gateway.yaml")}
	text := fmt.Sprintf("listen: %s\nops: {listen: %s}\nauth: {keys_file: keys.yaml, unknown_keys: {per_second: 100, burst: 100}}\nredis: {addrs: [%q]}\n"+
		"cache: {local: {max_bytes: 16MiB}, buyer: {ttl: 2s, stale_while_revalidate: 5s, stale_if_error: 1m}, seller: {ttl: 2s, stale_if_error: 1m}}\nrate_limit: {per_second: 50, burst: 50}\n", addr, ops, s.redis.Addr)
	if secure {
		testkit.Certificate(s.t, dir, "gateway")
		text += "tls: {cert_file: cert.pem, key_file: key.pem}\n"
		n.url = "https://" + addr
	}
	n.write("keys.yaml", keys)
	n.write("gateway.yaml", text+strings.ReplaceAll(string(legacy.Mapping()), legacy.MappingBaseURL, s.legacy))
	n.process = testkit.Run(s.t, testkit.Program{Name: "gateway", Path: binary, Args: []string{"serve", "-c", n.config}, Addr: addr, Dir: dir})
	for i := range n.clients { // over TLS the second one speaks HTTP/2
		n.clients[i] = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: i == 1, DisableCompression: true, MaxIdleConnsPerHost: workers, //nolint:gosec // a test
		}}
		s.t.Cleanup(n.clients[i].CloseIdleConnections)
	}
	return n
}

func (n *node) write(name, text string) {
	path := filepath.Join(filepath.Dir(n.config), name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// count notes what has happened.
func (s *soak) count(what string) {
	n, _ := s.stats.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// call sends requests until ctx ends.
func (s *soak) call(ctx context.Context, r *rand.Rand) {
	tick := time.NewTicker(workers * time.Second / time.Duration(*rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.paused.RLock()
			s.ask(ctx, r)
			s.paused.RUnlock()
		}
	}
}

// ask sends one request of many kinds.
func (s *soak) ask(ctx context.Context, r *rand.Rand) {
	n, k := s.nodes[r.IntN(2)], s.keys[r.IntN(len(s.keys))]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target := n.url + k.list
	switch r.IntN(10) {
	case 0:
		target += "?status=" + []string{"pending", "answered", "none"}[r.IntN(3)]
	case 1:
		target += fmt.Sprint("?inquiry_type=t", r.IntN(filters))
	case 2:
		target = n.url + []string{"/nowhere", "/openapi.json", "/docs", k.list + "?color=red"}[r.IntN(4)]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+k.text)
	switch r.IntN(12) {
	case 0:
		req.Header.Set("Accept-Encoding", []string{"gzip", "zstd", "*"}[r.IntN(3)])
	case 1:
		req.Header.Set("If-None-Match", "*")
	case 2:
		req.Method = http.MethodHead
	case 3:
		req.Header.Set("Authorization", fmt.Sprint("Bearer nobody-", r.Uint64()))
	case 4:
		req.Method, req.GetBody = http.MethodPost, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
		req.Body, _ = req.GetBody()
	case 5:
		req.Close = true
	}
	leaves := r.IntN(20) == 0
	if leaves {
		time.AfterFunc(time.Duration(r.IntN(8))*time.Millisecond, cancel)
	}
	resp, err := n.clients[r.IntN(2)].Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	switch {
	case err != nil && leaves:
		s.count("callers that left")
	case err != nil && s.t.Context().Err() == nil && ctx.Err() == nil:
		s.t.Errorf("%s: %v", target, err)
	case err == nil:
		s.count("answers of " + strconv.Itoa(resp.StatusCode))
		if resp.StatusCode == http.StatusInternalServerError {
			s.t.Errorf("%s: 500", target)
		}
	}
}

// faultsUntil causes one fault after the other, each for a part of a round.
func (s *soak) faultsUntil(end time.Time) {
	each := min(round, *length/6)
	for time.Now().Before(end) {
		for _, fault := range []func(hold func()){s.legacyFails, s.legacyHangs, s.redisDies, s.redisHangs, s.reloads, s.purges, s.legacyWrong} {
			if time.Now().After(end) {
				break
			}
			part := min(each/7, time.Until(end))
			fault(func() { time.Sleep(part / 2) })
			time.Sleep(part / 2)
		}
	}
}

func (s *soak) admin(method, path string, q url.Values) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, path+"?"+q.Encode(), http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %s %s", path, resp.Status, text)
	}
}

func (s *soak) fault(name string, more url.Values, hold func()) {
	q := url.Values{"fault": {name}}
	for k, v := range more {
		q[k] = v
	}
	s.admin(http.MethodPut, s.legacy+"/admin/fault", q)
	hold()
	s.admin(http.MethodDelete, s.legacy+"/admin/fault", url.Values{})
	s.count("faults of the legacy system")
}

func (s *soak) legacyFails(hold func()) {
	s.fault("status", url.Values{"rate": {"0.5"}, "status": {"503"}}, hold)
}
func (s *soak) legacyHangs(hold func()) { s.fault("delay", url.Values{"delay": {"3s"}}, hold) }
func (s *soak) legacyWrong(hold func()) { s.fault("truncate", url.Values{"rate": {"0.3"}}, hold) }

func (s *soak) redisDies(hold func()) {
	s.redis.Kill()
	hold()
	s.redis.Restart()
	s.count("restarts of Redis")
}

func (s *soak) redisHangs(hold func()) {
	s.redis.Pause()
	hold()
	s.redis.Resume()
	s.count("stalls of Redis")
}

// reloads changes each node's file, with a mistake in between.
func (s *soak) reloads(hold func()) {
	for _, n := range s.nodes {
		text, err := os.ReadFile(n.config)
		if err != nil {
			s.t.Fatal(err)
		}
		n.write("gateway.yaml", "nonsense: 1\n")
		time.Sleep(time.Second)
		n.write("gateway.yaml", strings.Replace(string(text), "ttl: 2s", "ttl: "+map[bool]string{true: "3s", false: "2s"}[bytes.Contains(text, []byte("buyer: {ttl: 2s"))], 1))
		s.count("reloads")
	}
	hold()
}

func (s *soak) purges(hold func()) {
	for i := range 20 {
		body := []string{`{"kind":"buyer"}`, `{"kind":"seller"}`, `{"account":"acme"}`}[i%3]
		resp, err := http.Post(s.nodes[i%2].ops+"/ops/purge", "application/json", strings.NewReader(body))
		if err != nil {
			s.t.Error(err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		s.count("purges answered " + strconv.Itoa(resp.StatusCode))
	}
	hold()
}

// usage is what a node holds when nobody asks, after a collection.
type usage map[string]float64

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB after a collection, %.0f goroutines, %.0f descriptors", u["bytes"]/(1<<20), u["goroutines"], u["descriptors"])
}

var series = regexp.MustCompile(`(?m)^(go_memstats_alloc_bytes|go_goroutines|process_open_fds) (\S+)$`)

// measure holds the traffic up, until idle connections are closed, and takes the least of
// several measurements: a refresh or a look at a file may be under way during one.
func (s *soak) measure() [2]usage {
	all := [2]usage{{}, {}}
	s.paused.Lock()
	defer s.paused.Unlock()
	s.refill()
	for _, n := range s.nodes {
		for _, c := range n.clients {
			c.CloseIdleConnections()
		}
	}
	time.Sleep(min(settleTime, *length/10))
	for range 10 {
		for i, n := range s.nodes {
			for name, v := range s.read(n) {
				if was, known := all[i][name]; !known || v < was {
					all[i][name] = v
				}
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	return all
}

// refill gives the caches the same content each time: nothing but each account's list, in
// all codings. It waits until all faults are over.
func (s *soak) refill() {
	s.purges(func() {})
	for _, n := range s.nodes {
		for _, k := range s.keys {
			for _, coding := range []string{"identity", "gzip", "zstd"} {
				live.Eventually(s.t, func() string { return n.list(s.t, k, coding) })
			}
		}
	}
}

// list gets a list, fresh; else it says what it got.
func (n *node) list(t *testing.T, k key, coding string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+k.list, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+k.text)
	req.Header.Set("Accept-Encoding", coding)
	resp, err := n.clients[0].Do(req)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if status := resp.Header.Get("Cache-Status"); resp.StatusCode != http.StatusOK || strings.Contains(status, "stale") {
		return resp.Status + " " + status
	}
	return ""
}

func (s *soak) read(n *node) usage {
	live.Get(s.t, n.ops+"/debug/pprof/heap?gc=1")
	u := usage{}
	for _, m := range series.FindAllSubmatch(live.Get(s.t, n.ops+"/metrics"), -1) {
		v, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		u[map[string]string{"go_memstats_alloc_bytes": "bytes", "go_goroutines": "goroutines", "process_open_fds": "descriptors"}[string(m[1])]] = v
	}
	return u
}

// report says what happened, and fails where something never did.
func (s *soak) report() {
	for _, must := range []string{"answers of 200", "answers of 304", "answers of 400", "answers of 401", "answers of 404", "answers of 405", "callers that left",
		"faults of the legacy system", "restarts of Redis", "stalls of Redis", "reloads", "purges answered 200"} {
		if _, ok := s.stats.Load(must); !ok {
			s.t.Errorf("there were no %s", must)
		}
	}
	s.stats.Range(func(what, n any) bool { s.t.Logf("%7d %s", n.(*atomic.Int64).Load(), what); return true })
}
