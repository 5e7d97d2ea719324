package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// The master dies while requests go on: none of them fails, and two nodes share
// lists and purges again through the new master.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel() // it waits
	s := redistest.StartSentinel(t)
	user := restricted(t, s.Master, s.Replica)
	nodes := pair(t, fmt.Sprintf("addrs: [%q], master_name: %s, %s", s.Sentinel.Addr, s.MasterName, user), setup{})
	shared := sharing(nodes, "sentinel")
	nodes[0].eventually("a list is shared", shared)
	purgesReach(nodes, "--account", legacy.BuyerTypical)

	stops := [2]func() (int64, string){nodes[0].requests(), nodes[1].requests()}
	nothingDenied(t, s.Master)
	s.Master.Kill()
	nodes[0].eventually("a list is shared through the new master", shared)
	for i, node := range nodes {
		node.eventually("Redis is well again", func() bool { return node.redisState() == "ok" })
		if n, wrong := stops[i](); wrong != "" || n == 0 {
			t.Errorf("node %d: of %d requests not every one was a 200: %s", i, n, wrong)
		}
	}
	purgesReach(nodes, "--kind", "buyer")
	nothingDenied(t, s.Replica)
}

// A purge that comes while Redis changes its master is taken all the same.
func TestPurgeDuringAFailOver(t *testing.T) {
	t.Parallel() // it waits for the sentinel
	s := redistest.StartSentinel(t)
	user := restricted(t, s.Master, s.Replica)
	node := start(t, setup{yaml: fmt.Sprintf("redis: {addrs: [%q], master_name: %s, %s}", s.Sentinel.Addr, s.MasterName, user)})
	s.Master.Pause()
	defer s.Master.Resume()
	if out, err, code := command(t, "purge", "--ops", node.app.OpsURL(), "--kind", "buyer"); code != 0 {
		t.Errorf("while the master changes: exit %d, %s%s", code, out, err)
	}
	nothingDenied(t, s.Replica)
}

// slowPlan limits the accounts on it; keysInFleet has the keys in Redis, and the
// version read so often that a lost message is no matter.
const (
	slowPlan    = "rate_limit: {plans: {slow: {per_second: 0.01, burst: 6}}}"
	keysInFleet = "{redis: {timeout: 2s}, cache_ttl: 10m}"
)

// A Cluster of three masters holds everything: lists, leases, epochs, purges,
// rates and keys; two nodes go on without one of the three.
func TestCluster(t *testing.T) {
	t.Parallel() // it waits
	cluster := redistest.StartCluster(t, 3)
	user := restricted(t, cluster.Masters...)
	nodes := pair(t, fmt.Sprintf("addrs: [%q, %q, %q], %s, %s", cluster.Masters[0].Addr, cluster.Masters[1].Addr, cluster.Masters[2].Addr, relaxedTimeout, user),
		setup{auth: keysInFleet, yaml: slowPlan})
	keysOfFleet(nodes)
	isFleet(nodes)
	rememberKeys(nodes, 5)
	nothingDenied(t, cluster.Masters...)
	var spare *redistest.Server // has none of the seller's lists, which are on one master
	for _, master := range cluster.Masters {
		keys := master.Do("KEYS", "iq:*")
		if keys == "*0" {
			t.Errorf("nothing is on the master at %s", master.Addr)
		}
		if !strings.Contains(keys, ":seller:") {
			spare = master
		}
	}

	stop := nodes[0].requests()
	spare.Kill()
	nodes[0].eventually("lists are shared by the masters that are left", sharing(nodes, "left"))
	if n, wrong := stop(); wrong != "" || n == 0 {
		t.Errorf("of %d requests not every one was a 200: %s", n, wrong)
	}
}

// rememberKeys waits until both nodes know of so many changes of the keys, and remember
// both keys: a change that the version told of first has made them forget all.
func rememberKeys(nodes [2]*program, changes float64) {
	for _, node := range nodes {
		node.eventually("all changes of the keys are known", func() bool { return node.metric("inquiry_gateway_auth_store_version") == changes })
		for target, key := range map[string]string{buyerList: "buyer", sellerList: "seller"} {
			node.eventually("the key is known", func() bool { return node.get(target, key).status == http.StatusOK })
		}
	}
}

