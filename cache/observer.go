package cache

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"
)

// Observer is told of look-ups. Its methods are called by many goroutines at once and within a
// request: they must not wait, nor allocate for each look-up. It is not told of a look-up of a list that
// cannot exist.
type Observer interface {
	// Answered tells of a look-up that got a list: e, for this outcome. It began at a
	// moment. Calls come when look-ups end, which need not be the order of their begins.
	Answered(e *Entry, o Outcome, at time.Time)
	// Failed tells of a look-up that got no list. source is [Key.Hash] of the one that the
	// legacy is asked for.
	Failed(kind, status string, source uint64, at time.Time)
}

// Hash is the number by which an observer knows a list: the same on all nodes.
func (k Key) Hash() uint64 {
	var h uint64
	for _, s := range [...]string{k.Kind, k.Account, k.Status, k.InquiryType} {
		h = (h ^ xxh3.HashString(s)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// Source is a hash of the key of the entry's source, and one of its body: those of the entry
// itself unless it was selected from another list. Equal lists have equal ones on all nodes.
func (e *Entry) Source() (key, body uint64) {
	if e.source != nil {
		e = e.source
	}
	return e.hash, short(e.sum)
}

// Sum is a hash of the entry's own body.
func (e *Entry) Sum() uint64 { return short(e.sum) }

// BodySum is the hash that an entry of a kind with this body has.
func BodySum(kind string, body []byte) uint64 {
	i, _ := indexOf(kind)
	return short(bodySum(i, body))
}

func short(sum [sumSize]byte) uint64 { return binary.LittleEndian.Uint64(sum[:]) }
