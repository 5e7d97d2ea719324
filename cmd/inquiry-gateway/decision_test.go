package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// asker is a way to ask for the buyers' list, and the status it deserves while
// the key store works.
type asker struct {
	name    string
	headers []string // of the Authorization header
	status  int
	stored  bool // the key has a record in the store
}

// askers makes every sort of key for an account of buyers, in the store.
func askers(t *testing.T, tools *keysredis.Editor, suffix, account string) []asker {
	t.Helper()
	read := []string{auth.ScopeInquiriesRead}
	add := func(name, kind, access string, record auth.KeyRecord, status int) asker {
		key, err := auth.Generate(kind)
		if err != nil {
			t.Fatal(err)
		}
		owner := auth.Account{ID: account, APIAccess: access}
		if access != auth.AccessPaid {
			owner.ID += "-unpaid"
		}
		record.ID, record.Kind, record.Account, record.Digest = strings.NewReplacer(" ", "-", ",", "").Replace(name)+suffix, kind, owner.ID, auth.Hasher{}.Hash(key)
		if err := tools.Add(context.Background(), record, &owner); err != nil {
			t.Fatal(err)
		}
		return asker{name, []string{"Bearer " + key}, status, true}
	}
	good := add("good", "buyer", auth.AccessPaid, auth.KeyRecord{Scopes: read}, 200)
	return []asker{
		good,
		add("no scope", "buyer", auth.AccessPaid, auth.KeyRecord{}, 403),
		add("not paid", "buyer", auth.AccessNone, auth.KeyRecord{Scopes: read}, 403),
		add("not paid, no scope", "buyer", auth.AccessNone, auth.KeyRecord{}, 403),
		add("seller", "seller", auth.AccessPaid, auth.KeyRecord{Scopes: read}, 403),
		add("seller, no scope", "seller", auth.AccessPaid, auth.KeyRecord{}, 403),
		add("expired", "buyer", auth.AccessPaid, auth.KeyRecord{Scopes: read, ExpiresAt: time.Now().Add(-time.Hour)}, 401),
		add("revoked", "buyer", auth.AccessPaid, auth.KeyRecord{Scopes: read, Revoked: true}, 401),
		{name: "none", status: 401},
		{name: "malformed", headers: []string{"Bearer a b"}, status: 401},
		{name: "two headers", headers: []string{good.headers[0], good.headers[0]}, status: 400},
		{name: "wrong checksum", headers: []string{good.headers[0][:len(good.headers[0])-1] + flipped(good.headers[0])}, status: 401},
		{name: "unknown", headers: []string{"Bearer nobody-has-this-key" + suffix}, status: 401},
	}
}

func flipped(key string) string {
	if key[len(key)-1] == '0' {
		return "1"
	}
	return "0"
}

// Every sort of key against every state of the key store, with the list cached
// and not: what authorization refuses is never answered, least of all from a
// cache, and a store in trouble lets in only whom it has confirmed lately.
func TestAuthorizationDecidesWhateverIsCached(t *testing.T) {
	t.Parallel() // it waits
	for state, trouble := range map[string]func(*redistest.Server){
		"up": func(*redistest.Server) {}, "slow": (*redistest.Server).Pause, "down": (*redistest.Server).Kill, "garbage": spoilKeys,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close()
			tools := keysredis.NewEditor(client, "iq", auth.Hasher{})
			known, strange := askers(t, tools, "-1", legacy.BuyerTypical), askers(t, tools, "-2", legacy.BuyerOther)
			p := start(t, setup{
				yaml: "redis: {addrs: [\"" + server.Addr + "\"]}\ncache: {buyer: {ttl: 1h}}",
				auth: "{redis: {ttl: 10m, poll: 30s}}",
			})
			p.eventually("the node has taken in what the store says so far", func() bool {
				metrics := string(p.ops("/metrics").body)
				return strings.Contains(metrics, "inquiry_gateway_auth_store_version ") && !strings.Contains(metrics, "inquiry_gateway_auth_store_version 0\n")
			})
			for _, a := range known {
				if got := p.asks(a); got.status != a.status {
					t.Fatalf("store up, %s: %d, want %d: %s", a.name, got.status, a.status, got.body)
				}
			}
			trouble(server)
			for _, a := range known { // remembered, and the list is cached
				got := p.asks(a)
				if a.name == "unknown" && got.status == http.StatusServiceUnavailable && state != "up" {
					continue // that there is no such key is remembered for a moment only
				}
				if got.status != a.status {
					t.Errorf("warm, %s: %d, want %d: %s", a.name, got.status, a.status, got.body)
				}
			}
			for _, a := range strange {
				want := a.status
				// Of a key without a record nothing can be garbage: it is known not to be there.
				if state != "up" && (a.stored || a.name == "unknown" && state != "garbage") {
					want = http.StatusServiceUnavailable
				}
				if got := p.asks(a); got.status != want {
					t.Errorf("cold, %s: %d, want %d: %s", a.name, got.status, want, got.body)
				}
			}
		})
	}
}

func (p *program) asks(a asker) answer {
	p.t.Helper()
	r := p.request(http.MethodGet, buyerList, "")
	r.Header["Authorization"] = slices.Clone(a.headers)
	return p.do(r)
}

// spoilKeys makes every record of a key something that is none.
func spoilKeys(s *redistest.Server) {
	const records = "iq:{auth}:sha256"
	for _, digest := range strings.Fields(s.Do("HKEYS", records)) {
		if len(digest) == 64 {
			s.Do("HSET", records, digest, "garbage")
		}
	}
}
