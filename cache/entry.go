package cache

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// Entry is one finished list, shared by all readers: nothing reachable from it
// may be changed. Its codings are made by [Lists.Coded] when first asked for.
//
// What a hit reads lies together, since an entry that is looked up at random
// comes from memory line by line.
type Entry struct {
	Key // of the list

	fingerprint string        // of the mapping that made the body
	AnsweredAt  time.Time     // when the legacy's answer was complete
	spread      float64       // share of the jitter that shortens the ttl, in [0,1)
	fetch       fetchVersion  // which brought it
	clean       atomic.Uint64 // the version of this node's invalidations by which no purge applies to it
	sourceKey   uint64        // a hash, as that of sourceBody: see Source
	sourceBody  uint64

	ETag     []string // weak validator over the identity body as a header value, RFC 9110 8.8.3
	Identity Variant
	values   [2]string // what ETag and Identity.Length are slices of

	stamp int64         // AnsweredAt on the clock of Redis, Unix ns; the same on all nodes
	sum   [sumSize]byte // of the identity body
	held  int           // bytes of memory that the identity body lies in
	coded [codingCount]coded
}

// origin is what an entry carries beside its body.
type origin struct {
	key         Key
	fingerprint string
	answeredAt  time.Time
	stamp       int64 // answeredAt on the clock of Redis; 0: on this node's
	fetch       fetchVersion
	sum         [sumSize]byte // of the body
}

// entryOverhead is what one entry costs beside its bodies: the struct, its
// strings and header values, and otter's node. Checked by a test that reads the
// heap.
const entryOverhead = 900

// newEntry builds an entry over a body, which must not be changed afterwards and
// lies in held bytes of memory. It copies the key.
func newEntry(o origin, body []byte, held int) *Entry {
	if o.stamp == 0 {
		o.stamp = o.answeredAt.UnixNano()
	}
	e := &Entry{
		Key: Key{Kind: o.key.Kind}, AnsweredAt: o.answeredAt, fingerprint: o.fingerprint, fetch: o.fetch,
		spread: spreadOf(o.key, o.stamp), stamp: o.stamp, sum: o.sum, held: held, sourceKey: o.key.Hash(), sourceBody: short(o.sum),
	}
	if i, ok := indexOf(o.key.Kind); ok {
		e.Kind = kindNames[i] // one for all entries
	}
	text := newText(len(o.key.Account) + len(o.key.Status) + len(o.key.InquiryType) + etagSize + 20)
	e.Account, e.Status, e.InquiryType = text.add(o.key.Account), text.add(o.key.Status), text.add(o.key.InquiryType)
	e.values = [2]string{text.add(etagOf(o.sum)), text.add(strconv.Itoa(len(body)))}
	e.ETag = e.values[:1:1]
	e.Identity = Variant{Body: body[:len(body):len(body)], Length: e.values[1:2:2]}
	return e
}

// text puts strings into one piece of memory.
type text struct{ b strings.Builder }

func newText(size int) *text {
	t := new(text)
	t.b.Grow(size)
	return t
}

func (t *text) add(s string) string {
	start := t.b.Len()
	t.b.WriteString(s)
	return t.b.String()[start:]
}

// weight is what the entry takes in memory, in bytes.
func (e *Entry) weight() uint32 {
	size := pages(e.held) + entryOverhead
	for i := range e.coded {
		size += pages(e.coded[i].size())
	}
	return uint32(size)
}

// pages is what the allocator takes for so many bytes.
func pages(size int) int {
	if size > 32<<10 {
		size = (size + 8191) &^ 8191
	}
	return size
}

// belongsTo tells whether the entry is an answer to exactly this key under this
// mapping. Every read from either tier asks it.
func (e *Entry) belongsTo(k Key, fingerprint string) bool {
	return e.Account == k.Account && e.Kind == k.Kind && e.Status == k.Status &&
		e.InquiryType == k.InquiryType && e.fingerprint == fingerprint
}

const sumSize = 16

// bodySum is the hash that makes the ETag: the same for equal bodies of a kind on
// every node. A weak validator over bytes that we made needs no more than a good
// hash of 128 bits. It is only compared with what the same caller was sent before,
// and who could find two lists with one hash would have a caller keep the older one.
func bodySum(i kindIndex, body []byte) [sumSize]byte {
	return xxh3.Hash128Seed(body, uint64(i)+1).Bytes()
}

// etagSize is how long every entity tag is, in bytes.
const etagSize = len(`W/""`) + (sumSize*8+5)/6

// etagOf is the weak entity tag of a body (RFC 9110, section 8.8.3).
func etagOf(sum [sumSize]byte) string {
	b := make([]byte, 0, etagSize)
	b = append(b, `W/"`...)
	b = base64.RawURLEncoding.AppendEncode(b, sum[:])
	return string(append(b, '"'))
}

// spreadOf turns key and fill into a number in [0,1) that is the same on every node.
func spreadOf(k Key, answered int64) float64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], k.Hash())
	binary.LittleEndian.PutUint64(b[8:], uint64(answered))
	return float64(xxh3.Hash(b[:])>>11) / (1 << 53)
}
