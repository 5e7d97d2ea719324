package simulation

import (
	"fmt"
	"os"
	"slices"
	"strings"
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

	ceiling int           // of requests to the legacy in any second; 0: none
	ended   chan struct{} // closed when the callers have to stop

	wg   sync.WaitGroup // of the parts
	apps sync.WaitGroup // of the nodes' processes

	mu      sync.Mutex
	history []happening
	reached map[string]int
}

const nodeCount = 3

// form is what a seed draws before all else.
type form struct {
	keysInRedis bool
	ceiling     int
	policy      policy
}

// The ceilings: roomy is reached only when much fails at once, tight ones also in calm.
const roomy = 120

func formOf(seed uint64) form {
	rng := rngOf(seed, "form")
	seconds := func(of ...int) time.Duration { return time.Duration(of[rng.IntN(len(of))]) * time.Second }
	return form{rng.IntN(2) == 0, []int{0, roomy, 40, 12}[rng.IntN(4)], policy{"m1", seconds(2, 5, 10), seconds(0, 3, 10), seconds(0, 20, 60)}}
}

// newWorld starts everything. It runs in a bubble of synctest.
func newWorld(t *testing.T, seed uint64, f form) *world {
	rng := rngOf(seed, "world")
	w := &world{t: t, seed: seed, dir: t.TempDir(), begin: time.Now(), ceiling: f.ceiling, ended: make(chan struct{}), reached: map[string]int{}}
	w.net = newNetwork(seed)
	w.checks = newChecks(w)
	w.net.sent = w.checks.sent
	skew := func() time.Duration { // how far a clock is wrong: mostly little, else by an hour or more
		if rng.IntN(3) == 0 {
			return time.Duration(rng.NormFloat64() * float64(time.Hour))
		}
		return time.Duration(rng.NormFloat64() * float64(20*time.Millisecond))
	}
	ofRedis := skew()
	w.redis = newRedisServer(func() time.Time { return time.Now().Add(ofRedis) }, rngOf(seed, "redis"))
	w.redis.serve(w.net.listen("redis", redisAddress))
	w.legacy = newLegacy(w)
	w.legacy.serve(w.net.listen("legacy", legacyAddress))
	w.keys = newKeyring(w, f.keysInRedis)
	for i := range nodeCount {
		n := newNode(w, i, skew())
		n.policies = []inForce{{policy: f.policy, since: time.Now()}}
		n.write(f.policy, "")
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

// close ends everything. Whatever goes on after it is a leak, which synctest finds.
func (w *world) close() {
	for _, n := range w.nodes {
		n.stop()
	}
	w.apps.Wait()
	w.net.crash("redis", false)
	w.net.crash("legacy", false)
	w.redis.disconnect()
	w.redis.wg.Wait()
	_ = w.legacy.server.Close()
	w.wg.Wait()
}

const (
	redisAddress  = "redis:6379"
	legacyAddress = "legacy:80"
)

// config is the file of a node.
func (w *world) config(p policy) string {
	limits := ""
	if w.ceiling > 0 {
		limits = fmt.Sprintf("max_requests_per_second: %d\n  max_nodes: %d", w.ceiling, nodeCount)
	}
	return strings.NewReplacer("REQUEST_TIMEOUT", requestTimeout.String(), "AUTH", w.keys.section(), "REDIS", redisAddress, "JITTER", fmt.Sprint(jitter),
		"TERMS", fmt.Sprintf("{ttl: %v, stale_while_revalidate: %v, stale_if_error: %v}", p.ttl, p.swr, p.sie), "LEGACY", legacyAddress,
		"UPSTREAM_TIMEOUT", upstreamTimeout.String(), "LIMITS", limits, "MAPPING", p.mapping).Replace(`
listen: 127.0.0.1:8080
ops: {listen: 127.0.0.1:9090}
shutdown_delay: 0s
shutdown_grace: 4s
request_timeout: REQUEST_TIMEOUT
gateway: {docs: false}
auth: AUTH
redis: {addrs: ["REDIS"]}
cache: {max_bytes: 8MiB, jitter: JITTER, buyer: TERMS, seller: TERMS}
upstream:
  base_url: http://LEGACY
  timeout: UPSTREAM_TIMEOUT
  LIMITS
  breaker: {min_requests: 10, failure_ratio: 0.5, open_for: 2s}
  buyer:
    path: /MAPPING/tickets
    query: {customer: "{account}", state: "{status}", category: "{inquiry_type}"}
    items: result.items
    owner: customer
    internal_ids: [uuid]
    fields: {title: MAPPING, content: body, status: state, inquiry_type: category, created_at: opened, responses: {items: replies, fields: {content: text, responder_type: by, created_at: at}}}
  seller:
    path: /MAPPING/vendors/{account}/tickets
    filtering: gateway
    items: result.items
    owner: customer
    internal_ids: [uuid]
    paging: {style: cursor, param: cursor, cursor: result.next}
    fields: {title: MAPPING, status: state, inquiry_type: category, created_at: opened, company_name: company}
`)
}

// maxHistory is how many lines a failure shows.
const maxHistory = 400

// happening is a line of the history. It becomes text where somebody reads it: no other
// part of a seed that passes would cost as much.
type happening struct {
	after  time.Duration
	format string
	args   []any // do not change
}

func (h happening) String() string {
	return fmt.Sprintf("%12v ", h.after) + fmt.Sprintf(h.format, h.args...)
}

func (w *world) log(format string, args ...any) {
	h := happening{time.Since(w.begin), format, args}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.history = append(w.history, h); len(w.history) > 2*maxHistory {
		w.history = slices.Delete(w.history, 0, maxHistory)
	}
	if *verbose {
		fmt.Fprintln(os.Stderr, h)
	}
}

// lines is the history of a seed that has failed.
func (w *world) lines() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.history {
		if w.checks.failed() {
			all = append(all, h.String())
		}
	}
	return all
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

// write replaces a file, whole at once. It runs in any goroutine.
func (w *world) write(path, text string) {
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		w.checks.fail("the simulation itself: %v", err)
	}
}
