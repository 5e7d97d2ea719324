package cache

import (
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
// encoded entry, with redistier.ListID.Canonical as associated data: moved to another key
// it does not open.
const (
	sealMagic    = "IQS\x01"
	keyIDSize    = 8
	nonceSize    = 12
	gcmTag       = 16
	sealOverhead = len(sealMagic) + keyIDSize + nonceSize + gcmTag
	sealKeySize  = 32
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
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := r.add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
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

// seal returns the sealed form of an encoded entry, bound to what names the list. Without a ring it is the
// entry as it is.
func (r *ring) seal(raw, id []byte) []byte {
	if r == nil {
		return raw
	}
	out := make([]byte, 0, len(raw)+sealOverhead)
	out = append(out, sealMagic...)
	out = append(out, r.first[:]...)
	out = out[:len(out)+nonceSize]
	nonce := out[len(out)-nonceSize:]
	_, _ = rand.Read(nonce) // never fails
	return r.keys[r.first].Seal(out, nonce, raw, id)
}

// open undoes seal. With a ring the result shares no memory with sealed. The error
// is one of refusals.
func (r *ring) open(sealed, id []byte) ([]byte, error) {
	isSealed := bytes.HasPrefix(sealed, []byte(sealMagic))
	switch {
	case (r != nil) != isSealed:
		return nil, errSealed
	case r == nil:
		return sealed, nil
	case len(sealed) < sealOverhead:
		return nil, errCorrupt
	}
	rest := sealed[len(sealMagic):]
	aead, ok := r.keys[keyID(rest[:keyIDSize])]
	if !ok {
		return nil, errSealed
	}
	rest = rest[keyIDSize:]
	raw, err := aead.Open(nil, rest[:nonceSize], rest[nonceSize:], id)
	if err != nil {
		return nil, errCorrupt
	}
	return raw, nil
}
