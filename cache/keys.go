package cache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

const (
	defaultPrefix = "iq"
	keyVersion    = "2" // of the Redis keys; a new layout never meets an old one
)

// names are the Redis keys of one list. They share a slot in a cluster: the
// account's hash is in braces. The account itself never appears.
type names struct {
	account string // hashed
	entry   string
	epoch   string // the account's
	lease   string
	token   string // of this flight, if it takes the lease
}

func (s *store) names(k Key, fingerprint string) names {
	account := hashOf(k.Account)
	entry := s.accountKey(account) + k.Kind + ":" + fingerprint + ":" + hashOf(k.Account, k.Status, k.InquiryType)
	return names{
		account: account, entry: entry, lease: entry + ":lease", token: rand.Text(),
		epoch: s.accountKey(account) + "epoch",
	}
}

func (s *store) accountKey(account string) string { return s.prefix + "{" + account + "}:" }

// epochKey holds the number of purges of a kind or an account.
func (s *store) epochKey(x Scope) string {
	if x.Kind != "" {
		return s.prefix + "epoch:" + x.Kind
	}
	return s.accountKey(hashOf(x.Account)) + "epoch"
}

// purgeKey counts all purges of the fleet.
func (s *store) purgeKey() string     { return s.prefix + "purges" }
func (s *store) purgeChannel() string { return s.prefix + "purge" }
func (s *store) fillChannel() string  { return s.prefix + "fill" }

// hashOf hashes its parts so that no two lists of parts run together.
func hashOf(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
