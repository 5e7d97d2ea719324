package gateway

import (
	"net/url"
	"strings"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/filters"
)

// parseFilter reads the two filters of a key from a raw query, strictly: a parameter that is unknown,
// repeated, badly escaped or out of its alphabet is an error, because dropping
// it silently would answer with another list than the one asked for. With
// ignoreUnknown, names that are not known are passed over, but must still be
// well-formed.
func parseFilter(rawQuery string, ignoreUnknown bool) (k cache.Key, err error) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		if pair == "" {
			continue
		}
		name, value, err := unescapePair(pair)
		if err == nil {
			err = setFilter(&k, name, value, ignoreUnknown)
		}
		if err != nil {
			return cache.Key{}, err
		}
	}
	return k, nil
}

// setFilter takes one parameter over, each at most once.
func setFilter(k *cache.Key, name, value string, ignoreUnknown bool) error {
	var field *string
	switch name {
	case "status":
		field = &k.Status
	case "inquiry_type":
		field = &k.InquiryType
	default:
		if ignoreUnknown {
			return nil
		}
		return &parameterError{name, "is not a parameter of this endpoint; remove it. Known parameters: status, inquiry_type"}
	}
	if *field != "" {
		return &parameterError{name, "is given more than once; send it once"}
	}
	if !filters.Valid(value) {
		return &parameterError{name, "must be 1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	*field = value
	return nil
}

// unescapePair splits one pair of a query and undoes its escapes. A semicolon
// is refused as net/url refuses it: old servers took it for a separator, so two
// programs on the way could read two different queries.
func unescapePair(pair string) (name, value string, err error) {
	name, value, _ = strings.Cut(pair, "=")
	if strings.IndexByte(pair, ';') >= 0 {
		return "", "", &parameterError{name, "has a semicolon; write it as %3B"}
	}
	if strings.IndexByte(pair, '%') < 0 && strings.IndexByte(pair, '+') < 0 {
		return name, value, nil
	}
	plainName, err := url.QueryUnescape(name)
	if err != nil {
		return "", "", &parameterError{name, "has a bad percent-escape in its name; write % as %25"}
	}
	if value, err = url.QueryUnescape(value); err != nil {
		return "", "", &parameterError{plainName, "has a bad percent-escape; write % as %25"}
	}
	return plainName, value, nil
}

// parameterError says which query parameter is wrong and what to do about it.
type parameterError struct {
	name string
	what string
}

func (e *parameterError) Error() string { return "parameter " + e.shownName() + " " + e.what }

// shownName bounds what a caller can have said back.
func (e *parameterError) shownName() string {
	if len(e.name) <= filters.MaxBytes {
		return e.name
	}
	return strings.ToValidUTF8(e.name[:filters.MaxBytes], "") + "..."
}
