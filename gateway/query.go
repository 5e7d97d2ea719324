package gateway

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/filters"
)

// parseFilter reads the filters of a list from a raw query, strictly: a parameter that is unknown,
// repeated, badly escaped or outside its alphabet is an error, because dropping it would return
// another list than the one asked for. With ignoreUnknown, unknown names are ignored, but must still
// be well-formed.
func parseFilter(rawQuery string, ignoreUnknown bool) (cache.Key, error) {
	var k cache.Key
	if rawQuery == "" {
		return k, nil
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return k, malformedParameter(rawQuery, err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) { // of two wrong parameters the same one is always named
		values, field := query[name], &k.Status
		switch {
		case name == "inquiry_type":
			field = &k.InquiryType
		case name == "status":
		case ignoreUnknown:
			continue
		default:
			return cache.Key{}, &parameterError{name, "is not a parameter of this endpoint; remove it. Known parameters: status, inquiry_type"}
		}
		if len(values) > 1 {
			return cache.Key{}, &parameterError{name, "is given more than once; send it once"}
		}
		if !filters.Valid(values[0]) {
			return cache.Key{}, &parameterError{name, "must be 1 to 64 characters of A-Z a-z 0-9 . _ -"}
		}
		*field = values[0]
	}
	return k, nil
}

// malformedParameter names the first parameter that net/url cannot parse. It refuses a semicolon, which old
// servers took for a separator: two programs on the way could read two different queries.
func malformedParameter(rawQuery string, err error) error {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			if _, escape := errors.AsType[url.EscapeError](err); escape {
				return &parameterError{name, "has a bad percent-escape; write % as %25"}
			}
			return &parameterError{name, "has a semicolon; write it as %3B"}
		}
	}
	return &parameterError{"", "is malformed: " + err.Error()} // such as too many parameters
}

// parameterError says which query parameter is wrong and what to do about it.
type parameterError struct {
	name string
	what string
}

func (e *parameterError) Error() string { return "parameter " + e.shownName() + " " + e.what }

// shownName bounds what a client can have repeated.
func (e *parameterError) shownName() string {
	if len(e.name) <= filters.MaxBytes {
		return e.name
	}
	return strings.ToValidUTF8(e.name[:filters.MaxBytes], "") + "..."
}
