package simulation

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// key is an API key. Nobody takes a revocation back.
type key struct {
	id, kind, account string    // the id is the secret, too
	revokedAt         time.Time // zero: it is good
}

func (k *key) digest() string { return digest(k.id) }

// keyring is the store of keys: a file, or records in Redis.
type keyring struct {
	env     *environment
	inRedis bool
	all     []*key

	mu sync.Mutex // guards revokedAt of all keys
}

// record is where Redis has the record of a key.
func (k *key) record() string { return "iq:key:sha256:" + k.digest() }

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func buyers() []string   { return []string{"b0", "b1", "b2", "b3", "b4", "b5"} }
func sellers() []string  { return []string{"s0", "s1", "s2"} }
func accounts() []string { return append(buyers(), sellers()...) }

func kindOf(account string) string {
	return map[byte]string{'b': kindBuyer, 's': kindSeller}[account[0]]
}

const keysOfAccount = 3 // of which the first is never revoked

func newKeyring(env *environment, inRedis bool) *keyring {
	k := &keyring{env: env, inRedis: inRedis}
	for _, account := range accounts() {
		for i := range keysOfAccount {
			k.all = append(k.all, &key{id: fmt.Sprintf("key-%s-%d", account, i), kind: kindOf(account), account: account})
		}
	}
	if inRedis {
		env.redis.With(k.restore)
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

func (k *keyring) file() string { return filepath.Join(k.env.dir, "keys.yaml") }

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
			key.id, key.digest(), key.kind, key.account, !key.revokedAt.IsZero())
	}
	k.env.write(k.file(), b.String())
}

// restore puts all records into Redis at once, as an operator does after Redis has lost
// them. The caller holds the turn of Redis.
func (k *keyring) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, account := range accounts() {
		k.env.redis.Do("SET", "iq:account:"+account, fmt.Sprintf(`{"id":%q,"api_access":"paid"}`, account))
		k.env.redis.Do("HSET", "iq:{keys}:accounts", account, "")
		k.env.redis.Do("XADD", "iq:{keys}:changes", "*", "account", account)
	}
	k.put(k.all...)
}

// put writes the records of keys into Redis, and then the changes.
func (k *keyring) put(some ...*key) {
	for _, key := range some {
		k.env.redis.Do("HSET", "iq:{keys}:sha256", "id:"+key.id, key.digest(), key.digest(), key.id)
		k.env.redis.Do("SET", key.record(), fmt.Sprintf(`{"id":%q,"kind":%q,"account":%q,"scopes":["inquiries:read"],"revoked":%v}`,
			key.id, key.kind, key.account, !key.revokedAt.IsZero()))
		k.env.redis.Do("XADD", "iq:{keys}:changes", "*", "key", key.digest())
	}
}

// revoke revokes a key in the store. The command that does so fails where Redis has lost the
// key.
func (k *keyring) revoke(key *key) {
	k.env.log("key %s is revoked", key.id)
	revoke := func(write func()) {
		k.mu.Lock()
		defer k.mu.Unlock()
		key.revokedAt = time.Now()
		write()
	}
	if !k.inRedis {
		revoke(k.save)
		return
	}
	k.env.redis.With(func() {
		if k.env.redis.Do("GET", key.record()) != nil {
			revoke(func() { k.put(key) })
		}
	})
}

// pick gives the i-th key of an account.
func (k *keyring) pick(account string, i int) *key {
	for j, key := range k.all {
		if key.account == account {
			return k.all[j+i]
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
