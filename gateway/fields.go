package gateway

import "net/http"

// fields are the header fields of one answer, in the order they were added. They
// are kept apart from net/http's map because filling, copying and sorting that
// map is a tenth of what a hit costs; where the connection lets the answer's
// head be written by hand they never get into one.
type fields struct {
	list [maxFields]field
	n    int
}

// maxFields is how many an answer can have besides its length and its id: a hit
// in a coding, under a rate, has eleven.
const maxFields = 12

// field is a name in net/http's canonical form and its value, in the shape that
// net/http wants and shared between answers where it can be. What stands here
// has no line breaks: it is made by the gateway, never taken from a caller.
type field struct {
	name  string
	value []string
}

// add appends a field. Each name is added once.
func (f *fields) add(name string, value []string) {
	f.list[f.n] = field{name, value}
	f.n++
}

// into puts the fields into a header map.
func (f *fields) into(h http.Header) {
	for _, one := range f.list[:f.n] {
		h[one.name] = one.value
	}
}

// appendTo appends the fields as lines of HTTP/1.
func (f *fields) appendTo(b []byte) []byte {
	for _, one := range f.list[:f.n] {
		b = appendField(b, one.name, one.value[0])
	}
	return b
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}
