package cache

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"inquiry-gateway/cache/redistier"
)

// An encoded entry is "IQE" version | CRC-32C of all after | entryHead | the strings and the body
// one after the other. All numbers are big endian.
const (
	entryMagic = "IQE\x04"
	headSize   = len(entryMagic) + 4
)

// entryHead is what comes before the strings and the body.
type entryHead struct {
	AnsweredAt   int64 // Unix ns on the clock of Redis
	KindEpoch    uint64
	AccountEpoch uint64
	Sum          [sumSize]byte // of the body
	Lengths      [6]uint32     // of kind, account, status, inquiry type, fingerprint and body
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

// origin is what an entry carries beside its body.
type origin struct {
	key         Key
	fingerprint string
	answeredAt  time.Time
	stamp       int64 // answeredAt on the clock of Redis; 0: on this node's
	tag         tag
	sum         [sumSize]byte // of the body
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
	h := entryHead{AnsweredAt: e.stamp, KindEpoch: e.tag.kind, AccountEpoch: e.tag.account, Sum: e.sum}
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
		tag:         tag{h.KindEpoch, h.AccountEpoch},
		sum:         h.Sum,
	}, parts[5], cap(raw)), nil
}

// A sealed entry is "IQS" version | key id (8) | nonce (12) | AES-256-GCM of the
// encoded entry, with the key's parts as associated data: moved to another key
// it does not open.
const (
	sealMagic    = "IQS\x01"
	keyIDSize    = 8
	nonceSize    = 12
	gcmTag       = 16
	sealOverhead = len(sealMagic) + keyIDSize + nonceSize + gcmTag
	sealKeySize  = 32
)

// Why a sealed entry is refused; the text is the metric's label.
var (
	errUnsealed   = errors.New("unsealed")    // plain, though there is a ring
	errSealed     = errors.New("sealed")      // sealed, and there is no ring
	errUnknownKey = errors.New("unknown_key") // sealed by a key outside of the ring
	errSealBroken = errors.New("seal_broken") // changed, cut, or moved from another key
)

// keyID names a key in what it has sealed, and says nothing about it.
type keyID [keyIDSize]byte

// ring is a set of sealing keys: the first seals, all open. It is immutable.
type ring struct {
	first keyID
	keys  map[keyID]cipher.AEAD
}

// parseRing reads a text with one key of 32 bytes per line, in base64 or hex. Blank
// lines and lines that start with # are left out. No error shows a key.
func parseRing(text string) (*ring, error) {
	r := &ring{keys: make(map[keyID]cipher.AEAD)}
	for n, scan := 1, bufio.NewScanner(strings.NewReader(text)); scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := r.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if len(r.keys) == 0 {
		return nil, errors.New("holds no key; make one with: openssl rand -base64 32")
	}
	return r, nil
}

// add takes one key into the ring. Its id is a part of a hash of it, so that the keys of a
// ring may stand in any order but for the first.
func (r *ring) add(line string) error {
	key, err := base64.StdEncoding.DecodeString(line)
	if len(line) == hex.EncodedLen(sealKeySize) {
		key, err = hex.DecodeString(line)
	}
	if err != nil || len(key) != sealKeySize {
		return errors.New("is not 32 bytes in base64 or hex")
	}
	sum := sha256.Sum256(append([]byte("inquiry-gateway sealing key id\x00"), key...))
	id := keyID(sum[:keyIDSize])
	if _, twice := r.keys[id]; twice {
		return errors.New("holds a key that an earlier line has already")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if r.keys[id], err = cipher.NewGCM(block); err != nil {
		return err
	}
	if len(r.keys) == 1 {
		r.first = id
	}
	return nil
}

// seal returns the sealed form of an encoded entry, bound to everything that names
// the list. Without a ring it is the entry as it is.
func (r *ring) seal(raw []byte, l redistier.List) []byte {
	if r == nil {
		return raw
	}
	out := make([]byte, 0, len(raw)+sealOverhead)
	out = append(out, sealMagic...)
	out = append(out, r.first[:]...)
	out = out[:len(out)+nonceSize]
	nonce := out[len(out)-nonceSize:]
	_, _ = rand.Read(nonce) // never fails
	return r.keys[r.first].Seal(out, nonce, raw, associated(l))
}

// open undoes seal. With a ring the result shares no memory with sealed. The error
// is one of this package's reasons.
func (r *ring) open(sealed []byte, l redistier.List) ([]byte, error) {
	isSealed := bytes.HasPrefix(sealed, []byte(sealMagic))
	switch {
	case r == nil && isSealed:
		return nil, errSealed
	case r == nil:
		return sealed, nil
	case !isSealed:
		return nil, errUnsealed
	case len(sealed) < sealOverhead:
		return nil, errTruncated
	}
	rest := sealed[len(sealMagic):]
	aead, ok := r.keys[keyID(rest[:keyIDSize])]
	if !ok {
		return nil, errUnknownKey
	}
	rest = rest[keyIDSize:]
	raw, err := aead.Open(nil, rest[:nonceSize], rest[nonceSize:], associated(l))
	if err != nil {
		return nil, errSealBroken
	}
	return raw, nil
}

// associated is all that names a list.
func associated(l redistier.List) (b []byte) {
	for _, s := range [...]string{l.Kind, l.Account, l.Status, l.InquiryType, l.Fingerprint} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}
