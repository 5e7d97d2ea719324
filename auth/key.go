package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// MaxKeyLength is the longest key that is read, in bytes: room for the access tokens (JWTs) of an
// authorization server. A longer key is refused before it is hashed.
const MaxKeyLength = 8 << 10

// bearer takes the key out of the values of the Authorization header, as
// received. The error is ErrMissingKey, ErrMultipleCredentials or a Denial
// with ReasonMalformed. The key is a part of the value: nothing is allocated
// unless the header is malformed.
func bearer(values []string) (string, error) {
	if len(values) == 0 {
		return "", ErrMissingKey
	}
	if len(values) > 1 {
		return "", ErrMultipleCredentials
	}
	value := strings.Trim(values[0], " \t")
	end := strings.IndexAny(value, " \t")
	if end < 0 {
		return "", ErrMissingKey // a scheme alone, or nothing
	}
	if !strings.EqualFold(value[:end], "Bearer") {
		return "", ErrMissingKey
	}
	// RFC 9110, 11.4 separates scheme and token by spaces only.
	key := strings.TrimLeft(value[end:], " ")
	if !visible(key) || len(key) > MaxKeyLength {
		return "", &Denial{Reason: ReasonMalformed}
	}
	return key, nil
}

// CheckKey says why no caller could present a key, or nil. Its text holds nothing of the key.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKeyLength:
		return fmt.Errorf("a key that is longer than %d bytes is refused", MaxKeyLength)
	case !visible(key):
		return errors.New("a key holds visible ASCII characters only, and no blanks")
	case ownFormat(key) && !checksumOK(key):
		return errors.New("the key looks like one that this program makes, but its checksum is wrong: it is mistyped")
	}
	return nil
}

// visible reports whether s is visible ASCII: wider than the b64token of RFC
// 6750, because keys from elsewhere are opaque, but without the blanks and
// control characters that would mean a second credential or an injection.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// The gateway's own keys: a prefix that names the kind and lets secret
// scanners find them, randomBase62 random characters, and a CRC-32 (IEEE) of
// all that in checksumBase62 characters, so that a mistyped or made-up key is
// refused without asking anybody.
const (
	prefixBuyer    = "iqb_"
	prefixSeller   = "iqs_"
	prefixLength   = 4
	randomBase62   = 30
	checksumBase62 = 6
	ownKeyLength   = prefixLength + randomBase62 + checksumBase62

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Generate makes a new key of a kind with 178 bits from crypto/rand. It fails
// only when the kind is not KindBuyer or KindSeller.
func Generate(kind string) (string, error) {
	key := make([]byte, 0, ownKeyLength)
	switch kind {
	case KindBuyer:
		key = append(key, prefixBuyer...)
	case KindSeller:
		key = append(key, prefixSeller...)
	default:
		return "", fmt.Errorf("kind %q: use %s or %s", kind, KindBuyer, KindSeller)
	}
	key = appendRandom(key, randomBase62)
	sum := checksum(string(key))
	return string(append(key, sum[:]...)), nil
}

// appendRandom appends n characters, each equally likely: bytes past the last
// whole multiple of 62 are thrown away.
func appendRandom(dst []byte, n int) []byte {
	const limit = 256 - 256%len(base62)
	var pool [64]byte
	for {
		_, _ = rand.Read(pool[:]) // never fails: it ends the program instead
		for _, b := range pool {
			if n == 0 {
				return dst
			}
			if int(b) < limit {
				dst = append(dst, base62[int(b)%len(base62)])
				n--
			}
		}
	}
}

// ownFormat reports whether a key claims to be one of the gateway's own. Only
// the prefix and the length count: a character that no own key holds makes
// the checksum wrong, not the key somebody else's.
func ownFormat(key string) bool {
	if len(key) != ownKeyLength {
		return false
	}
	prefix := key[:prefixLength]
	return prefix == prefixBuyer || prefix == prefixSeller
}

// checksumOK reports whether the end of a key in own format is the checksum of
// what precedes it.
func checksumOK(key string) bool {
	body := key[:ownKeyLength-checksumBase62]
	for i := prefixLength; i < len(body); i++ {
		if !isBase62(body[i]) {
			return false
		}
	}
	sum := checksum(body)
	return key[len(body):] == string(sum[:])
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// checksum is the CRC-32 of s in base 62, most significant digit first.
func checksum(s string) [checksumBase62]byte {
	crc := ^uint32(0)
	for i := range len(s) { // by hand: []byte(s) would allocate on the hot path
		crc = crc32.IEEETable[byte(crc)^s[i]] ^ crc>>8
	}
	crc = ^crc
	var out [checksumBase62]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[crc%uint32(len(base62))]
		crc /= uint32(len(base62))
	}
	return out
}
