// Package decode turns the bytes of a reply into JSON in UTF-8, which is what the
// mapping reads: text of another charset, and XML.
//
// XML becomes JSON as it is read, without a tree in between. An element with nothing but
// text is a string; every other one is an object of its attributes ("-name"), its elements
// and its text ("$"). Elements of one name are a list if there are several, or if the [Outline]
// says so: whether one element is a list of one cannot be seen. Document types are refused,
// so no entity can grow, and the output is bounded as the input is.
package decode

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// Format is how the replies of one address are written. Its zero value is JSON in
// the declared charset, or in UTF-8. It is read-only and safe for concurrent use.
type Format struct {
	XML bool
	// Charset overrides what replies declare. Nil: what they declare.
	Charset encoding.Encoding
	// Outline has the elements of XML that are lists, however many there are; nil: none.
	Outline *Outline
}

// Error says why a reply cannot be decoded. Its text holds nothing of the reply but the code of a SOAP fault.
type Error struct {
	Reason string // charset, xml, fault or too_large
	// Found is the code and the text of a SOAP fault, for the operator's screen only: it may hold whatever the reply holds.
	Found string
	text  string
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// refusal makes an [Error]. Its arguments must hold nothing of the reply.
func refusal(reason, format string, args ...any) error {
	return &Error{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// AtMost bounds the bytes of a decoded reply.
func AtMost(limit int64) (grown func(size int64) error) {
	return func(size int64) error {
		if size > limit {
			return refusal("too_large", "the decoded reply has more than %d bytes", limit)
		}
		return nil
	}
}

// Decode gives a reply as JSON. grown is told how many bytes that has so far; its error ends decoding. declared is the charset that its
// header names; empty: none. JSON in UTF-8 is given back as it is: whether it is valid
// is seen when it is read. A byte order mark before it is left out. An error is an [*Error]. With reason fault the JSON is there, too.
func (f *Format) Decode(body, declared string, grown func(size int64) error) (string, error) {
	from, err := f.charset(body, declared)
	body = strings.TrimPrefix(body, "\ufeff") // .NET writes it; RFC 8259 lets us ignore it
	if err != nil {
		return "", refusal("charset", "the reply declares a charset that is not known; name the true one under reply.charset")
	}
	if from != encoding.Nop {
		if body, err = from.NewDecoder().String(body); err != nil || strings.ContainsRune(body, utf8.RuneError) {
			return "", refusal("charset", "the reply has bytes that its charset does not know; name the true one under reply.charset")
		}
	} else if !f.XML {
		return body, nil
	} else if !utf8.ValidString(body) {
		return "", refusal("charset", "the reply is not UTF-8; name its charset under reply.charset")
	}
	if f.XML {
		if body, err = f.fromXML(body, grown); err != nil {
			return body, err
		}
	}
	return body, grown(int64(len(body)))
}

// declaration matches the encoding of an XML declaration.
var declaration = regexp.MustCompile(`^<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']`)

// charset is that of the configuration, of a byte order mark, of the header, or of an
// XML declaration, in this order (RFC 7303, 3.2). In JSON only the first and third count.
func (f *Format) charset(body, declared string) (encoding.Encoding, error) {
	switch {
	case f.Charset != nil:
		return f.Charset, nil
	case !f.XML:
	case strings.HasPrefix(body, "\xef\xbb\xbf"):
		declared = "utf-8"
	case strings.HasPrefix(body, "\xfe\xff"), strings.HasPrefix(body, "\xff\xfe"):
		declared = "utf-16"
	case declared == "":
		if found := declaration.FindStringSubmatch(body[:min(len(body), 200)]); found != nil {
			declared = found[1]
		}
	}
	return Charset(declared)
}

// Charset finds the charset of a name as it stands in media types and XML
// declarations: a name of the WHATWG Encoding Standard, or one of the names that
// Java gives to Korean text. An empty name is UTF-8, and so is ASCII: both are
// [encoding.Nop].
func Charset(name string) (encoding.Encoding, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return encoding.Nop, nil
	case "utf-16": // with a mark, or as RFC 2781 says
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM), nil
	case "cp949", "ms949", "x-windows-949":
		name = "euc-kr"
	}
	found, err := htmlindex.Get(name)
	if err != nil || name == "replacement" || name == "x-user-defined" {
		return nil, fmt.Errorf("%q is no known charset; use a name such as utf-8, euc-kr, shift_jis or windows-1252", name)
	}
	return found, nil
}
