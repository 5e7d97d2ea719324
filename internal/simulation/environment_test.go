package simulation

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redisfake"
)

// environment is everything that one seed makes.
type environment struct {
	seed  uint64
	dir   string
	begin time.Time

	net      *network
	redis    *redisfake.Server
	redisNow func() time.Time // its clock
	legacy   *legacySystem
	keys     *keyring
	nodes    []*node
	checks   *checks

	ceiling int           // of requests to the legacy in any second; 0: none
	ended   chan struct{} // closed when the callers have to stop

	wg   sync.WaitGroup // of the parts
	apps sync.WaitGroup // of the nodes' processes

	mu      sync.Mutex
	history []happening
	reached map[string]int
}

const (
	nodeCount     = 3
	redisAddress  = "redis:6379"
	legacyAddress = "legacy:80"
)

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
	return form{
		keysInRedis: rng.IntN(2) == 0,
		ceiling:     []int{0, roomy, 40, 12}[rng.IntN(4)],
		policy:      policy{"m1", seconds(2, 5, 10), seconds(0, 3, 10), seconds(0, 20, 60)},
	}
}

// newEnvironment starts everything. It runs in a bubble of synctest.
func newEnvironment(t *testing.T, seed uint64, f form) *environment {
	rng := rngOf(seed, "clocks")
	skew := func() time.Duration { // how far a clock is wrong: mostly little, else by an hour or more
		if rng.IntN(3) == 0 {
			return time.Duration(rng.NormFloat64() * float64(time.Hour))
		}
		return time.Duration(rng.NormFloat64() * float64(20*time.Millisecond))
	}
	env := &environment{
		seed: seed, dir: t.TempDir(), begin: time.Now(), ceiling: f.ceiling,
		net: newNetwork(seed), ended: make(chan struct{}), reached: map[string]int{},
	}
	env.checks = newChecks(env)
	env.net.sent = env.checks.sent
	redisSkew := skew()
	env.redisNow = func() time.Time { return time.Now().Add(redisSkew) }
	env.redis = redisfake.New(env.redisNow, rngOf(seed, "redis"))
	env.redis.Serve(env.net.listen("redis", redisAddress))
	env.write(env.password(), "secret")
	env.legacy = newLegacy(env)
	env.legacy.serve(env.net.listen("legacy", legacyAddress))
	env.keys = newKeyring(env, f.keysInRedis)
	for i := range nodeCount {
		n := newNode(env, i, skew(), f.policy)
		env.nodes = append(env.nodes, n)
		n.start()
	}
	return env
}

// close ends everything. Whatever goes on after it is a leak, which synctest finds.
func (env *environment) close() {
	for _, n := range env.nodes {
		n.stop()
	}
	env.apps.Wait()
	env.net.crash("redis", false)
	env.net.crash("legacy", false)
	env.redis.Disconnect()
	env.redis.Wait()
	_ = env.legacy.server.Close()
	env.wg.Wait()
}

//go:embed testdata/node.yaml
var nodeFile string

// password is the file of that which the legacy asks for.
func (env *environment) password() string { return filepath.Join(env.dir, "password") }

// config is the file of a node.
func (env *environment) config(p policy) string {
	limits := ""
	if env.ceiling > 0 {
		limits = fmt.Sprintf("max_requests_per_second: %d\n  max_nodes: %d", env.ceiling, nodeCount)
	}
	return strings.NewReplacer("AUTH", env.keys.section(), "LIMITS", limits, "PASSWORD", env.password(), "MAPPING", p.mapping,
		"TERMS", fmt.Sprintf("{ttl: %v, stale_while_revalidate: %v, stale_if_error: %v}", p.ttl, p.swr, p.sie)).Replace(nodeFile)
}

// maxHistory is how many lines a failure shows.
const maxHistory = 400

// happening is a line of the history. It becomes text where somebody reads it: few seeds fail.
type happening struct {
	after  time.Duration
	format string
	args   []any // do not change
}

func (h happening) String() string {
	return fmt.Sprintf("%12v ", h.after) + fmt.Sprintf(h.format, h.args...)
}

func (env *environment) log(format string, args ...any) {
	h := happening{time.Since(env.begin), format, args}
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.history = append(env.history, h); len(env.history) > 2*maxHistory {
		env.history = slices.Delete(env.history, 0, maxHistory)
	}
	if *verbose {
		fmt.Fprintln(os.Stderr, h)
	}
}

// reach notes that something has happened, for the assertion that everything does.
func (env *environment) reach(what string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.reached[what]++
}

// over tells whether the callers have to stop.
func (env *environment) over() bool {
	select {
	case <-env.ended:
		return true
	default:
		return env.checks.failed()
	}
}

// write replaces a file, whole at once. It runs in any goroutine.
func (env *environment) write(path, text string) {
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		env.checks.fail("the simulation itself: %v", err)
	}
}
