package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"time"

	"inquiry-gateway/cache/redistier"
)

// An encoded entry is
//
//	"IQE" version | kind, account, status, inquiry type, fingerprint |
//	answered at (8, Unix ns on the clock of Redis) | kind epoch (8) | account epoch (8) | sum (16) |
//	body | CRC-32C of all before (4)
//
// Strings and the body are a uvarint length and bytes, the rest is big endian.
//
// Nodes of before wrote the time of their own clock. The version is the same all
// the same: during a rollout an age is wrong by a node's skew, as it was before,
// while another version would hide the purges of one half from the other.
const (
	entryMagic  = "IQE\x02"
	maxKeyPart  = 1 << 12
	crcSize     = 4
	fixedFields = 8 + 8 + 8 + sumSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What makes an encoded entry refused; the text is the metric's label.
var (
	errForeign   = errors.New("foreign")  // of another key
	errFuture    = errors.New("future")   // answered later than now
	errFormat    = errors.New("format")   // not an entry of this version
	errTruncated = redistier.ErrTruncated // ends early, or goes on
	errChecksum  = errors.New("checksum")
	errTooBig    = errors.New("too_big")
	errPurged    = errors.New("purged")  // older than a purge
	errMapping   = errors.New("mapping") // made before a reload by another one; in Redis it has another key
)

// refusals are all reasons for which an entry of Redis can be refused.
func refusals() []error {
	return []error{
		errForeign, errFuture, errFormat, errTruncated, errChecksum, errTooBig, errPurged,
		redistier.ErrUnsealed, redistier.ErrSealed, redistier.ErrUnknownKey, redistier.ErrSealBroken,
	}
}

// origin is what an entry carries beside its body.
type origin struct {
	key         Key
	fingerprint string
	answeredAt  time.Time
	stamp       int64 // answeredAt on the clock of Redis; 0: on this node's
	tag         tag
	sum         [sumSize]byte // of the body
}

// parts are what comes first in the encoded form.
func (e *Entry) parts() [5]string {
	return [...]string{e.Kind, e.Account, e.Status, e.InquiryType, e.fingerprint}
}

// Size is what the entry takes in Redis, in bytes, before sealing.
func (e *Entry) Size() int {
	size := len(entryMagic) + fixedFields + crcSize + prefixedSize(len(e.Identity.Body))
	for _, s := range e.parts() {
		size += prefixedSize(len(s))
	}
	return size
}

// prefixedSize is the size of n bytes with their length.
func prefixedSize(n int) int { return (max(bits.Len(uint(n)), 1)+6)/7 + n }

// encode builds the stored form in one allocation of the exact size.
func (e *Entry) encode() []byte {
	raw := make([]byte, 0, e.Size())
	raw = append(raw, entryMagic...)
	for _, s := range e.parts() {
		raw = append(binary.AppendUvarint(raw, uint64(len(s))), s...)
	}
	raw = binary.BigEndian.AppendUint64(raw, uint64(e.stamp))
	raw = binary.BigEndian.AppendUint64(raw, e.tag.kind)
	raw = binary.BigEndian.AppendUint64(raw, e.tag.account)
	raw = append(raw, e.sum[:]...)
	raw = append(binary.AppendUvarint(raw, uint64(len(e.Identity.Body))), e.Identity.Body...)
	return binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli))
}

// decode checks the stored form and builds the entry over it: the body points
// into raw, which must not be changed afterwards.
func decode(raw []byte) (*Entry, error) {
	if len(raw) < len(entryMagic) || string(raw[:len(entryMagic)]) != entryMagic {
		return nil, errFormat
	}
	end := len(raw) - crcSize
	if end < len(entryMagic) {
		return nil, errTruncated
	}
	if binary.BigEndian.Uint32(raw[end:]) != crc32.Checksum(raw[:end], castagnoli) {
		return nil, errChecksum
	}
	r := reader{rest: raw[len(entryMagic):end]}
	var o origin
	for _, s := range [...]*string{&o.key.Kind, &o.key.Account, &o.key.Status, &o.key.InquiryType, &o.fingerprint} {
		*s = string(r.prefixed(maxKeyPart))
	}
	o.stamp = int64(r.uint64())
	o.answeredAt = time.Unix(0, o.stamp)
	o.tag = tag{r.uint64(), r.uint64()}
	copy(o.sum[:], r.take(sumSize))
	body := r.prefixed(len(raw))
	if r.bad || len(r.rest) != 0 {
		return nil, errTruncated
	}
	return newEntry(o, body, cap(raw)), nil
}

// reader takes fields off the front of an encoded entry. After the first field
// that is not there all others are empty and bad is set.
type reader struct {
	rest []byte
	bad  bool
}

// take gives the next n bytes, which are raw's own.
func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint64() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// length gives the uvarint before a field. One that is longer than the rest is bad, so that
// nobody allocates by it.
func (r *reader) length() int {
	n, used := binary.Uvarint(r.rest)
	if r.bad || used <= 0 || n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	r.rest = r.rest[used:]
	return int(n)
}

// prefixed gives a field with its length, of most bytes at most.
func (r *reader) prefixed(most int) []byte {
	n := r.length()
	if n > most {
		r.bad = true
	}
	return r.take(n)
}
