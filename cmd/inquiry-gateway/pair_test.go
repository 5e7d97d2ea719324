package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// relaxedTimeout gives a busy machine time for a call of Redis.
const relaxedTimeout = "timeout: 2s"

// pair starts two nodes with one legacy system and one Redis; redis is the
// inside of that section.
func pair(t *testing.T, redis string, s setup) [2]*program {
	t.Helper()
	s.yaml += "\nredis: {" + redis + "}"
	// Sellers may ask for any inquiry_type, and the legacy is asked for each: as
	// many lists as a test wants.
	s.upstream = append(s.upstream, "values: {PRD: product, DLV: delivery, RFD: refund, ETC: other}, default: other", "default: other",
		"filtering: gateway", "query: {st: \"{status}\", kind: \"{inquiry_type}\"}\n    filtering: upstream")
	s.legacy.Inquiries = 200
	first := start(t, s)
	s.joins = first
	return [2]*program{first, start(t, s)}
}

// sharing returns a function that has the first node fetch a list that nobody
// has asked for, and tells whether the second has it without asking the legacy.
func sharing(nodes [2]*program, name string) func() bool {
	n := 0
	return func() bool {
		n++
		target := fmt.Sprintf("%s?inquiry_type=%s-%d", sellerList, name, n)
		for i, node := range nodes {
			a := node.get(target, "seller")
			if a.status != http.StatusOK {
				node.t.Fatalf("node %d: %d %s", i, a.status, a.body)
			}
			if i == 1 {
				return strings.HasPrefix(a.header.Get("Cache-Status"), "inquiry-gateway; hit")
			}
		}
		return false
	}
}

// purgesReach purges by one node and waits until no node serves what it had.
func purgesReach(nodes [2]*program, scope ...string) {
	nodes[0].t.Helper()
	hit := func(node *program) bool {
		return strings.HasPrefix(node.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit")
	}
	for _, node := range nodes {
		node.eventually("the list is cached", func() bool { return hit(node) })
	}
	nodes[0].eventually("the purge is taken", func() bool {
		_, _, code := command(nodes[0].t, append([]string{"purge", "--ops", nodes[0].app.OpsURL()}, scope...)...)
		return code == 0
	})
	nodes[1].eventually("the other node has dropped its list", func() bool { return !hit(nodes[1]) })
}

// requests asks a node for ever new lists, and for one that is cached, until the
// test is over or stop is called, which returns how many there were and whatever
// was not a 200 with the right list.
func (p *program) requests() (stop func() (int64, string)) {
	want := truth(p.system, "buyer", legacy.BuyerTypical, "", "")
	var n atomic.Int64
	var wrong atomic.Value
	done := make(chan struct{})
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				target, key := buyerList, "buyer"
				if i%2 == 0 {
					target, key = fmt.Sprintf("%s?inquiry_type=%d-%d", sellerList, w, i), "seller"
				}
				a := p.do(p.request(http.MethodGet, target, key))
				if a.status != http.StatusOK || i%2 != 0 && !bytes.Equal(a.body, want) {
					wrong.Store(fmt.Sprintf("%s: %d %.300s", target, a.status, a.body))
				}
				n.Add(1)
			}
		})
	}
	end := sync.OnceFunc(func() { close(done); group.Wait() })
	p.t.Cleanup(end)
	return func() (int64, string) {
		end()
		text, _ := wrong.Load().(string)
		return n.Load(), text
	}
}

// redisState is what readiness says of Redis.
func (p *program) redisState() string {
	return p.part("redis")
}

// aclOf reads the one line of the docs that makes the gateway's user, as the
// arguments of a command.
func aclOf(t *testing.T, password string) []string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "redis-cli ACL SETUSER")
	line, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatal("docs/redis.md names no user for Redis")
	}
	line = strings.NewReplacer("\\\n", " ", "\\", "", "'", "", "PASSWORD", password).Replace(line)
	return append([]string{"ACL", "SETUSER"}, strings.Fields(line)...)
}

// restricted makes the README's user on the servers and returns what the redis
// section says of it.
func restricted(t *testing.T, servers ...*redistest.Server) string {
	t.Helper()
	password := filepath.Join(t.TempDir(), "redis-password")
	writeFile(t, password, "s3cr3t\n")
	for _, server := range servers {
		if got := server.Do(aclOf(t, "s3cr3t")...); got != "+OK" {
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

// keysOfFleet makes keys in the Redis of the nodes; the account of other-buyer
// is on the plan slow.
func keysOfFleet(nodes [2]*program) {
	nodes[0].t.Helper()
	for id, account := range map[string]string{"buyer": legacy.BuyerTypical, "other-buyer": legacy.BuyerOther, "seller": legacy.SellerTypical} {
		kind := id[strings.Index(id, "-")+1:]
		made := keysCommandFor[shownKey](nodes[0], "keys", "new", "--kind", kind, "--account", account, "--id", id, "--api-access", "paid")
		nodes[0].keys[id], nodes[1].keys[id] = made.Key, made.Key
	}
	keysCommandFor[auth.Account](nodes[0], "keys", "account", legacy.BuyerOther, "--plan", "slow")
}
