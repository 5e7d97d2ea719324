package front

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// response is the http.ResponseWriter of a request that is served here. Its first Write sends the
// head and all of the body.
type response struct {
	conn   *conn
	header http.Header
	status int
	sent   bool
	last   bool // no other response follows on the connection
	err    error
}

var errSecondWrite = errors.New("front: the body must be written with one Write")

func (w *response) reset() { *w = response{conn: w.conn} }

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter. It adds Content-Length and Date where they are not set, and
// guesses no Content-Type.
func (w *response) Write(body []byte) (int, error) {
	if w.sent {
		return 0, errSecondWrite
	}
	w.WriteHeader(http.StatusOK)
	h := w.Header()
	if h["Content-Length"] == nil && w.status != http.StatusNoContent && w.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if h["Date"] == nil {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 " + strconv.Itoa(w.status) + " " + http.StatusText(w.status) + "\r\n")
	_ = h.Write(&head) // to memory
	head.WriteString("\r\n")
	return w.SendHead(head.Bytes(), body, h.Get("Connection") == "close")
}

// SendHead sends a response whose head, from the status line to the empty line, the handler has
// rendered, in place of WriteHeader and Write. last closes the connection afterwards; head must then
// say so. It returns how many bytes of body were sent.
func (w *response) SendHead(head, body []byte, last bool) (n int, err error) {
	if w.sent {
		return 0, errSecondWrite
	}
	w.sent, w.last = true, last
	n, w.err = w.conn.send(head, body)
	return n, w.err
}

// SetWriteDeadline is for http.ResponseController. A deadline may end up to a second early.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.conn.writing.set(t, w.conn.Conn.SetWriteDeadline)
	return nil
}

// finish sends what the handler has left without a body.
func (w *response) finish() error {
	if !w.sent {
		_, _ = w.Write(nil)
	}
	return w.err
}
