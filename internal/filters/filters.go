// Package filters has what all parts know of the filters of a request: what a value can be, and the
// words in which the mapping tells the cache what becomes of it; the two do not know each other.
package filters

// Filter says what becomes of the values of one filter. It must not change once somebody
// has it.
type Filter struct {
	Values map[string]Asked
	Other  Asked // every value that is not in Values
}

// Asked is what becomes of one value of a filter.
type Asked uint8

// What becomes of a value.
const (
	Upstream Asked = iota // the legacy is asked for the records that have it
	Local                 // the legacy is asked without it, and the gateway selects
	Empty                 // no record can have it: the list is empty, and nobody is asked
)

// Of is what becomes of a value; the empty one is no filter.
func (f *Filter) Of(value string) Asked {
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

// Valid tells whether a text can be the value of a filter: 1 to MaxBytes of A-Z a-z 0-9 . _ - as the
// documents say. Values go into keys and logs, and so the ids of requests are of them, too.
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
