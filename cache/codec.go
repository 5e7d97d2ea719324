package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// An encoded entry is "IQE" version | CRC-32C of all after | entryHead | the strings and the body
// one after the other. All numbers are big endian.
const (
	entryMagic = "IQE\x06"
	headSize   = len(entryMagic) + 4
)

// entryHead is what comes before the strings and the body.
type entryHead struct {
	AnsweredAt int64         // Unix ns on the clock of Redis
	FetchBegan uint64        // microseconds on the clock of Redis
	Sum        [sumSize]byte // of the body
	Lengths    [6]uint32     // of kind, account, status, inquiry type, fingerprint and body
}

var entryHeadSize = binary.Size(entryHead{})

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// What makes an encoded entry refused; the text is the metric's label.
var (
	errForeign   = errors.New("foreign")   // of another key
	errFuture    = errors.New("future")    // answered later than now
	errFormat    = errors.New("format")    // not an entry of this version
	errTruncated = errors.New("truncated") // ends early, or goes on
	errChecksum  = errors.New("checksum")
	errTooBig    = errors.New("too_big")
	errPurged    = errors.New("purged")  // older than a purge
	errMapping   = errors.New("mapping") // made before a reload by another one; in Redis it has another key
)

// refusals are all reasons for which an entry of Redis can be refused.
func refusals() []error {
	return []error{
		errForeign, errFuture, errFormat, errTruncated, errChecksum, errTooBig, errPurged,
		errUnsealed, errSealed, errUnknownKey, errSealBroken,
	}
}

// parts are what comes after the head, but for the body.
func (e *Entry) parts() [5]string {
	return [...]string{e.Kind, e.Account, e.Status, e.InquiryType, e.fingerprint}
}

// Size is what the entry takes in Redis, in bytes, before sealing.
func (e *Entry) Size() int {
	size := headSize + entryHeadSize + len(e.Identity.Body)
	for _, s := range e.parts() {
		size += len(s)
	}
	return size
}

// encode builds the stored form in one allocation of the exact size.
func (e *Entry) encode() []byte {
	h := entryHead{AnsweredAt: e.stamp, FetchBegan: e.fetch.began, Sum: e.sum}
	for i, s := range e.parts() {
		h.Lengths[i] = uint32(len(s))
	}
	h.Lengths[5] = uint32(len(e.Identity.Body))
	raw := make([]byte, headSize, e.Size())
	copy(raw, entryMagic)
	raw, _ = binary.Append(raw, binary.BigEndian, h) // of a fixed size, which cannot fail
	for _, s := range e.parts() {
		raw = append(raw, s...)
	}
	raw = append(raw, e.Identity.Body...)
	binary.BigEndian.PutUint32(raw[len(entryMagic):], crc32.Checksum(raw[headSize:], castagnoli))
	return raw
}

// decode checks the stored form and builds the entry over it: the body points
// into raw, which must not be changed afterwards.
func decode(raw []byte) (*Entry, error) {
	switch {
	case len(raw) < len(entryMagic) || string(raw[:len(entryMagic)]) != entryMagic:
		return nil, errFormat
	case len(raw) < headSize:
		return nil, errTruncated
	case binary.BigEndian.Uint32(raw[len(entryMagic):]) != crc32.Checksum(raw[headSize:], castagnoli):
		return nil, errChecksum
	}
	var h entryHead
	n, err := binary.Decode(raw[headSize:], binary.BigEndian, &h)
	if err != nil {
		return nil, errTruncated
	}
	rest := raw[headSize+n:]
	var parts [len(h.Lengths)][]byte
	for i, length := range h.Lengths {
		if uint64(length) > uint64(len(rest)) {
			return nil, errTruncated
		}
		parts[i], rest = rest[:length], rest[length:]
	}
	if len(rest) != 0 {
		return nil, errTruncated
	}
	return newEntry(origin{
		key:         Key{string(parts[0]), string(parts[1]), string(parts[2]), string(parts[3])},
		fingerprint: string(parts[4]),
		answeredAt:  time.Unix(0, h.AnsweredAt),
		stamp:       h.AnsweredAt,
		fetch:       fetchVersion{began: h.FetchBegan},
		sum:         h.Sum,
	}, parts[5], cap(raw)), nil
}
