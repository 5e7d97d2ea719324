package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// Cluster is a Redis Cluster. Slots whose master is gone and has no replica
// fail, the others go on.
type Cluster struct {
	Masters  []*Server // at the start
	Replicas []*Server // Replicas[i] is the replica of Masters[i]; empty without replicas
}

// StartCluster runs a cluster of n masters without replicas and waits until it
// serves all slots.
func StartCluster(t testing.TB, n int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	var buses []string
	for range n {
		s, bus := startClusterNode(t, args)
		c.Masters, buses = append(c.Masters, s), append(buses, bus)
	}
	for i, s := range c.Masters {
		first, last := i*slots/n, (i+1)*slots/n-1
		s.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last))
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		c.Masters[0].Do("CLUSTER", "MEET", "127.0.0.1", s.Port(), buses[i])
	}
	for _, s := range c.Masters {
		s.until("cluster", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d", n))
		})
	}
	return c
}

// StartReplicatedCluster runs a cluster of n masters with one replica each, and
// waits until every replica can take its master's place.
func StartReplicatedCluster(t testing.TB, n int, args ...string) *Cluster {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0"}, args...)
	c := StartCluster(t, n, args...)
	for _, master := range c.Masters {
		s, bus := startClusterNode(t, args)
		c.Replicas = append(c.Replicas, s)
		c.Masters[0].Do("CLUSTER", "MEET", "127.0.0.1", s.Port(), bus)
		id := strings.Split(master.Do("CLUSTER", "MYID"), "\r\n")[1]
		s.until("replica", func() bool { return s.Do("CLUSTER", "REPLICATE", id) == "+OK" })
	}
	for i, s := range c.Replicas {
		s.until("replica", func() bool {
			return strings.Contains(s.Do("INFO", "replication"), "master_link_status:up") &&
				strings.Contains(c.Masters[i].Do("INFO", "replication"), "state=online") &&
				c.everyoneKnows(s.Port(), "slave")
		})
	}
	return c
}

// everyoneKnows tells whether all masters hold the node at the port for a node
// with that role.
func (c *Cluster) everyoneKnows(port, role string) bool {
	for _, s := range c.Masters {
		known := false
		for line := range strings.Lines(s.Do("CLUSTER", "NODES")) {
			known = known || strings.Contains(line, ":"+port+"@") && strings.Contains(line, role)
		}
		if !known {
			return false
		}
	}
	return true
}

// Client returns a client of the cluster, which is closed with the test.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// FailedOver tells whether Replicas[i] has taken the place of Masters[i], and
// all slots are served again.
func (c *Cluster) FailedOver(i int) bool {
	return strings.Contains(c.Replicas[i].Do("ROLE"), "master") &&
		strings.Contains(c.Replicas[i].Do("CLUSTER", "INFO"), fmt.Sprintf("cluster_slots_ok:%d", slots))
}

// startClusterNode runs one node, and returns the port of its bus.
func startClusterNode(t testing.TB, args []string) (s *Server, bus string) {
	t.Helper()
	_, bus, _ = net.SplitHostPort(FreeAddr(t)) // the default, port+10000, may not exist
	return Start(t, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no", "--cluster-config-file", "nodes.conf",
	}, args...)...), bus
}

// Addrs lists all masters.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Masters {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Sentinel is a master with one replica, watched by one sentinel.
type Sentinel struct {
	MasterName string
	Sentinel   *Server
	Master     *Server // at the start
	Replica    *Server
}

// StartSentinel runs the three and waits until the sentinel knows the replica,
// which it makes master soon after the master is killed.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{MasterName: "lists", Master: Start(t, "--repl-diskless-sync-delay", "0")}
	s.Replica = Start(t, "--replicaof", "127.0.0.1 "+s.Master.Port())
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s 1\nsentinel down-after-milliseconds %[1]s 300\nsentinel failover-timeout %[1]s 2000\n",
		s.MasterName, s.Master.Port())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Sentinel = start(t, &Server{bin: "redis-sentinel", conf: conf})
	s.Sentinel.until("sentinel", func() bool {
		return strings.Contains(s.Master.Do("INFO", "replication"), "state=online") &&
			strings.Contains(s.Sentinel.Do("SENTINEL", "REPLICAS", s.MasterName), s.Replica.Port())
	})
	return s
}
