package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// key is an API key. Nobody takes a revocation back.
type key struct {
	secret, kind, account string
	revokedAt             time.Time // zero: it is good
}

// keyring is the store of keys in one of its three forms: a file, records in
// Redis, or an authorization server.
type keyring struct {
	w      *world
	server *http.Server // nil: another form

	mu      sync.Mutex
	all     []*key
	version int
	fault   string // of the authorization server
}

func newKeyring(w *world) *keyring {
	k := &keyring{w: w}
	add := func(kind, account string) {
		for i := range 3 {
			k.all = append(k.all, &key{secret: fmt.Sprintf("key-%s-%d", account, i), kind: kind, account: account})
		}
	}
	for _, account := range buyers() {
		add(kindBuyer, account)
	}
	for _, account := range sellers() {
		add(kindSeller, account)
	}
	switch w.auth {
	case "introspection":
		k.server = &http.Server{Handler: k, ErrorLog: log.New(io.Discard, "", 0)}
		l := w.net.listen("keys", keysAddress)
		w.wg.Go(func() { _ = k.server.Serve(l) })
	case "redis":
		w.redis.with(k.restore)
	default:
		w.write("keys.yaml", k.text())
	}
	return k
}

func (k *keyring) close() {
	if k.server != nil {
		_ = k.server.Close()
	}
}

// section is the auth section of the configuration.
func (k *keyring) section() string {
	switch k.w.auth {
	case "introspection":
		return "{introspection: {url: \"http://" + keysAddress + "\"}}"
	case "redis":
		return "{redis: {}}"
	}
	return "{keys_file: " + filepath.Join(k.w.dir, "keys.yaml") + "}"
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// text is the keys file.
func (k *keyring) text() string {
	var b strings.Builder
	b.WriteString("accounts:\n")
	for _, account := range append(buyers(), sellers()...) {
		fmt.Fprintf(&b, "  - {id: %s, api_access: paid}\n", account)
	}
	b.WriteString("keys:\n")
	for _, key := range k.all {
		fmt.Fprintf(&b, "  - {id: %s, sha256: %s, kind: %s, account: %s, scopes: [\"inquiries:read\"], revoked: %v}\n",
			key.secret, digest(key.secret), key.kind, key.account, !key.revokedAt.IsZero())
	}
	return b.String()
}

// restore puts all records into Redis at once, as an operator does after Redis has
// lost them. The caller holds the turn of Redis.
func (k *keyring) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	do := func(a ...string) { k.w.redis.store.do(a) }
	for _, account := range append(buyers(), sellers()...) {
		do("HSET", "iq:{auth}:accounts", account, fmt.Sprintf(`{"id":%q,"api_access":"paid"}`, account))
	}
	for _, key := range k.all {
		do("HSET", "iq:{auth}:sha256", digest(key.secret), key.record(!key.revokedAt.IsZero()))
		do("HSET", "iq:{auth}:ids", key.secret, digest(key.secret))
	}
	k.version++
	do("SET", "iq:{auth}:version", fmt.Sprint(k.version))
}

// record is the key as Redis has it.
func (k *key) record(revoked bool) string {
	return fmt.Sprintf(`{"id":%q,"kind":%q,"account":%q,"scopes":["inquiries:read"],"revoked":%v}`, k.secret, k.kind, k.account, revoked)
}

// revoke revokes a key in the store.
func (k *keyring) revoke(key *key) {
	k.w.reach("revocation in " + k.w.auth)
	if k.w.auth == "redis" {
		k.w.redis.with(func() {
			k.mark(key)
			d := digest(key.secret)
			k.w.redis.store.do([]string{"HSET", "iq:{auth}:sha256", d, key.record(true)})
			k.mu.Lock()
			k.version++
			version := k.version
			k.mu.Unlock()
			k.w.redis.store.do([]string{"SET", "iq:{auth}:version", fmt.Sprint(version)})
			k.w.redis.publish("iq:{auth}:changes", fmt.Sprintf("%d key %s", version, d))
		})
		return
	}
	k.mark(key)
	if k.w.auth == "file" {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.w.write("keys.yaml", k.text())
	}
}

func (k *keyring) mark(key *key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key.revokedAt = time.Now()
	k.w.log("key %s is revoked", key.secret)
}

// pick gives a key by its number, and when it was revoked.
func (k *keyring) pick(i int) (key, *key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.all[i%len(k.all)]
	return *found, found
}

// revokedAt is zero for a good key.
func (k *keyring) revokedAt(key *key) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return key.revokedAt
}

func (k *keyring) setFault(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = name
}

// ServeHTTP is the authorization server (RFC 7662).
func (k *keyring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.FormValue("token")
	k.mu.Lock()
	fault := k.fault
	answer := map[string]any{"active": false}
	for _, key := range k.all {
		if key.secret == token && key.revokedAt.IsZero() {
			answer = map[string]any{"active": true, "sub": key.account, "kind": key.kind, "scope": "inquiries:read", "api_access": "paid", "jti": key.secret}
		}
	}
	k.mu.Unlock()
	switch fault {
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
		return
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"active":"yes"}`))
		return
	case "slow":
		if sleep(r.Context(), time.Second) != nil {
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who has left needs no answer
}
