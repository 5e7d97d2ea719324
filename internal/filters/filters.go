// Package filters has the words in which the mapping tells the cache what becomes of the
// filters of a request; the two do not know each other.
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
	AskedFor     Asked = iota // the legacy is asked for the records that have it
	SelectedHere              // the legacy is asked without it, and the gateway selects
	NoRecord                  // no record can have it: the list is empty, and nobody is asked
)

// Of is what becomes of a value; the empty one is no filter.
func (f *Filter) Of(value string) Asked {
	if value == "" {
		return AskedFor
	}
	if a, ok := f.Values[value]; ok {
		return a
	}
	return f.Other
}
