package cache

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Entry is one finished list. It is immutable once built and shared by all
// readers: nothing reachable from it may be changed.
type Entry struct {
	Kind, Account, Status, InquiryType string

	AnsweredAt time.Time // when the legacy's answer was complete
	Identity   Variant
	Gzip, Zstd Variant  // nil Body: not smaller, or under cache.compress_min_bytes
	ETag       []string // weak validator over the identity body as a header value, RFC 9110 8.8.3

	fingerprint string  // of the mapping that made the body
	tag         tag     // epochs when the fill began
	cell        *cell   // the account's epoch in this process
	doubt       uint64  // of this process when the fill began; 0 if read from Redis
	spread      float64 // share of the jitter that shortens the ttl, in [0,1)
	raw         []byte  // the encoded form that all bodies point into
}

// tag is the pair of epochs that an entry belongs to. A purge changes one of
// them, and with it makes every older entry foreign.
type tag struct{ kind, account uint64 }

// entryOverhead is what one entry costs beside its encoded form: the struct,
// its strings and header values, and otter's node. Checked by a test that reads
// the heap.
const entryOverhead = 900

// weight is what the entry takes in memory, in bytes.
func (e *Entry) weight() uint32 {
	size := cap(e.raw)
	if size > 32<<10 {
		size = (size + 8191) &^ 8191 // the allocator's pages
	}
	return uint32(size + entryOverhead)
}

func (e *Entry) key() Key { return Key{e.Kind, e.Account, e.Status, e.InquiryType} }

// belongsTo tells whether the entry is an answer to exactly this key under this
// mapping. Every read from either tier asks it.
func (e *Entry) belongsTo(k Key, fingerprint string) bool {
	return e.Account == k.Account && e.Kind == k.Kind && e.Status == k.Status &&
		e.InquiryType == k.InquiryType && e.fingerprint == fingerprint
}

// newerThan compares moments of the legacy's answer; nil is oldest.
func (e *Entry) newerThan(o *Entry) bool {
	return e != nil && (o == nil || e.AnsweredAt.After(o.AnsweredAt))
}

const sumSize = 16

// bodySum is the part of SHA-256 that goes into the ETag.
func bodySum(body []byte) [sumSize]byte {
	sum := sha256.Sum256(body)
	return [sumSize]byte(sum[:sumSize])
}

func etagOf(sum []byte) []string {
	b := make([]byte, 0, 32)
	b = append(b, `W/"`...)
	b = base64.RawURLEncoding.AppendEncode(b, sum)
	return []string{string(append(b, '"'))}
}

func newVariant(body []byte) Variant {
	if len(body) == 0 {
		return Variant{}
	}
	return Variant{Body: body[:len(body):len(body)], Length: []string{strconv.Itoa(len(body))}}
}

// spreadOf turns key and fill into a number in [0,1) that is the same on every
// node.
func spreadOf(k Key, answered int64) float64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, s := range [...]string{k.Kind, k.Account, k.Status, k.InquiryType} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	h ^= uint64(answered)
	// The finalizer of MurmurHash3: FNV alone leaves the high bits poor.
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) / (1 << 53)
}
