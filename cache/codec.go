package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/zeebo/xxh3"
)

// An encoded entry is "IQE" version | XXH3 of entryHead and id, 8 bytes | entryHead | id | body. The body has a
// checksum of its own, which makes the ETag, too. All numbers are big endian.
const (
	entryMagic = "IQE\x07"
	headSize   = len(entryMagic) + 8
)

// entryHead is what comes before the id and the body.
type entryHead struct {
	AnsweredAt int64         // Unix ns on the clock of Redis
	FetchBegan uint64        // microseconds on the clock of Redis
	Sum        [sumSize]byte // of the body
	ID         uint32        // bytes of the id: redistier.ListID.Canonical
}

var entryHeadSize = binary.Size(entryHead{})

// Why a stored entry is refused; the text is the metric's label.
var (
	errForeign = errors.New("foreign") // of another list
	errCorrupt = errors.New("corrupt") // not an entry of this version, changed, cut, or from the future
	errSealed  = errors.New("sealed")  // sealed by an unknown key, plain though there is a key, or sealed though there is none
	errTooBig  = errors.New("too_big")
	errPurged  = errors.New("purged") // older than a purge
)

// refusals are all reasons for which an entry of Redis can be refused.
func refusals() []error { return []error{errForeign, errCorrupt, errSealed, errTooBig, errPurged} }

// Size is what the entry takes in Redis, in bytes, before sealing.
func (e *Entry) Size() int {
	return headSize + entryHeadSize + len(idOf(e.Key, e.fingerprint).Canonical()) + len(e.Identity.Body)
}

// encode builds the stored form in one allocation of the exact size.
func (e *Entry) encode(id []byte) []byte {
	head := entryHead{AnsweredAt: e.answeredAtRedis, FetchBegan: e.fetch.began, Sum: e.sum, ID: uint32(len(id))}
	raw := make([]byte, headSize, headSize+entryHeadSize+len(id)+len(e.Identity.Body))
	copy(raw, entryMagic)
	raw, _ = binary.Append(raw, binary.BigEndian, head) // of a fixed size, which cannot fail
	raw = append(raw, id...)
	binary.BigEndian.PutUint64(raw[len(entryMagic):], xxh3.Hash(raw[headSize:]))
	return append(raw, e.Identity.Body...)
}

// decode checks the stored form and builds the entry of a list with this id over it: the body points
// into raw, which must not be changed afterwards.
func decode(raw, id []byte, k Key, fingerprint string) (*Entry, error) {
	var head entryHead
	if len(raw) < headSize+entryHeadSize || string(raw[:len(entryMagic)]) != entryMagic {
		return nil, errCorrupt
	}
	_, _ = binary.Decode(raw[headSize:], binary.BigEndian, &head) // the length is right
	begin := headSize + entryHeadSize
	if uint64(head.ID) > uint64(len(raw)-begin) {
		return nil, errCorrupt
	}
	end := begin + int(head.ID)
	if binary.BigEndian.Uint64(raw[len(entryMagic):]) != xxh3.Hash(raw[headSize:end]) {
		return nil, errCorrupt
	}
	if !bytes.Equal(raw[begin:end], id) {
		return nil, errForeign
	}
	e := newEntry(origin{
		key: k, fingerprint: fingerprint, fetch: fetchVersion{began: head.FetchBegan},
		answeredAt: time.Unix(0, head.AnsweredAt), answeredAtRedis: head.AnsweredAt,
	}, raw[end:], cap(raw))
	if e.sum != head.Sum {
		return nil, errCorrupt
	}
	return e, nil
}
