package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// relaxedTimeout gives a busy machine time for a call of Redis.
const relaxedTimeout = "timeout: 2s"

// slowPlan limits the accounts on it; keysInFleet has the keys in Redis.
const (
	slowPlan    = "rate_limit: {plans: {slow: {per_second: 0.01, burst: 6}}}"
	keysInFleet = "{redis: {}, cache_ttl: 10m}"
)

// pair is two nodes with one legacy system and one Redis.
type pair [2]*program

// newPair starts a pair; redis is the inside of that section.
func newPair(t *testing.T, redis string, s setup) pair {
	t.Helper()
	s.redis = "{" + redis + "}"
	// Sellers may ask for any inquiry_type, and the legacy is asked for each: as
	// many lists as a test wants.
	s.upstream = append(s.upstream, "values: {PRD: product, DLV: delivery, RFD: refund, ETC: other}, default: other", "default: other",
		"items: data.list", "query: {st: \"{status}\", kind: \"{inquiry_type}\"}\n    items: data.list")
	s.legacy.Inquiries = 200
	first := start(t, s)
	s.joins = first
	return pair{first, start(t, s)}
}

// listNumber makes the lists that tests ask for differ.
var listNumber atomic.Int64

// sharing returns a function that has the first node fetch a list that nobody
// has asked for, and tells whether the second has it without asking the legacy.
func (nodes pair) sharing() func() bool {
	return func() bool {
		target := fmt.Sprintf("%s?inquiry_type=shared-%d", sellerList, listNumber.Add(1))
		var last answer
		for i, node := range nodes {
			if last = node.get(target, "seller"); last.status != http.StatusOK {
				node.t.Fatalf("node %d: %d %s", i, last.status, last.body)
			}
		}
		return last.isHit()
	}
}

// purgesReach purges by one node and waits until no node serves what it had.
func (nodes pair) purgesReach(scope ...string) {
	t := nodes[0].t
	t.Helper()
	for _, node := range nodes {
		node.eventually("the list is cached", func() bool { return node.get(buyerList, "buyer").isHit() })
	}
	nodes[0].eventually("the purge is taken", func() bool {
		_, _, code := command(t, append([]string{"purge", "--ops", nodes[0].app.OpsURL()}, scope...)...)
		return code == 0
	})
	nodes[1].eventually("the other node has dropped its list", func() bool { return !nodes[1].get(buyerList, "buyer").isHit() })
}

// keepAsking asks the node for ever new lists, and for one that is cached. stop fails where there was
// an answer that was not a 200 with the right list.
func (p *program) keepAsking() (stop func()) {
	end := p.background(4, func(w, i int) error {
		target, key := buyerList, "buyer"
		if i%2 == 0 {
			target, key = fmt.Sprintf("%s?inquiry_type=%d-%d", sellerList, w, i), "seller"
		}
		if a := p.get(target, key); a.status != http.StatusOK || i%2 != 0 && !p.isTruth(a, "buyer", legacy.BuyerTypical, "") {
			return fmt.Errorf("%s: %d %.300s", target, a.status, a.body)
		}
		return nil
	})
	return func() {
		p.t.Helper()
		if n, err := end(); err != nil || n == 0 {
			p.t.Errorf("of %d requests not every one was a 200: %v", n, err)
		}
	}
}

// restricted makes on the servers the user that docs/redis.md tells to make, and returns what
// the redis section says of it.
func restricted(t *testing.T, servers ...*redistest.Server) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/redis.md")
	must(t, err)
	_, rest, found := strings.Cut(string(doc), "redis-cli ACL SETUSER")
	line, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatal("docs/redis.md names no user for Redis")
	}
	line = strings.NewReplacer("\\\n", " ", "\\", "", "'", "", "PASSWORD", "s3cr3t").Replace(line)
	password := filepath.Join(t.TempDir(), "redis-password")
	writeFile(t, password, "s3cr3t\n")
	for _, server := range servers {
		if got := server.Do(append([]string{"ACL", "SETUSER"}, strings.Fields(line)...)...); got != "+OK" {
			t.Fatalf("ACL SETUSER: %s", got)
		}
	}
	return fmt.Sprintf("username: gateway, password_file: %q", password)
}

// nothingDenied fails if the user wanted to do what it may not.
func nothingDenied(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		if log := server.Do("ACL", "LOG"); log != "*0" {
			t.Errorf("Redis has denied something:\n%s", log)
		}
	}
}

// makeKeys makes keys in the Redis of the nodes; the account of other-buyer is on the plan slow.
func (nodes pair) makeKeys() {
	t := nodes[0].t
	t.Helper()
	for _, c := range nodes[0].callers[:4] {
		if c.Record.ID != "empty-buyer" {
			newKey(t, nodes[:], "new", "--kind", c.Kind, "--account", c.Account.ID, "--id", c.Record.ID, "--api-access", "paid")
		}
	}
	keysCommandFor[auth.Account](t, nodes[0].file(), "account", legacy.BuyerOther, "--plan", "slow")
}

// readsChanges waits until the node has read the newest change of keys in Redis.
func (p *program) readsChanges(redis redis.Cmdable, prefix ...string) {
	p.t.Helper()
	newest, err := redis.XRevRangeN(p.t.Context(), cmp.Or(strings.Join(prefix, ""), "iq")+":{keys}:changes", "+", "-", 1).Result()
	must(p.t, err)
	var ms, seq float64
	_, err = fmt.Sscanf(newest[0].ID, "%f-%f", &ms, &seq)
	must(p.t, err)
	p.eventually("the node reads the newest change", func() bool {
		return math.Abs(p.metric("inquiry_gateway_auth_last_change_timestamp_seconds")-ms/1000-seq/1e6) < 5e-7
	})
}

