package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// The master dies while requests go on: none of them fails, and two nodes share
// lists and purges again through the new master.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	user := restricted(t, s.Master, s.Replica)
	nodes := newPair(t, fmt.Sprintf("addrs: [%q], master_name: %s, %s", s.Sentinel.Addr, s.MasterName, user), setup{})
	shared := nodes.sharing()
	nodes[0].eventually("a list is shared", shared)
	nodes.purgesReach("--account", legacy.BuyerTypical)

	stops := [2]func(){nodes[0].keepAsking(), nodes[1].keepAsking()}
	nothingDenied(t, s.Master)
	s.Master.Kill()
	nodes[0].eventually("a list is shared through the new master", shared)
	for i, node := range nodes {
		node.eventually("Redis is well again", func() bool { return node.part("redis") == "ok" })
		stops[i]()
	}
	nodes.purgesReach("--kind", "buyer")
	nothingDenied(t, s.Replica)
}

// A purge that comes while Redis changes its master is taken all the same.
func TestPurgeDuringAFailOver(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	user := restricted(t, s.Master, s.Replica)
	node := start(t, setup{redis: fmt.Sprintf("{addrs: [%q], master_name: %s, %s}", s.Sentinel.Addr, s.MasterName, user)})
	s.Master.Pause()
	defer s.Master.Resume()
	commandSays(t, 0, "purged", "purge", "--ops", node.app.OpsURL(), "--kind", "buyer", "--wait", "1m")
	nothingDenied(t, s.Replica)
}

// A purge that Redis does not take says what to do, which is to have it repeated: then each node has
// it once Redis is back.
func TestAPurgeThatRedisDoesNotTake(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := newPair(t, fmt.Sprintf("addrs: [%q], %s", server.Addr, relaxedTimeout), setup{})
	for _, node := range nodes {
		node.eventually("the list is cached", func() bool { return node.get(buyerList, "buyer").isHit() })
	}
	server.Kill()
	commandSays(t, 1, "purge --wait 5m", "purge", "--ops", nodes[0].app.OpsURL(), "--kind", "buyer")
	commandSays(t, 1, "on this node only", "purge", "--ops", nodes[0].app.OpsURL(), "--kind", "buyer")
	if nodes[0].get(buyerList, "buyer").isHit() || !nodes[1].get(buyerList, "buyer").isHit() {
		t.Error("the purge does not hold on the node that was asked, or it has reached another one")
	}
	waited := make(chan int)
	go func() {
		_, _, code := command(t, "purge", "--ops", nodes[0].app.OpsURL(), "--kind", "buyer", "--wait", "5m")
		waited <- code
	}()
	server.Restart()
	if code := <-waited; code != 0 {
		t.Errorf("exit code %d", code)
	}
	before := nodes[0].system.Requests().Buyer
	nodes[1].eventually("the other node has the purge", func() bool {
		nodes[1].get(buyerList, "buyer")
		return nodes[0].system.Requests().Buyer > before
	})
}

// clusterPair is a pair with all in a Cluster, keys included, by the user of the docs.
func clusterPair(t *testing.T, cluster *redistest.Cluster) pair {
	user := restricted(t, append(cluster.Masters, cluster.Replicas...)...)
	var addrs []string
	for _, master := range cluster.Masters {
		addrs = append(addrs, fmt.Sprintf("%q", master.Addr))
	}
	nodes := newPair(t, fmt.Sprintf("addrs: [%s], %s, %s", strings.Join(addrs, ", "), relaxedTimeout, user),
		setup{auth: keysInFleet, yaml: slowPlan})
	nodes.makeKeys()
	return nodes
}

// A Cluster of three masters holds everything: lists, leases, epochs, purges,
// rates and keys; two nodes go on without one of the three.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	nodes := clusterPair(t, cluster)
	nodes.isFleet()
	nodes.rememberKeys(cluster.Client(t))
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
	stop := nodes[0].keepAsking()
	spare.Kill()
	nodes[0].eventually("lists are shared by the masters that are left", nodes.sharing())
	stop()
}

// A Cluster loses a master that has a replica: soon after Redis has a new master
// both nodes use it, and no request fails while a remembered key is good.
func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	for name, coverage := range map[string]string{"the other slots go on": "no", "all slots stop": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartReplicatedCluster(t, 3, "--cluster-require-full-coverage", coverage)
			nodes := clusterPair(t, cluster)
			shared := nodes.sharing()
			nodes[0].eventually("a list is shared", shared)
			nodes.rememberKeys(cluster.Client(t))
			lost := -1
			for i, master := range cluster.Masters {
				if strings.Contains(master.Do("KEYS", "iq:*"), ":seller:") {
					lost = i
				}
			}
			stops := [2]func(){nodes[0].keepAsking(), nodes[1].keepAsking()}
			cluster.Masters[lost].Kill()
			nodes[0].eventually("Redis has a new master", func() bool { return cluster.FailedOver(lost) })
			promoted := time.Now()
			nodes[0].eventually("a list is shared through the new master", shared)
			for _, node := range nodes {
				node.eventually("Redis is well again", func() bool { return node.part("redis") == "ok" })
			}
			if took := time.Since(promoted); took > 20*time.Second { // go-redis alone takes 30 s and more
				t.Errorf("lists were shared again only %s after Redis had a new master", took)
			}
			for _, stop := range stops {
				stop()
			}
			before := nodes[0].system.Requests().Seller
			for range 20 {
				shared()
			}
			if n := nodes[0].system.Requests().Seller - before; n != 20 {
				t.Errorf("the legacy was asked %d times for 20 cold lists", n)
			}
			nodes.purgesReach("--account", legacy.BuyerTypical)
		})
	}
}

// The user of the docs suffices for everything, over TLS with a certificate
// on both sides; a server of another CA is not believed.
func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	server, files := redistest.StartTLS(t)
	redis := func(ca string) string {
		return fmt.Sprintf("addrs: [%q], tls: {%scert_file: %q, key_file: %q}, %s, %s",
			server.Addr, ca, files.Cert, files.Key, relaxedTimeout, restricted(t, server))
	}
	nodes := newPair(t, redis(fmt.Sprintf("ca_file: %q, ", files.CA)), setup{auth: keysInFleet, yaml: slowPlan})
	nodes.makeKeys()
	nodes.isFleet()
	nothingDenied(t, server)

	distrusting := start(t, setup{redis: "{" + redis("") + "}"})
	distrusting.eventually("the server is not believed", func() bool {
		return distrusting.get(buyerList, "buyer").status == http.StatusOK && distrusting.part("redis") == "down"
	})
}
