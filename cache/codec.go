package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// An encoded entry is
//
//	"IQE" version | kind, account, status, inquiry type, fingerprint |
//	answered at (8, Unix ns) | kind epoch (8) | account epoch (8) | sum (16) |
//	lengths of identity, gzip, zstd | the three bodies | CRC-32C of all before (4)
//
// Strings are a uvarint length and bytes, lengths are uvarints, the rest is big
// endian.
const (
	entryMagic  = "IQE\x01"
	maxKeyPart  = 1 << 12
	crcSize     = 4
	fixedFields = 8 + 8 + 8 + sumSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What makes an encoded entry refused; the text is the metric's label.
var (
	errForeign   = errors.New("foreign")   // of another key
	errFuture    = errors.New("future")    // answered later than now
	errFormat    = errors.New("format")    // not an entry of this version
	errTruncated = errors.New("truncated") // ends early, or goes on
	errChecksum  = errors.New("checksum")
	errTooBig    = errors.New("too_big")
	errPurged    = errors.New("purged") // older than a purge
)

// bodies are an answer's codings; the last two may be nil.
type bodies struct{ identity, gzip, zstd []byte }

func (b bodies) size() int { return len(b.identity) + len(b.gzip) + len(b.zstd) }

// origin is what an entry carries beside its bodies.
type origin struct {
	key         Key
	fingerprint string
	answeredAt  time.Time
	tag         tag
}

// encode builds the stored form in one allocation of the exact size.
func encode(o origin, b bodies) []byte {
	parts := [...]string{o.key.Kind, o.key.Account, o.key.Status, o.key.InquiryType, o.fingerprint}
	size := len(entryMagic) + fixedFields + crcSize + b.size() + (len(parts)+3)*binary.MaxVarintLen64
	for _, s := range parts {
		size += len(s)
	}
	head := make([]byte, 0, size-b.size())
	head = append(head, entryMagic...)
	for _, s := range parts {
		head = append(binary.AppendUvarint(head, uint64(len(s))), s...)
	}
	head = binary.BigEndian.AppendUint64(head, uint64(o.answeredAt.UnixNano()))
	head = binary.BigEndian.AppendUint64(head, o.tag.kind)
	head = binary.BigEndian.AppendUint64(head, o.tag.account)
	sum := bodySum(b.identity)
	head = append(head, sum[:]...)
	for _, body := range [...][]byte{b.identity, b.gzip, b.zstd} {
		head = binary.AppendUvarint(head, uint64(len(body)))
	}
	raw := make([]byte, 0, len(head)+b.size()+crcSize)
	raw = append(raw, head...)
	raw = append(raw, b.identity...)
	raw = append(raw, b.gzip...)
	raw = append(raw, b.zstd...)
	return binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli))
}

// decode checks the stored form and builds the entry over it: the bodies point
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
	e := &Entry{raw: raw}
	for _, s := range [...]*string{&e.Kind, &e.Account, &e.Status, &e.InquiryType, &e.fingerprint} {
		*s = string(r.prefixed())
	}
	answered := int64(r.uint64())
	e.AnsweredAt = time.Unix(0, answered)
	e.tag = tag{r.uint64(), r.uint64()}
	e.ETag = etagOf(r.take(sumSize))
	lengths := [3]int{r.length(), r.length(), r.length()}
	e.Identity = newVariant(r.take(lengths[0]))
	e.Gzip = newVariant(r.take(lengths[1]))
	e.Zstd = newVariant(r.take(lengths[2]))
	if r.bad || len(r.rest) != 0 {
		return nil, errTruncated
	}
	e.spread = spreadOf(e.key(), answered)
	return e, nil
}

// reader takes fields off the front of an encoded entry. After the first field
// that is not there all others are empty and bad is set.
type reader struct {
	rest []byte
	bad  bool
}

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

func (r *reader) length() int {
	n, used := binary.Uvarint(r.rest)
	if r.bad || used <= 0 || n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	r.rest = r.rest[used:]
	return int(n)
}

func (r *reader) prefixed() []byte {
	n := r.length()
	if n > maxKeyPart {
		r.bad = true
	}
	return r.take(n)
}
