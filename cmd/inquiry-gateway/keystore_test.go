package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// keysInRedis starts a node whose keys are in that Redis. A key is remembered for longer
// than a test waits: only a change that the node hears of can be why one is noticed.
func keysInRedis(t *testing.T, address string) *program {
	return start(t, setup{
		pollFiles: onlyWhenTold,
		yaml:      `redis: {addrs: ["` + address + `"]}` + "\nrate_limit: {per_second: 1000, plans: {pro: {per_second: 2000}}}",
		prepare: func(p *program) {
			p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "{keys_file: keys.yaml}", "{redis: {}, cache_ttl: 10m}", 1))
		},
	})
}

// keysCommandFor runs keys or accounts with --json and decodes the answer.
func keysCommandFor[T any](p *program, args ...string) T {
	p.t.Helper()
	args = append([]string{args[0], "-c", filepath.Join(p.dir, "gateway.yaml"), "--json"}, args[1:]...)
	out, errOut, code := command(p.t, args...)
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		p.t.Fatalf("%v: exit code %d, %v: %s%s", args, code, err, out, errOut)
	}
	return v
}

type shownKey struct {
	Key string
	auth.KeyRecord
	Old *auth.KeyRecord
}

// The life of a key over two nodes: made, used, rotated, its account unpaid and
// paid again, revoked.
func TestKeysInRedisOverTwoNodes(t *testing.T) {
	server := redistest.Start(t)
	nodes := []*program{keysInRedis(t, server.Addr), keysInRedis(t, server.Addr)}
	first := nodes[0]
	everywhere := func(what, id string, status int) {
		t.Helper()
		begun := time.Now()
		for _, node := range nodes {
			node.eventually(what, func() bool { return node.get(buyerList, id).status == status })
		}
		t.Logf("%s after %s", what, time.Since(begun).Round(time.Millisecond))
	}
	know := func(id, key string) {
		for _, node := range nodes {
			node.keys[id] = key
		}
	}

	if a := keysCommandFor[auth.Account](first, "keys", "account", legacy.BuyerTypical, "--api-access", "paid", "--plan", "pro"); a.Plan != "pro" || a.APIAccess != auth.AccessPaid {
		t.Errorf("keys account: %+v", a)
	}
	made := keysCommandFor[shownKey](first, "keys", "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1")
	know("k1", made.Key)
	everywhere("the new key works", "k1", http.StatusOK)

	next := keysCommandFor[shownKey](first, "keys", "rotate", "k1", "--id", "k2", "--overlap", "1h", "--expires", "720h")
	know("k2", next.Key)
	if next.Account != legacy.BuyerTypical || next.Kind != "buyer" || next.Old == nil || next.Old.ExpiresAt.IsZero() || next.ExpiresAt.Before(next.Old.ExpiresAt) {
		t.Errorf("keys rotate: %+v", next)
	}
	everywhere("the follower works", "k2", http.StatusOK)
	everywhere("the old key still works", "k1", http.StatusOK)

	keysCommandFor[auth.Account](first, "keys", "account", legacy.BuyerTypical, "--api-access", "none")
	everywhere("the unpaid account is refused", "k2", http.StatusForbidden)
	if a := keysCommandFor[auth.Account](first, "keys", "account", legacy.BuyerTypical, "--api-access", "paid"); a.Plan != "pro" {
		t.Errorf("the plan is gone: %+v", a)
	}
	everywhere("the account that paid again is served", "k2", http.StatusOK)

	keysCommandFor[map[string]any](first, "keys", "revoke", "k1")
	everywhere("the revoked key is refused", "k1", http.StatusUnauthorized)
	if x := nodes[1].explained("--key-id", "k1"); x.Access.Verdict != "refused" || !strings.Contains(x.Access.Reason, auth.ReasonRevoked) || x.Access.Plan != "pro" {
		t.Errorf("explain: %+v", x.Access)
	}
	last := keysCommandFor[shownKey](first, "keys", "rotate", "k2", "--id", "k3", "--overlap", "0s")
	know("k3", last.Key)
	everywhere("a key without overlap is refused", "k2", http.StatusUnauthorized)
	everywhere("its follower works", "k3", http.StatusOK)

	listing := keysCommandFor[auth.Listing](first, "keys", "list")
	if len(listing.Keys) != 3 || !listing.Keys[0].Revoked || listing.Keys[1].State(time.Now()) != "expired" {
		t.Errorf("keys list: %+v", listing)
	}
	if accounts := keysCommandFor[[]auth.Account](first, "keys", "account"); len(accounts) != 1 {
		t.Errorf("accounts list: %+v", accounts)
	}
}

