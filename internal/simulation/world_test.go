package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// world is everything that one seed makes.
type world struct {
	t     *testing.T
	seed  uint64
	dir   string
	begin time.Time

	net    *network
	redis  *redisServer
	legacy *legacySystem
	keys   *keyring
	nodes  []*node
	checks *checks

	legacyRNG *lockedRNG
	skewRedis time.Duration
	auth      string
	ceiling   int           // of requests to the legacy in any second; 0: none
	ended     chan struct{} // closed when the callers have to stop

	wg   sync.WaitGroup // of the parts
	apps sync.WaitGroup // of the nodes' processes

	mu      sync.Mutex
	history []string
	reached map[string]int
}

// lockedRNG is a generator that several goroutines use.
type lockedRNG struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (l *lockedRNG) Float64() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.Float64()
}

const nodeCount = 3

func buyers() []string  { return []string{"b0", "b1", "b2", "b3", "b4", "b5"} }
func sellers() []string { return []string{"s0", "s1", "s2"} }

// newWorld starts everything. It runs in a bubble of synctest.
func newWorld(t *testing.T, seed uint64, auth string) *world {
	rng := rngOf(seed, "world")
	w := &world{t: t, seed: seed, dir: t.TempDir(), begin: time.Now(), ended: make(chan struct{}), reached: map[string]int{}}
	w.net = newNetwork(seed)
	w.checks = newChecks(w)
	w.net.sent = w.checks.sent
	w.ceiling = []int{0, roomy, 40, 12}[rngOf(seed, "ceiling").IntN(4)]
	w.legacyRNG = &lockedRNG{rng: rngOf(seed, "legacy")}
	w.skewRedis = skew(rng)
	w.redis = newRedisServer(func() time.Time { return time.Now().Add(w.skewRedis) }, rngOf(seed, "redis"))
	w.redis.serve(w.net.listen("redis", redisAddress))
	w.legacy = newLegacy(w)
	w.legacy.serve(w.net.listen("legacy", legacyAddress))
	if w.auth = []string{"file", "redis", "introspection"}[rng.IntN(3)]; auth != "" {
		w.auth = auth
		w.ceiling = map[string]int{"file": 12, "redis": roomy}[auth]
	}
	w.keys = newKeyring(w)
	p := policy{mapping: "m1", ttl: pick(rng, 2, 5, 10), swr: pick(rng, 0, 3, 10), sie: pick(rng, 0, 20, 60)}
	for i := range nodeCount {
		n := newNode(w, i, skew(rng))
		n.policies = []inForce{{policy: p, since: time.Now()}}
		n.write(p, "")
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

// skew is how far a clock is wrong: mostly little, else by an hour or more.
func skew(rng *rand.Rand) time.Duration {
	if rng.IntN(3) == 0 {
		return time.Duration(rng.NormFloat64() * float64(time.Hour))
	}
	return time.Duration(rng.NormFloat64() * float64(20*time.Millisecond))
}

func pick(rng *rand.Rand, seconds ...int) time.Duration {
	return time.Duration(seconds[rng.IntN(len(seconds))]) * time.Second
}

// close ends everything. Whatever goes on after it is a leak, which synctest finds.
func (w *world) close() {
	for _, n := range w.nodes {
		n.stop()
	}
	w.apps.Wait()
	w.net.crash("redis", false)
	w.net.crash("legacy", false)
	w.net.crash("keys", false)
	w.redis.disconnect()
	w.redis.wg.Wait()
	_ = w.legacy.server.Close()
	w.keys.close()
	w.wg.Wait()
}

const (
	redisAddress  = "redis:6379"
	legacyAddress = "legacy:80"
	keysAddress   = "127.0.0.1:7000" // introspection is allowed without TLS on loopback only
)

// config is the file of a node.
func (w *world) config(p policy) string {
	fields := "title: " + p.mapping + ", status: state, inquiry_type: category, created_at: opened"
	terms := fmt.Sprintf("{ttl: %v, stale_while_revalidate: %v, stale_if_error: %v}", p.ttl, p.swr, p.sie)
	return fmt.Sprintf(`
listen: 127.0.0.1:8080
ops: {listen: 127.0.0.1:9090}
shutdown_delay: 0s
shutdown_grace: 4s
request_timeout: %v
gateway: {docs: false}
auth: %s
redis: {addrs: ["%s"]}
cache: {local: {max_bytes: 8MiB}, jitter: %v, buyer: %s, seller: %s}
upstream:
  base_url: http://%s
  timeout: %v
  retry: {attempts: 2, budget: %v}
%s
  breaker: {window: 10s, min_requests: 10, failure_ratio: 0.5, open_for: 2s}
  buyer:
    path: /%s/tickets
    query: {customer: "{account}", state: "{status}", category: "{inquiry_type}"}
    items: result.items
    owner: customer
    internal_ids: [uuid]
    fields: {%s, content: body, responses: {items: replies, fields: {content: text, responder_type: by, created_at: at}}}
  seller:
    path: /%s/vendors/{account}/tickets
    filtering: gateway
    items: result.items
    owner: customer
    internal_ids: [uuid]
    paging: {style: cursor, param: cursor, cursor: result.next}
    fields: {%s, company_name: company}
`, requestTimeout, w.keys.section(), redisAddress, jitter, terms, terms, legacyAddress, upstreamTimeout, retryBudget, w.limits(),
		p.mapping, fields, p.mapping, fields)
}

// roomy is a ceiling that is reached only when much fails at once.
const roomy = 120

// limits are the settings of the ceiling.
func (w *world) limits() string {
	if w.ceiling == 0 {
		return ""
	}
	return fmt.Sprintf("  max_requests_per_second: %d\n  max_nodes: %d", w.ceiling, nodeCount)
}

// latencyOfLegacy is how long a good answer takes.
func (w *world) latencyOfLegacy() time.Duration {
	return 5*time.Millisecond + time.Duration(w.legacyRNG.Float64()*float64(40*time.Millisecond))
}

// maxHistory is how many lines a failure shows.
const maxHistory = 400

func (w *world) log(format string, args ...any) {
	line := fmt.Sprintf("%12v ", time.Since(w.begin)) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.history = append(w.history, line); len(w.history) > 2*maxHistory {
		w.history = append([]string(nil), w.history[maxHistory:]...)
	}
	if *verbose {
		fmt.Fprintln(os.Stderr, line)
	}
}

// reach notes that something has happened, for the assertion that everything does.
func (w *world) reach(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached[what]++
}

// over tells whether the callers have to stop.
func (w *world) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return w.checks.failed()
	}
}

// isolate lets nothing through from or to a host, for ever.
func (n *network) isolate(host string) {
	for _, other := range []string{"redis", "legacy", "keys"} {
		n.set(way{host, other}, condition{cut: true})
		n.set(way{other, host}, condition{cut: true})
	}
}

func (w *world) write(name, text string) {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}