// rememberKeys waits until both nodes have read all changes of keys, and have cached both keys.
func (nodes pair) rememberKeys(redis redis.Cmdable) {
	for _, node := range nodes {
		node.readsChanges(redis)
		node.comesToGet(http.StatusOK, buyerList, "buyer")
		node.comesToGet(http.StatusOK, sellerList, "seller")
	}
}

// isFleet holds that the nodes share lists, fills, purges, rates and keys.
func (nodes pair) isFleet() {
	t := nodes[0].t
	t.Helper()
	nodes[0].eventually("a list is shared", nodes.sharing())
	nodes.purgesReach("--account", legacy.BuyerTypical)
	nodes.purgesReach("--kind", "buyer")
	nodes.fillsOnce()

	for range 6 {
		nodes[0].gets(http.StatusOK, buyerList, "other-buyer")
	}
	nodes[0].gets(http.StatusTooManyRequests, buyerList, "other-buyer")
	allowed := 0 // what passes before its first report has been answered
	nodes[1].eventually("the other node knows that the burst is spent", func() bool {
		a := nodes[1].get(buyerList, "other-buyer")
		if a.status == http.StatusOK {
			allowed++
		}
		return a.status == http.StatusTooManyRequests
	})
	if allowed > 5 {
		t.Errorf("another whole burst passed on the other node: %d requests", allowed)
	}
	keysCommandFor[map[string]any](t, nodes[0].file(), "revoke", "other-buyer")
	for i, node := range nodes {
		if node.metric("inquiry_gateway_rate_limit_fallback") != 0 {
			t.Errorf("node %d limits on its own", i)
		}
		node.comesToGet(http.StatusUnauthorized, buyerList, "other-buyer")
	}
}

// fillsOnce asks both nodes many times at once for one list that takes its time.
func (nodes pair) fillsOnce() {
	t := nodes[0].t
	t.Helper()
	asked := nodes[0].system.Requests().Seller
	nodes[0].system.SetLatency(100 * time.Millisecond)
	defer nodes[0].system.SetLatency(0)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() { nodes[i%2].gets(http.StatusOK, sellerList+"?status=pending", "seller") })
	}
	group.Wait()
	if n := nodes[0].system.Requests().Seller - asked; n != 1 {
		t.Errorf("20 callers of two nodes asked the legacy %d times", n)
	}
}

// With a ttl of an hour both nodes show what has changed as soon as the legacy system
// has told one of them.
func TestHintsMakeBothNodesShowAChange(t *testing.T) {
	t.Parallel()
	nodes := newPair(t, fmt.Sprintf("addrs: [%q], %s", redistest.Start(t).Addr, relaxedTimeout),
		setup{yaml: "cache: {buyer: {ttl: 1h, stale_while_revalidate: 1h}}"})
	current := func(node *program) bool {
		return node.isTruth(node.get(buyerList, "buyer"), "buyer", legacy.BuyerTypical, "")
	}
	for i, scope := range [][]string{{"--account", legacy.BuyerTypical}, {"--kind", "buyer"}} {
		for _, node := range nodes {
			node.eventually("the list is cached", func() bool {
				return strings.HasPrefix(node.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit; ttl=3")
			})
		}
		if !nodes[0].system.Answer(legacy.BuyerTypical) || current(nodes[0]) || current(nodes[1]) {
			t.Error("nothing has changed, or the change shows before it is told of")
		}
		commandSays(t, 0, "purged", append([]string{"purge", "--soft", "--ops", nodes[i].app.OpsURL()}, scope...)...)
		for _, node := range nodes {
			node.eventually("the change shows", func() bool { return current(node) })
		}
	}
}

// What came for a record whose version is the same is asked for again on both nodes after a
// purge, and only then.
func TestPurgesReachWhatIsKept(t *testing.T) {
	t.Parallel()
	var notes atomic.Int64
	nodes := newPair(t, fmt.Sprintf("addrs: [%q], %s", redistest.Start(t).Addr, relaxedTimeout), setup{
		yaml:     "cache: {buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 10m}}", // so that each list is fetched
		upstream: []string{"items: replies\n        items_optional: true\n", "items: notes\n        fetch: {path: \"/notes/{id}\", id: uuid, version: opened, paging: {style: none}}\n"},
		backend: func(system http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/notes/") {
					system.ServeHTTP(w, r)
					return
				}
				notes.Add(1)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"notes":[]}`)
			})
		},
	})
	asks := func(node *program) bool {
		before := notes.Load()
		node.gets(http.StatusOK, buyerList, "buyer")
		return notes.Load() > before
	}
	for _, node := range nodes {
		if !asks(node) || asks(node) {
			t.Error("at first there is nothing, and then it is kept")
		}
	}
	for i, command := range [][]string{{"--account", legacy.BuyerTypical}, {"--kind", "buyer"}, {"--soft", "--account", legacy.BuyerTypical}, {"--soft", "--kind", "buyer"}} {
		commandSays(t, 0, "", append([]string{"purge", "--ops", nodes[i%2].app.OpsURL()}, command...)...)
		for k, node := range nodes {
			node.eventually("it is asked for again", func() bool { return asks(node) })
			if asks(node) {
				t.Errorf("%v: node %d does not keep what came after it", command, k)
			}
		}
	}
	if node := nodes[0]; node.metric(`inquiry_gateway_upstream_kept_replies_total{kind="buyer"}`) == 0 {
		t.Error("what was not asked for is not counted")
	}
}
