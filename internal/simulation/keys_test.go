package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// keyring is the store of keys: a file, or records in Redis.
type keyring struct {
	w       *world
	inRedis bool

	mu      sync.Mutex
	all     []*key
	version int
}

func buyers() []string   { return []string{"b0", "b1", "b2", "b3", "b4", "b5"} }
func sellers() []string  { return []string{"s0", "s1", "s2"} }
func accounts() []string { return append(buyers(), sellers()...) }

func kindOf(account string) string {
	return map[byte]string{'b': kindBuyer, 's': kindSeller}[account[0]]
}

const keysOfAccount = 3 // of which the first is never revoked

func newKeyring(w *world, inRedis bool) *keyring {
	k := &keyring{w: w, inRedis: inRedis}
	for _, account := range accounts() {
		for i := range keysOfAccount {
			k.all = append(k.all, &key{secret: fmt.Sprintf("key-%s-%d", account, i), kind: kindOf(account), account: account})
		}
	}
	if inRedis {
		w.redis.with(k.restore)
	} else {
		k.save()
	}
	return k
}

// section is the auth section of the configuration.
func (k *keyring) section() string {
	if k.inRedis {
		return "{redis: {}}"
	}
	return fmt.Sprintf("{keys_file: %q}", k.file())
}

func (k *keyring) file() string { return filepath.Join(k.w.dir, "keys.yaml") }

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// save writes the keys file.
func (k *keyring) save() {
	var b strings.Builder
	b.WriteString("accounts:\n")
	for _, account := range accounts() {
		fmt.Fprintf(&b, "  - {id: %s, api_access: paid}\n", account)
	}
	b.WriteString("keys:\n")
	for _, key := range k.all {
		fmt.Fprintf(&b, "  - {id: %s, sha256: %s, kind: %s, account: %s, scopes: [\"inquiries:read\"], revoked: %v}\n",
			key.secret, digest(key.secret), key.kind, key.account, !key.revokedAt.IsZero())
	}
	k.w.write(k.file(), b.String())
}

// restore puts all records into Redis at once, as an operator does after Redis has lost
// them. The caller holds the turn of Redis.
func (k *keyring) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, account := range accounts() {
		k.w.redis.store.do([]string{"HSET", "iq:{auth}:accounts", account, fmt.Sprintf(`{"id":%q,"api_access":"paid"}`, account)})
	}
	for _, key := range k.all {
		k.put(key)
	}
	k.count()
}

// put writes the record of a key into Redis, and count the version of all.
func (k *keyring) put(key *key) {
	record := fmt.Sprintf(`{"id":%q,"kind":%q,"account":%q,"scopes":["inquiries:read"],"revoked":%v}`, key.secret, key.kind, key.account, !key.revokedAt.IsZero())
	k.w.redis.store.do([]string{"HSET", "iq:{auth}:sha256", digest(key.secret), record})
	k.w.redis.store.do([]string{"HSET", "iq:{auth}:ids", key.secret, digest(key.secret)})
}

func (k *keyring) count() {
	k.version++
	k.w.redis.store.do([]string{"SET", "iq:{auth}:version", fmt.Sprint(k.version)})
}

// revoke revokes a key in the store. The command that does so fails where Redis has lost the
// key.
func (k *keyring) revoke(key *key) {
	k.w.log("key %s is revoked", key.secret)
	if k.inRedis {
		k.w.redis.with(func() {
			if k.w.redis.store.do([]string{"HGET", "iq:{auth}:sha256", digest(key.secret)}) == nil {
				return
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			key.revokedAt = time.Now()
			k.put(key)
			k.count()
			k.w.redis.do([]string{"PUBLISH", "iq:{auth}:changes", fmt.Sprintf("%d key %s", k.version, digest(key.secret))})
		})
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key.revokedAt = time.Now()
	k.save()
}

// pick gives the i-th key of an account.
func (k *keyring) pick(account string, i int) *key {
	for _, found := range k.all {
		if found.account == account {
			if i == 0 {
				return found
			}
			i--
		}
	}
	panic("no such account: " + account)
}

// revokedAt is zero for a good key.
func (k *keyring) revokedAt(key *key) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return key.revokedAt
}
