package cache

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

// Entry is one finished list, shared by all readers: nothing reachable from it
// may be changed. Its encodings are made by [Cache.Encoded] when first asked for.
//
// What a hit reads lies together, since an entry that is looked up at random
// comes from memory line by line.
type Entry struct {
	Key // of the list

	fingerprint  string        // of the mapping that made the body
	AnsweredAt   time.Time     // when the legacy system's answer was complete
	jitterShare  float64       // of the jitter that shortens the ttl, in [0,1)
	fetch        fetchVersion  // which brought it
	unpurgedAsOf atomic.Uint64 // the version of this node's invalidations by which no purge applies to it

	ETag     []string // weak validator over the identity body as a header value, RFC 9110 8.8.3
	Identity Representation
	values   [2]string // what ETag and Identity.Length are slices of

	hash            uint64        // of Key
	sum             [sumSize]byte // of the identity body
	answeredAtRedis int64         // AnsweredAt on the clock of Redis, Unix ns; the same on all nodes
	held            int           // bytes of memory that the identity body lies in
	encoded         [codingCount]encoded

	source *Entry                   // that this list is selected from; nil: the legacy system was asked for it
	views  atomic.Pointer[[]*Entry] // lists that are selected from this one
}

// origin is what an entry carries beside its body.
type origin struct {
	key             Key
	fingerprint     string
	answeredAt      time.Time
	answeredAtRedis int64 // on the clock of Redis; 0: on this node's
	fetch           fetchVersion
}

// entryOverhead is what one entry costs beside its bodies: the struct, its
// strings and header values, and otter's node. Checked by a test that reads the
// heap.
const entryOverhead = 900

// newEntry builds an entry over a body, which must not be changed afterwards and
// lies in held bytes of memory. It copies the key.
func newEntry(o origin, body []byte, held int) *Entry {
	if o.answeredAtRedis == 0 {
		o.answeredAtRedis = o.answeredAt.UnixNano()
	}
	kind, _ := indexOf(o.key.Kind)
	e := &Entry{
		Key: o.key.clone(), hash: o.key.Hash(), fingerprint: o.fingerprint, fetch: o.fetch,
		AnsweredAt: o.answeredAt, answeredAtRedis: o.answeredAtRedis, sum: bodySum(kind, body), held: held,
	}
	e.jitterShare = jitterShareOf(e.hash, o.answeredAtRedis)
	e.values = [2]string{etagOf(e.sum), strconv.Itoa(len(body))}
	e.ETag = e.values[:1:1]
	e.Identity = Representation{Body: body[:len(body):len(body)], Length: e.values[1:2:2]}
	return e
}

// clone detaches a key from the buffers of the request it came with.
func (k Key) clone() Key {
	if i, ok := indexOf(k.Kind); ok {
		k.Kind = kindNames[i]
	}
	return Key{k.Kind, strings.Clone(k.Account), strings.Clone(k.Status), strings.Clone(k.InquiryType)}
}

// weight is what the entry takes in memory with its views, in bytes.
func (e *Entry) weight() uint32 {
	size := pages(e.held) + entryOverhead
	for i := range e.encoded {
		size += pages(e.encoded[i].size())
	}
	if views := e.views.Load(); views != nil {
		for _, view := range *views {
			size += int(view.weight())
		}
	}
	return uint32(min(size, math.MaxUint32))
}

// pages is what the allocator takes for so many bytes.
func pages(size int) int {
	if size > 32<<10 {
		size = (size + 8191) &^ 8191
	}
	return size
}

// belongsTo tells whether the entry is an answer to exactly this key under this
// mapping. Every read from the in-process tier asks it.
func (e *Entry) belongsTo(k Key, fingerprint string) bool {
	return e.Account == k.Account && e.Kind == k.Kind && e.Status == k.Status &&
		e.InquiryType == k.InquiryType && e.fingerprint == fingerprint
}

const sumSize = 16

// bodySum is the hash that makes the ETag: the same for equal bodies of a kind on
// every node. A weak validator over bytes that we made needs no more than a good
// hash of 128 bits. It is only compared with what the same caller was sent before,
// so that somebody who found two lists with one hash could have a caller keep the older one, no more.
func bodySum(i kindIndex, body []byte) [sumSize]byte {
	return xxh3.Hash128Seed(body, uint64(i)+1).Bytes()
}

// etagOf is the weak entity tag of a body (RFC 9110, section 8.8.3).
func etagOf(sum [sumSize]byte) string {
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
}

// jitterShareOf turns the hash of a key and the moment of the answer into a number in [0,1) that is the same on
// every node.
func jitterShareOf(key uint64, answered int64) float64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], key)
	binary.LittleEndian.PutUint64(b[8:], uint64(answered))
	return float64(xxh3.Hash(b[:])>>11) / (1 << 53)
}
