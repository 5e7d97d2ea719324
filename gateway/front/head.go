package front

import (
	"net/http"
	"strings"
)

// The fields of a request that the gateway reads, by their places in Fields.
const (
	Authorization = iota
	AcceptEncoding
	IfNoneMatch
	RequestID    // from trusted proxies only
	ForwardedFor // from trusted proxies only
	Traceparent
	Tracestate
	fieldCount
)

// fieldNames are their names in the form of net/http.
var fieldNames = [fieldCount]string{"Authorization", "Accept-Encoding", "If-None-Match", "X-Request-Id", "X-Forwarded-For", "Traceparent", "Tracestate"}

// Fields are the values of those fields, whoever has parsed the request: one for each line of a
// field, nil for one that was not sent.
type Fields [fieldCount][]string

// FieldsOf takes them out of net/http's map.
func FieldsOf(h http.Header) (f Fields) {
	for i, name := range fieldNames {
		f[i] = h[name]
	}
	return f
}

// Head is a request in the one form that the front reads: exactly one whole GET of
// HTTP/1.1 for a path of this server, with a Host, without a body, each field once and
// on one line, in visible ASCII. Everything that another reader might take for
// something else is left to net/http.
type Head struct {
	Path, Query string
	Fields      Fields

	host   bool
	values [fieldCount]string // what Fields has slices of
	text   string             // all of it
}

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
	return h.host
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
	for i, read := range fieldNames {
		if is(read) { // the value lies in the Head, so that it takes no allocation
			once := h.Fields[i] == nil
			h.values[i] = value
			h.Fields[i] = h.values[i : i+1 : i+1]
			return once
		}
	}
	switch {
	case is("Host"):
		once := !h.host
		h.host = true
		return once && validHost(value)
	case is("Connection"):
		return strings.EqualFold(value, "keep-alive")
	case is("Content-Length"), is("Transfer-Encoding"), is("Expect"), is("Upgrade"), is("Trailer"):
		return false
	}
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
