package httpwire

import (
	"errors"
	"net/http"
)

// maxFields is how many fields an answer can have besides its length and the one
// of SetText: a hit in a coding, under a rate, has ten.
const maxFields = 12

// Header holds the fields of one answer, in the order in which they were added.
// They are kept apart from net/http's map because filling, copying and sorting
// that map is a tenth of what a hit costs. Where the head is written by hand, they
// never get into a map. The zero value is empty. It is for one goroutine.
type Header struct {
	fields [maxFields]field
	n      int
	name   string
	text   []byte
}

// field is a name in net/http's canonical form and its value, in the shape that
// net/http wants, so that answers can share values.
type field struct {
	name  string
	value []string
}

// Add appends a field of exactly one value. Each name is added once, in net/http's
// canonical form, and no value may have a line break.
func (h *Header) Add(name string, value []string) {
	h.fields[h.n] = field{name, value}
	h.n++
}

// SetText sets the one field whose value differs in each answer. As bytes it needs
// no allocation. The bytes must not change until the answer is sent.
func (h *Header) SetText(name string, value []byte) { h.name, h.text = name, value }

// Into puts the fields into net/http's map.
func (h *Header) Into(m http.Header) {
	m[h.name] = []string{string(h.text)}
	for _, f := range h.fields[:h.n] {
		m[f.name] = f.value
	}
}

// appendTo appends the fields as lines of HTTP/1.
func (h *Header) appendTo(b []byte) []byte {
	b = appendField(b, h.name)
	b = append(append(b, h.text...), "\r\n"...)
	for _, f := range h.fields[:h.n] {
		b = appendField(b, f.name)
		b = append(append(b, f.value[0]...), "\r\n"...)
	}
	return b
}

func appendField(b []byte, name string) []byte { return append(append(b, name...), ": "...) }

// Answer is one whole answer.
type Answer struct {
	Header
	Status int
	Length []string // value of Content-Length; nil: the answer has none, as a 304
	Body   []byte
	Close  bool // close the connection afterwards; over HTTP/2 send GOAWAY
}

// Writer is what Send needs of net/http.
type Writer interface {
	http.ResponseWriter
	http.Flusher
}

// connectionClose is what Connection says when the server closes it.
const connectionClose = "close"

// Send writes the answer to q: with one write, if c can hold its head back. c may
// be nil. It returns how many bytes of the body were taken. After an error nobody
// is there to read the answer.
func Send(w Writer, q *Request, c *Conn, a *Answer) (int, error) {
	if q.Major != 1 {
		c = nil // HTTP/2 shares the connection between requests, and has buffers of its own
	}
	h := w.Header()
	clear(h)        // gin puts Allow there, which is among the fields too
	h["Date"] = nil // keeps net/http from adding its own
	if a.Length != nil {
		h["Content-Length"] = a.Length
	}
	if a.Close {
		h["Connection"] = []string{connectionClose}
	}
	switch {
	case c == nil:
		a.Into(h)
	case q.TLS:
		a.Into(h)
		c.hold(nil)
	default:
		c.hold(&a.Header)
	}
	w.WriteHeader(a.Status)
	if c == nil {
		return w.Write(a.Body)
	}
	w.Flush() // the head alone
	n, err := w.Write(a.Body)
	w.Flush()
	return n, errors.Join(err, c.release())
}
