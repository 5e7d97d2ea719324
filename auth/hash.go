package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"
	"sync"

	"inquiry-gateway/internal/setting"
)

// MinPepperLength is the shortest pepper that is accepted, in bytes.
const MinPepperLength = 16

// What a digest is called in key records.
const (
	FieldSHA256 = "sha256"
	FieldHMAC   = "hmac_sha256"
)

// Digest is what is stored of a key. It prints as a placeholder, so that one
// that strays into a log line says nothing; Hex is for files and stores.
type Digest [sha256.Size]byte

// String hides the digest.
func (Digest) String() string { return "[digest]" }

// GoString hides the digest from %#v.
func (Digest) GoString() string { return "[digest]" }

// MarshalText hides the digest from encoders.
func (Digest) MarshalText() ([]byte, error) { return []byte("[digest]"), nil }

// Hex is the digest in lower-case hexadecimal.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads 64 hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return Digest{}, fmt.Errorf("must be %d hexadecimal digits, has %d characters", hex.EncodedLen(len(d)), len(s))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, fmt.Errorf("must be %d hexadecimal digits", hex.EncodedLen(len(d)))
	}
	return d, nil
}

// Secret is a string that prints as a placeholder with every fmt verb, in
// slog and in JSON.
type Secret string

const redacted = "[redacted]"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Hasher makes digests of keys: SHA-256, or HMAC-SHA-256 when it has a pepper.
// Keys are random and long, so a slow password hash would add cost and no
// safety. The zero Hasher is SHA-256. A Hasher may be copied and used by many
// goroutines.
type Hasher struct {
	macs *sync.Pool // of *macState; nil: no pepper
}

// macState is an HMAC whose key schedule is computed once, and room for a usual key
// and its digest, so that hashing one does not allocate.
type macState struct {
	mac hash.Hash
	key [usualKeyLength]byte
	sum [sha256.Size]byte
}

// NewHasher returns a Hasher with a pepper, or plain SHA-256 when the pepper
// is empty. A pepper shorter than MinPepperLength is an error.
func NewHasher(pepper []byte) (Hasher, error) {
	if len(pepper) == 0 {
		return Hasher{}, nil
	}
	if len(pepper) < MinPepperLength {
		return Hasher{}, fmt.Errorf("the pepper has %d bytes and needs at least %d: make one with `openssl rand -base64 32`", len(pepper), MinPepperLength)
	}
	pepper = bytes.Clone(pepper)
	return Hasher{macs: &sync.Pool{New: func() any {
		return &macState{mac: hmac.New(sha256.New, pepper)}
	}}}, nil
}

// HasherOf returns a Hasher with the pepper in a file, without line ends at its
// end. No file means no pepper; a file without one is an error.
func HasherOf(pepper setting.File) (Hasher, error) {
	if pepper.Set() && pepper.Secret() == "" {
		return Hasher{}, fmt.Errorf("%s: the pepper file is empty", pepper.Path())
	}
	h, err := NewHasher([]byte(pepper.Secret()))
	if err != nil {
		return Hasher{}, fmt.Errorf("%s: %w", pepper.Path(), err)
	}
	return h, nil
}

// Peppered reports whether the digests depend on a pepper.
func (h Hasher) Peppered() bool { return h.macs != nil }

// Field is the name of the digest in key records: "sha256" or "hmac_sha256".
func (h Hasher) Field() string {
	if h.Peppered() {
		return FieldHMAC
	}
	return FieldSHA256
}

// usualKeyLength is enough for the keys that this program makes.
const usualKeyLength = 64

// Hash returns the digest of a key. It does not allocate for keys of up to
// usualKeyLength bytes.
func (h Hasher) Hash(key string) Digest {
	if h.macs == nil {
		var buf [usualKeyLength]byte // a larger one would make the stack of a request over HTTP/2 grow
		return sha256.Sum256(append(buf[:0], key...))
	}
	s := h.macs.Get().(*macState)
	copied := append(s.key[:0], key...)
	_, _ = s.mac.Write(copied) // a hash never fails
	var d Digest
	copy(d[:], s.mac.Sum(s.sum[:0]))
	clear(copied) // the pool outlives the request; the key must not
	s.mac.Reset()
	h.macs.Put(s)
	return d
}
