package redistier

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A sealed entry is "IQS" version | key id (8) | nonce (12) | AES-256-GCM of the
// encoded entry, with the key's parts as associated data: moved to another key
// it does not open.
const (
	sealMagic    = "IQS\x01"
	keyIDSize    = 8
	nonceSize    = 12
	gcmTag       = 16
	SealOverhead = len(sealMagic) + keyIDSize + nonceSize + gcmTag
	sealKeySize  = 32
)

// Why a sealed entry is refused; the text is the metric's label.
var (
	ErrUnsealed   = errors.New("unsealed")    // plain, though there is a ring
	ErrSealed     = errors.New("sealed")      // sealed, and there is no ring
	ErrUnknownKey = errors.New("unknown_key") // sealed by a key outside of the ring
	ErrSealBroken = errors.New("seal_broken") // changed, cut, or moved from another key
	ErrTruncated  = errors.New("truncated")   // ends early
)

// keyID names a key in what it has sealed, and says nothing about it.
type keyID [keyIDSize]byte

// Ring is a set of sealing keys: the first seals, all open. It is immutable.
type Ring struct {
	first keyID
	keys  map[keyID]cipher.AEAD
}

// ParseRing reads a text with one key of 32 bytes per line, in base64 or hex. Blank
// lines and lines that start with # are left out. No error shows a key.
func ParseRing(text string) (*Ring, error) {
	r := &Ring{keys: make(map[keyID]cipher.AEAD)}
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
func (r *Ring) add(line string) error {
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

// Seal returns the sealed form of an encoded entry, bound to everything that names
// the list. Without a ring it is the entry as it is.
func (r *Ring) Seal(raw []byte, l List) []byte {
	if r == nil {
		return raw
	}
	out := make([]byte, 0, len(raw)+SealOverhead)
	out = append(out, sealMagic...)
	out = append(out, r.first[:]...)
	out = out[:len(out)+nonceSize]
	nonce := out[len(out)-nonceSize:]
	_, _ = rand.Read(nonce) // never fails
	return r.keys[r.first].Seal(out, nonce, raw, l.associated())
}

// Open undoes Seal. With a ring the result shares no memory with sealed. The error
// is one of this package's reasons.
func (r *Ring) Open(sealed []byte, l List) ([]byte, error) {
	isSealed := bytes.HasPrefix(sealed, []byte(sealMagic))
	switch {
	case r == nil && isSealed:
		return nil, ErrSealed
	case r == nil:
		return sealed, nil
	case !isSealed:
		return nil, ErrUnsealed
	case len(sealed) < SealOverhead:
		return nil, ErrTruncated
	}
	rest := sealed[len(sealMagic):]
	aead, ok := r.keys[keyID(rest[:keyIDSize])]
	if !ok {
		return nil, ErrUnknownKey
	}
	rest = rest[keyIDSize:]
	raw, err := aead.Open(nil, rest[:nonceSize], rest[nonceSize:], l.associated())
	if err != nil {
		return nil, ErrSealBroken
	}
	return raw, nil
}

func (l List) associated() []byte {
	parts := l.Parts()
	return appendParts(nil, parts[:])
}