// A Cluster loses a master that has a replica: soon after Redis has a new master
// both nodes use it, and no request fails while a remembered key is good.
func TestClusterFailsOver(t *testing.T) {
	t.Parallel() // it waits for Redis to notice
	for _, mode := range []struct{ name, coverage string }{{"the other slots go on", "no"}, {"all slots stop", "yes"}} {
		t.Run(mode.name, func(t *testing.T) {
			cluster := redistest.StartReplicatedCluster(t, 3, "--cluster-require-full-coverage", mode.coverage)
			user := restricted(t, append(cluster.Masters, cluster.Replicas...)...)
			nodes := pair(t, fmt.Sprintf("addrs: [%q, %q, %q], %s, %s", cluster.Masters[0].Addr, cluster.Masters[1].Addr, cluster.Masters[2].Addr, relaxedTimeout, user),
				setup{auth: keysInFleet, yaml: slowPlan})
			keysOfFleet(nodes)
			shared := sharing(nodes, "failover")
			nodes[0].eventually("a list is shared", shared)
			rememberKeys(nodes, 4)
			lost := -1
			for i, master := range cluster.Masters {
				if strings.Contains(master.Do("KEYS", "iq:*"), ":seller:") {
					lost = i
				}
			}
			stops := [2]func() (int64, string){nodes[0].requests(), nodes[1].requests()}
			cluster.Masters[lost].Kill()
			killed := time.Now()
			nodes[0].eventually("Redis has a new master", func() bool { return cluster.FailedOver(lost) })
			promoted := time.Now()
			nodes[0].eventually("a list is shared through the new master", shared)
			for _, node := range nodes {
				node.eventually("Redis is well again", func() bool { return node.redisState() == "ok" })
			}
			t.Logf("a new master after %s, in use after another %s", promoted.Sub(killed), time.Since(promoted))
			if took := time.Since(promoted); took > 3*time.Second {
				t.Errorf("lists were shared again only %s after Redis had a new master", took)
			}
			for i, stop := range stops {
				if n, wrong := stop(); wrong != "" || n == 0 {
					t.Errorf("node %d: of %d requests not every one was a 200: %s", i, n, wrong)
				}
			}
			before := nodes[0].system.Requests().Seller
			for range 20 {
				shared()
			}
			if n := nodes[0].system.Requests().Seller - before; n != 20 {
				t.Errorf("the legacy was asked %d times for 20 cold lists", n)
			}
			purgesReach(nodes, "--account", legacy.BuyerTypical)
		})
	}
}

// The user of the README suffices for everything, over TLS with a certificate
// on both sides; a server of another CA is not believed.
func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	server, files := redistest.StartTLS(t)
	user := restricted(t, server)
	redis := fmt.Sprintf("addrs: [%q], tls: {ca_file: %q, cert_file: %q, key_file: %q}, %s, %s", server.Addr, files.CA, files.Cert, files.Key, relaxedTimeout, user)
	nodes := pair(t, redis, setup{auth: keysInFleet, yaml: slowPlan})
	keysOfFleet(nodes)
	isFleet(nodes)
	nothingDenied(t, server)

	distrusting := start(t, setup{yaml: "redis: {" + strings.Replace(redis, fmt.Sprintf("ca_file: %q, ", files.CA), "", 1) + "}"})
	distrusting.eventually("the server is not believed", func() bool {
		return distrusting.get(buyerList, "buyer").status == http.StatusOK && distrusting.redisState() == "down"
	})
}

// isFleet holds that the nodes share lists, fills, purges, rates, keys and what
// their breakers know. The account of other-buyer is on the plan slow.
func isFleet(nodes [2]*program) {
	t := nodes[0].t
	t.Helper()
	nodes[0].eventually("a list is shared", sharing(nodes, "fleet"))
	purgesReach(nodes, "--account", legacy.BuyerTypical)
	purgesReach(nodes, "--kind", "buyer")
	fillsOnce(nodes)

	allowed := 0
	for i := range 20 {
		switch a := nodes[i%2].get(buyerList, "other-buyer"); a.status {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if allowed == 0 || allowed > 6 {
		t.Errorf("%d of 20 requests to two nodes passed a burst of 6", allowed)
	}
	for i, node := range nodes {
		if metrics := string(node.ops("/metrics").body); !strings.Contains(metrics, "inquiry_gateway_rate_limit_fallback 0") {
			t.Errorf("node %d limits on its own", i)
		}
	}

	keysCommandFor[map[string]any](nodes[0], "keys", "revoke", "other-buyer")
	for _, node := range nodes {
		node.eventually("the revoked key is refused", func() bool { return node.get(buyerList, "other-buyer").status == http.StatusUnauthorized })
	}
	if keys := keysCommandFor[auth.Listing](nodes[0], "keys", "list").Keys; len(keys) != 3 {
		t.Errorf("keys list: %+v", keys)
	}
}

// fillsOnce asks both nodes many times at once for one list that takes its time.
func fillsOnce(nodes [2]*program) {
	t := nodes[0].t
	t.Helper()
	asked := nodes[0].system.Requests().Seller
	nodes[0].system.SetLatency(100 * time.Millisecond)
	defer nodes[0].system.SetLatency(0)
	var group sync.WaitGroup
	for i := range 20 {
		node := nodes[i%2]
		r := node.request(http.MethodGet, sellerList+"?status=pending", "seller")
		group.Go(func() {
			if a := node.do(r); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if n := nodes[0].system.Requests().Seller - asked; n != 1 {
		t.Errorf("20 callers of two nodes asked the legacy %d times", n)
	}
}
