package front

import (
	"net/http"
	"strings"
)

// Fields are the fields of a request that the gateway reads, whoever has parsed it. One that
// was not sent is nil; else it has one value for each of its lines.
type Fields struct {
	Authorization, AcceptEncoding, IfNoneMatch []string
	RequestID, ForwardedFor                    []string // only trusted proxies may send them
	Traceparent, Tracestate                    []string
}

// FieldsOf takes them out of net/http's map.
func FieldsOf(h http.Header) Fields {
	return Fields{
		Authorization: h["Authorization"], AcceptEncoding: h["Accept-Encoding"], IfNoneMatch: h["If-None-Match"],
		RequestID: h["X-Request-Id"], ForwardedFor: h["X-Forwarded-For"], Traceparent: h["Traceparent"], Tracestate: h["Tracestate"],
	}
}

// Head is a request in the one form that the front reads: exactly one whole GET of
// HTTP/1.1 for a path of this server, with a Host, without a body, each field once and
// on one line, in visible ASCII. Everything that another reader might take for
// something else is left to net/http.
type Head struct {
	Fields
	Path, Query string

	host   []string
	values [fieldCount]string // what the slices above are slices of
	text   string             // all of it
}

const fieldCount = 8

// read reads what one read has brought. False: it is not in that form. Many callers send
// one request again and again: that one is there already.
func (h *Head) read(p []byte) bool {
	if h.text != "" && h.text == string(p) {
		return true
	}
	if h.parse(p) {
		return true
	}
	*h = Head{}
	return false
}

func (h *Head) parse(p []byte) bool {
	const end = "\r\n"
	n := len(p) - len(end)
	if n < len(end) || string(p[n-len(end):]) != end+end {
		return false
	}
	*h = Head{text: string(p)}
	line, rest, _ := strings.Cut(h.text[:n], end)
	if !h.target(line) {
		return false
	}
	for rest != "" {
		line, rest, _ = strings.Cut(rest, end)
		if !h.field(line) {
			return false
		}
	}
	return h.host != nil
}

// target reads the request line.
func (h *Head) target(line string) bool {
	line, get := strings.CutPrefix(line, "GET ")
	line, http11 := strings.CutSuffix(line, " HTTP/1.1")
	if !get || !http11 || line == "" || line[0] != '/' {
		return false
	}
	for i := range len(line) {
		if c := line[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	h.Path, h.Query, _ = strings.Cut(line, "?")
	for i := range len(h.Path) { // of what net/url could write in another way
		if c := h.Path[i]; !isToken(c) && c != '/' && c != '.' && c != '~' {
			return false
		}
	}
	return !strings.HasPrefix(h.Path, "//")
}

// field reads one line of the header.
func (h *Head) field(line string) bool {
	colon := 0
	for colon < len(line) && isToken(line[colon]) {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return false
	}
	name, value := line[:colon], strings.Trim(line[colon+1:], " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return h.set(name, value)
}

// set takes a field over. A field of which a second one would matter comes once.
func (h *Head) set(name, value string) bool {
	is := func(s string) bool { return len(name) == len(s) && strings.EqualFold(name, s) }
	switch {
	case is("Host"):
		return validHost(value) && h.once(&h.host, 0, value)
	case is("Authorization"):
		return h.once(&h.Authorization, 1, value)
	case is("Accept-Encoding"):
		return h.once(&h.AcceptEncoding, 2, value)
	case is("If-None-Match"):
		return h.once(&h.IfNoneMatch, 3, value)
	case is("X-Request-Id"):
		return h.once(&h.RequestID, 4, value)
	case is("X-Forwarded-For"):
		return h.once(&h.ForwardedFor, 5, value)
	case is("Traceparent"):
		return h.once(&h.Traceparent, 6, value)
	case is("Tracestate"):
		return h.once(&h.Tracestate, 7, value)
	case is("Connection"):
		return strings.EqualFold(value, "keep-alive")
	case is("Content-Length"), is("Transfer-Encoding"), is("Expect"), is("Upgrade"), is("Trailer"):
		return false
	}
	return true
}

// once is false for a field that has come before. The value lies in the Head itself, so
// that it takes no allocation.
func (h *Head) once(field *[]string, i int, value string) bool {
	if *field != nil {
		return false
	}
	h.values[i] = value
	*field = h.values[i : i+1 : i+1]
	return true
}

// validHost is narrower than net/http's check.
func validHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '.' && c != '-' && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	return s != ""
}

// isToken tells the characters of a field's name that all servers agree on.
func isToken(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
