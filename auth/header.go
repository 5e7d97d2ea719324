package auth

import "strings"

// MaxKeyLength is the longest key that is read, in bytes. A longer one is
// refused before it is hashed.
const MaxKeyLength = 512

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
