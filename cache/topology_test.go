package cache

import (
	"fmt"
	"inquiry-gateway/internal/redisclient"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// shares tells whether a second node gets from Redis what a first one filled.
func shares(t *testing.T, c redisclient.Config, g *legacy, account string) bool {
	t.Helper()
	k := Key{Kind: KindBuyer, Account: account}
	first := freshReader(t, openRedis(t, c), g)
	mustGet(t, first, k)
	settled(first)
	second := freshReader(t, openRedis(t, c), g)
	r := mustGet(t, second, k)
	settled(second)
	return r.Tier == TierRedis
}

func TestListsAndPurgesLiveInAClusterThatLosesAMaster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	c := redisclient.DefaultConfig()
	c.Addrs = cluster.Addrs()
	g := &legacy{clock: newClock()}
	f := &fleet{legacy: g, nodes: []*Lists{freshReader(t, openRedis(t, c), g), freshReader(t, openRedis(t, c), g)}}
	keys := make([]Key, 30) // over all slots
	for i := range keys {
		keys[i] = Key{Kind: KindBuyer, Account: fmt.Sprint("account-", i)}
	}
	f.warm(t, keys...)
	if n := g.calls.Load(); n != int64(len(keys)) {
		t.Errorf("%d fills of %d lists by two nodes", n, len(keys))
	}
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Kind: KindBuyer}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "account-7"}); err != nil {
		t.Fatal(err)
	}
	t.Logf("purged on the other node after %s", gone(t, f.nodes[1], keys[7]))

	cluster.Masters[1].Kill()
	var fromRedis int
	for _, k := range keys {
		start := time.Now()
		mustGet(t, f.nodes[0], k)
		t.Logf("%s with a master gone: %s", k.Account, time.Since(start))
		f.settled()
		if mustGet(t, f.nodes[1], k).Tier == TierRedis {
			fromRedis++
		}
		f.settled()
	}
	if fromRedis == 0 {
		t.Error("not one list came through the masters that are left")
	}
}

func TestListsComeBackAfterASentinelsFailOver(t *testing.T) {
	s := redistest.StartSentinel(t)
	c := redisclient.DefaultConfig()
	c.Addrs, c.MasterName = []string{s.Sentinel.Addr}, s.MasterName
	g := &legacy{clock: newClock()}
	redistest.Eventually(t, "a list is shared through the first master", func() bool { return shares(t, c, g, fmt.Sprint("before-", g.calls.Load())) })
	l := freshReader(t, openRedis(t, c), g)
	mustGet(t, l, aKey)
	settled(l)
	replica := redis.NewClient(&redis.Options{Addr: s.Replica.Addr})
	defer func() { _ = replica.Close() }()
	s.Master.Kill()
	start := time.Now()
	n := 0
	redistest.Eventually(t, "the new master takes lists", func() bool {
		n++
		k := Key{Kind: KindBuyer, Account: fmt.Sprint("after-", n)}
		mustGet(t, l, k) // never fails, master or not
		settled(l)
		return replica.Exists(t.Context(), entryKey(l, k)).Val() == 1
	})
	t.Logf("lists are shared again %s after the master was killed; %d look-ups meanwhile", time.Since(start), n)
	redistest.Eventually(t, "a purge is taken after the fail-over", func() bool {
		_, err := l.Purge(t.Context(), Scope{Account: "acme"})
		return err == nil
	})
}

func TestListsAreSharedOverTLSWithARestrictedUser(t *testing.T) {
	srv, files := redistest.StartTLS(t)
	if got := srv.Do("ACL", "SETUSER", "gateway", "on", ">secret", "~iq:*", "&iq:*", "-@all",
		"+@read", "+@write", "+@connection", "+@pubsub", "+@scripting", "+time"); got != "+OK" {
		t.Fatal(got)
	}
	c := redisAt(srv.Addr)
	c.UsernameFile, c.PasswordFile = secretfile.New("user", "gateway\n"), secretfile.New("password", "secret\n")
	c = relaxTimeouts(c)
	c.TLS.Files = secretfile.TLS{CAFile: contentOf(t, files.CA), CertFile: contentOf(t, files.Cert), KeyFile: contentOf(t, files.Key)}
	g := &legacy{clock: newClock()}
	n := 0
	redistest.Eventually(t, "a list is shared", func() bool { // a busy machine may need longer to shake hands than a call may take
		n++
		return shares(t, c, g, fmt.Sprint("account-", n))
	})
	l := freshReader(t, openRedis(t, c), g)
	redistest.Eventually(t, "a purge is taken", func() bool {
		_, err := l.Purge(t.Context(), Scope{Kind: KindBuyer})
		return err == nil
	})
	c.TLS.Files.CAFile = secretfile.File{}
	if shares(t, c, g, "other") {
		t.Error("a server of an unknown CA was trusted")
	}
}

func contentOf(t *testing.T, path string) secretfile.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return secretfile.New(path, string(text))
}

func TestAUserWithTooFewRightsIsToldOfOnce(t *testing.T) {
	for name, missing := range map[string]string{"command": "-getrange", "command in a script": "-publish"} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			srv.Do("ACL", "SETUSER", "default", missing)
			var log testkit.Log
			rdb, err := redisclient.Open(relaxTimeouts(redisAt(srv.Addr)), redisclient.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = rdb.Close() })
			l := freshReader(t, rdb, &legacy{clock: newClock()})
			for n := range 10 {
				mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint(n)})
				settled(l)
				_, _ = l.Purge(t.Context(), Scope{Account: fmt.Sprint(n)}) // may be what is denied
			}
			if n := strings.Count(log.String(), "may not do what the gateway needs"); n != 1 || l.RedisState() != "ok" {
				t.Errorf("told %d times, Redis is %s:\n%s", n, l.RedisState(), log.String())
			}
		})
	}
}
