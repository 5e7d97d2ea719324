package httpwire

import (
	"errors"
	"net/http"
	"strconv"
)

// usualFields is how many fields an answer has at most today besides its length: a hit
// in a coding, under a rate. More are allocated.
const usualFields = 12

// Header holds the fields of one answer, in the order in which they were added.
// A Header must not be copied. They are kept apart from net/http's map because filling, copying and sorting
// that map is a tenth of what a hit costs. Where the head is written by hand, they
// never get into a map. The zero value is empty. It is for one goroutine.
type Header struct {
	fields []field
	room   [usualFields]field
}

// field is a name in net/http's canonical form and its value: in the shape that
// net/http wants, so that answers can share values, or as bytes.
type field struct {
	name  string
	value []string
	text  []byte
}

// Add appends a field of exactly one value. Each name is added once, in net/http's
// canonical form, and no value may have a line break.
func (h *Header) Add(name string, value []string) {
	h.add(field{name: name, value: value})
}

// AddText is Add for a value that differs from answer to answer. As bytes it needs no
// allocation. The bytes must not change until the answer is sent.
func (h *Header) AddText(name string, value []byte) {
	h.add(field{name: name, text: value})
}

func (h *Header) add(f field) {
	if h.fields == nil {
		h.fields = h.room[:0]
	}
	h.fields = append(h.fields, f)
}

// Into puts the fields into net/http's map.
func (h *Header) Into(m http.Header) {
	for _, f := range h.fields {
		if f.text != nil {
			f.value = []string{string(f.text)}
		}
		m[f.name] = f.value
	}
}

// appendTo appends the fields as lines of HTTP/1.
func (h *Header) appendTo(b []byte) []byte {
	for i := range h.fields {
		f := &h.fields[i]
		b = appendField(b, f.name)
		if f.text != nil {
			b = append(b, f.text...)
		} else {
			b = append(b, f.value[0]...)
		}
		b = append(b, "\r\n"...)
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

// Send writes the answer to q: with one write, if c is a connection of HTTP/1. c may be
// nil. Without w the lane answers: the head that net/http would have written is
// written by hand. Send returns how many bytes of the body were taken. After an error
// nobody is there to read the answer.
func Send(w Writer, q *Request, c *Conn, a *Answer) (int, error) {
	if w == nil {
		return c.answer(a)
	}
	if c != nil && (q.Major != 1 || !c.direct) {
		c = nil // HTTP/2 shares the connection between requests, and has buffers of its own
	}
	h := w.Header()
	for _, f := range a.fields { // gin puts Allow there, for one
		delete(h, f.name)
	}
	h["Date"] = nil // keeps net/http from adding its own
	if a.Length != nil {
		h["Content-Length"] = a.Length
	}
	if a.Close {
		h["Connection"] = []string{connectionClose}
	}
	if c == nil {
		a.Into(h)
		w.WriteHeader(a.Status)
		return w.Write(a.Body)
	}
	c.head = &a.Header
	w.WriteHeader(a.Status)
	w.Flush() // the head alone
	n, err := w.Write(a.Body)
	w.Flush()
	c.head = nil
	return n, errors.Join(err, c.wire.release())
}

// answer writes what net/http would have.
func (c *Conn) answer(a *Answer) (n int, err error) {
	head := c.listener.laneHeads.Get().(*[]byte)
	b := append((*head)[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(append(append(b, ' '), http.StatusText(a.Status)...), "\r\n"...)
	if a.Close {
		b = append(appendField(b, "Connection"), connectionClose+"\r\n"...)
		c.lane.last = true
	}
	if a.Length != nil {
		b = append(append(appendField(b, "Content-Length"), a.Length[0]...), "\r\n"...)
	}
	b = append(a.appendTo(b), "\r\n"...)
	if err = c.writeHead(b); err == nil && len(a.Body) > 0 {
		n, err = c.Conn.Write(a.Body)
	}
	*head = b[:0]
	c.listener.laneHeads.Put(head)
	return n, errors.Join(err, c.wire.release())
}
