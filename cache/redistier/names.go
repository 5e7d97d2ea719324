package redistier

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

const (
	defaultPrefix = "iq"
	keyVersion    = "2" // of the Redis keys; a new layout never meets an old one
)

// List is everything that names a list in Redis.
type List struct {
	Kind, Account, Status, InquiryType string
	Fingerprint                        string // of the mapping that made it
}

// Parts are the fields in the order in which they are written.
func (l List) Parts() [5]string {
	return [...]string{l.Kind, l.Account, l.Status, l.InquiryType, l.Fingerprint}
}

// Names are the Redis keys of one list. They share a slot in a cluster: the
// account's hash is in braces. The account itself never appears.
type Names struct {
	Account string // hashed
	Entry   string
	Epoch   string // the account's
	Lease   string
	token   string // of this flight, if it takes the lease
}

// Names makes the keys of a list, and a new token for its lease.
func (t *Tier) Names(l List) Names {
	account := Hash(l.Account)
	prefix := t.accountKey(account)
	entry := prefix + l.Kind + ":" + l.Fingerprint + ":" + Hash(l.Account, l.Status, l.InquiryType)
	return Names{Account: account, Entry: entry, Lease: entry + ":lease", token: rand.Text(), Epoch: prefix + "epoch"}
}

// EpochKey is where Redis has the epoch of a kind or, without one, of a hashed
// account.
func (t *Tier) EpochKey(kind, account string) string {
	if kind != "" {
		return t.prefix + "epoch:" + kind
	}
	return t.accountKey(account) + "epoch"
}

// softKey is where Redis has what softenScript writes beside an epoch, in its slot of a
// Cluster.
func (t *Tier) softKey(epochKey string) string {
	if strings.Contains(epochKey, "{") {
		return epochKey + ":soft"
	}
	return t.prefix + "{" + epochKey + "}:soft"
}

func (t *Tier) accountKey(account string) string { return t.prefix + "{" + account + "}:" }

// purgeKey counts all purges of the fleet.
func (t *Tier) purgeKey() string     { return t.prefix + "purges" }
func (t *Tier) purgeChannel() string { return t.prefix + "purge" }
func (t *Tier) fillChannel() string  { return t.prefix + "fill" }

// Hash hashes its parts so that no two lists of parts run together.
func Hash(parts ...string) string {
	sum := sha256.Sum256(appendParts(nil, parts))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// appendParts appends each part after its length.
func appendParts(b []byte, parts []string) []byte {
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}