func TestKeysInRedisErrors(t *testing.T) {
	server := redistest.Start(t)
	p := keysInRedis(t, server.Addr)
	file := filepath.Join(p.dir, "gateway.yaml")
	try := func(code int, says string, args ...string) {
		t.Helper()
		args = append([]string{args[0], "-c", file}, args[1:]...)
		if out, errOut, got := command(t, args...); got != code || !strings.Contains(out+errOut, says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s%s", args, got, code, says, out, errOut)
		}
	}
	try(1, "keys account", "keys", "new", "--kind", "buyer", "--account", "newcomer")
	try(1, "--api-access to add it", "keys", "account", "newcomer", "--plan", "pro")
	try(0, "account newcomer: api access none, plan none; running gateways see it at once, within 750ms", "keys", "account", "newcomer", "--api-access", "none")
	try(0, "within 10m0s on a node", "keys", "account", "newcomer", "--plan", "pro")
	try(2, `there is no plan "prp" under rate_limit.plans; known: pro`, "keys", "account", "newcomer", "--plan", "prp")
	try(0, "newcomer", "keys", "account")
	try(1, "no such key", "keys", "rotate", "nothing")
	try(1, "no such key", "keys", "revoke", "nothing")
	server.Kill()
	try(1, "refused", "keys", "list")
}

// The same over a keys file, comments kept.
func TestRotateAndAccountsInAKeysFile(t *testing.T) {
	p := start(t, setup{})
	p.write("keys.yaml", "# kept\n"+p.read("keys.yaml"))
	next := keysCommandFor[shownKey](p, "keys", "rotate", "buyer", "--overlap", "0s")
	p.keys["next"] = next.Key
	p.eventually("the follower works", func() bool { return p.get(buyerList, "next").status == http.StatusOK })
	p.eventually("the old key does not", func() bool { return p.get(buyerList, "buyer").status == http.StatusUnauthorized })
	out, errOut, code := command(t, "keys", "--file", filepath.Join(p.dir, "keys.yaml"), "account", "acme", "--api-access", "none")
	if code != 0 || !strings.Contains(out, "account acme: api access none, plan none; running gateways see it within a second") {
		t.Errorf("keys account: %d %s%s", code, out, errOut)
	}
	p.eventually("the unpaid account is refused", func() bool { return p.get(buyerList, "next").status == http.StatusForbidden })
	if text := p.read("keys.yaml"); !strings.HasPrefix(text, "# kept\n") || strings.Contains(text, next.Key) {
		t.Error("the comment is lost, or the key is in the file")
	}
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"rotate", "revoked"}, 1, "is revoked"},
		{[]string{"rotate"}, 2, "which key"},
		{[]string{"rotate", "seller", "--overlap", "-1h"}, 2, "0s or more"},
		{[]string{"rotate", "seller", "--expires", "soon"}, 2, "--expires"},
		{[]string{"rotate", "seller", "--id", "next-seller", "--overlap", "1h"}, 0, "It follows key seller, which is good until"},
		{[]string{"rotate", "seller", "--id", "next-seller"}, 1, "there already"},
	} {
		args := append([]string{"keys", "--file", filepath.Join(p.dir, "keys.yaml")}, tc.args...)
		if out, errOut, code := command(t, args...); code != tc.code || !strings.Contains(out+errOut, tc.says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s%s", tc.args, code, tc.code, tc.says, out, errOut)
		}
	}
	for _, tc := range [][]string{{"account", "acme"}, {"account", "acme", "--api-access", "free"}, {"account", "--plan", "pro"}} {
		args := append([]string{"keys", "--file", filepath.Join(p.dir, "keys.yaml")}, tc...)
		commandSays(t, 2, "", args...)
	}
}

func TestKeysOfAnAuthorizationServerAreMadeThere(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "gateway.yaml")
	text := "auth: {introspection: {url: \"https://id.example.com/introspect\"}}\n" + string(legacy.Mapping())
	writeFile(t, conf, text)
	commandSays(t, 2, "id.example.com", "keys", "-c", conf, "list")
}
