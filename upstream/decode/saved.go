package decode

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
)

// Saved is a reply as somebody saved it: its body, and its headers where they stand before it, as curl -i writes
// them.
func Saved(text []byte) (header http.Header, body []byte) {
	for bytes.HasPrefix(text, []byte("HTTP/")) { // the last head of several, such as a proxy's
		_, head, _ := bytes.Cut(text, []byte("\n"))
		rest := bytes.NewReader(head)
		lines := bufio.NewReader(rest)
		got, err := textproto.NewReader(lines).ReadMIMEHeader()
		if err != nil {
			return header, text
		}
		header, text = http.Header(got), head[len(head)-rest.Len()-lines.Buffered():]
	}
	return header, text
}
