// Package filters is what mapping and cache share about the filters of a request, so that neither imports the other: which
// values are valid, and how the list for a value is made.
package filters

// Filter says how the list for each value of one filter is made. It must not be changed after it was returned.
type Filter struct {
	Values map[string]Source
	Other  Source // every value that is not in Values
}

// Source is where the list for a value of a filter comes from.
type Source uint8

// The sources.
const (
	Upstream Source = iota // the legacy system is asked for the records with the value
	Local                  // the gateway selects them from the list without the filter
	Empty                  // no record can have the value: the list is empty without a request
)

// Of returns the source for a value; an empty one is no filter.
func (f *Filter) Of(value string) Source {
	if value == "" {
		return Upstream
	}
	if a, ok := f.Values[value]; ok {
		return a
	}
	return f.Other
}

// MaxBytes bounds the value of a filter.
const MaxBytes = 64

// Valid reports whether a text can be the value of a filter: 1 to MaxBytes of A-Z a-z 0-9 . _ and -. Values go into keys and
// logs. Ids of requests are of the same form.
func Valid(value string) bool {
	if value == "" || len(value) > MaxBytes {
		return false
	}
	for i := range len(value) {
		switch c := value[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
