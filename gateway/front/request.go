package front

import (
	"net/http"
	"net/url"
	"strings"
)

// parser reads requests of one canonical form: exactly one whole GET over HTTP/1.1 for a path of
// this server, with a Host, without a body, each kept field once, on one line, in visible ASCII.
// Everything that another parser might take for something else is the http.Server's.
type parser struct {
	fields   []string // that are kept, in canonical form
	values   []string // of those, in the same order; the header map has slices of it
	present  []bool   // in the request that was read last
	header   http.Header
	host     string
	target   string // as it was sent
	url      url.URL
	request  http.Request
	template *http.Request // what all requests of the connection share
	text     string        // the request that was read last; empty: it was in another form
}

func (p *parser) init(template *http.Request, fields []string) {
	p.template, p.fields = template, fields
	p.values, p.present = make([]string, len(fields)), make([]bool, len(fields))
	p.header = make(http.Header, len(fields))
}

// take returns the request that was read last. It is valid until the next one is read.
func (p *parser) take() *http.Request {
	p.request = *p.template
	p.request.Header, p.request.Host, p.request.URL = p.header, p.host, &p.url
	p.request.RequestURI = p.target
	return &p.request
}

// parse parses what one read returned. It returns false if that is not in the canonical form. Clients
// often repeat a request, so an identical one is not parsed again.
func (p *parser) parse(b []byte) bool {
	if p.text != "" && p.text == string(b) {
		return true
	}
	const end = "\r\n"
	p.text, p.host = "", ""
	clear(p.present)
	n := len(b) - len(end)
	if n < len(end) || string(b[n-len(end):]) != end+end {
		return false
	}
	text := string(b)
	line, rest, _ := strings.Cut(text[:n], end)
	if !p.requestLine(line) {
		return false
	}
	for rest != "" {
		if line, rest, _ = strings.Cut(rest, end); !p.fieldLine(line) {
			return false
		}
	}
	if p.host == "" {
		return false
	}
	for i, name := range p.fields {
		if !p.present[i] {
			p.values[i] = ""
			delete(p.header, name)
		} else if len(p.header[name]) == 0 {
			p.header[name] = p.values[i : i+1 : i+1]
		}
	}
	p.text = text
	return true
}

func (p *parser) requestLine(line string) bool {
	line, get := strings.CutPrefix(line, "GET ")
	line, http11 := strings.CutSuffix(line, " HTTP/1.1")
	if !get || !http11 || line == "" || line[0] != '/' || strings.HasPrefix(line, "//") {
		return false
	}
	for i := range len(line) {
		if c := line[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	path, query, found := strings.Cut(line, "?")
	for i := range len(path) { // of what net/url could write in another way
		if c := path[i]; !isToken(c) && c != '/' && c != '.' && c != '~' {
			return false
		}
	}
	p.target = line
	p.url = url.URL{Path: path, RawQuery: query, ForceQuery: found && query == ""}
	return true
}

func (p *parser) fieldLine(line string) bool {
	colon := 0
	for colon < len(line) && isToken(line[colon]) {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return false
	}
	value := strings.Trim(line[colon+1:], " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return p.set(line[:colon], value)
}

// set keeps a field. It returns false for a repeated field if the repetition would change the meaning.
func (p *parser) set(name, value string) bool {
	is := func(s string) bool { return len(name) == len(s) && strings.EqualFold(name, s) }
	for i, kept := range p.fields {
		if is(kept) {
			once := !p.present[i]
			p.values[i], p.present[i] = value, true
			return once
		}
	}
	switch {
	case is("Host"):
		once := p.host == ""
		p.host = value
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

// isToken recognizes the characters of field names that all servers agree on.
func isToken(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' }

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
