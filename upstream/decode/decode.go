// Package decode turns the bytes of a reply into JSON in UTF-8, which is what the
// mapping reads: text of another charset, and XML.
//
// XML becomes JSON as it is read, without a tree in between. An element with nothing but
// text is a string; every other one is an object of its attributes ("-name"), its elements
// and its text ("$"). Elements of one name are a list if there are several, or if [Lists]
// says so: whether one element is a list of one cannot be seen. Document types are refused,
// so no entity can grow, and the output is bounded as the input is.
package decode

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// Format is how the replies of one address are written. Its zero value is JSON in
// the declared charset, or in UTF-8. It is read-only and safe for concurrent use.
type Format struct {
	XML bool
	// Charset overrides what replies declare. Nil: what they declare.
	Charset encoding.Encoding
	// Lists are the elements of XML that are lists, however many there are.
	Lists Lists
}

// Error says why a reply cannot be decoded. Its text holds nothing of the reply.
type Error struct {
	Reason string // charset, xml, fault or too_large
	text   string
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// refusal makes an [Error]. Its arguments must hold nothing of the reply.
func refusal(reason, format string, args ...any) error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// Decode gives a reply as JSON of at most limit bytes. declared is the charset that its
// header names; empty: none. JSON in UTF-8 is given back as it is: whether it is valid
// is seen when it is read. An error is an [*Error].
func (f *Format) Decode(body, declared string, limit int64) (string, error) {
	if !f.XML && f.Charset == nil && isUTF8(declared) {
		return body, nil
	}
	body, err := f.utf8(body, declared)
	if err != nil {
		return "", err
	}
	if f.XML {
		if !utf8.ValidString(body) {
			return "", refusal("charset", "the reply is not UTF-8")
		}
		if int64(len(body)) <= limit {
			body, err = f.fromXML(body, limit)
		}
	}
	if err == nil && int64(len(body)) > limit {
		err = tooLarge(limit)
	}
	return body, err
}

// tooLarge is the error for a reply that grew past the limit.
func tooLarge(limit int64) error {
	return refusal("too_large", "the decoded reply has more than %d bytes", limit)
}

// utf8 gives a text in UTF-8, by the charset of the configuration, of a byte order
// mark, of the header, or of an XML declaration, in this order (RFC 7303, 3.2).
func (f *Format) utf8(body, declared string) (string, error) {
	from := f.Charset
	if from == nil {
		mark := markOf(body)
		if f.XML && mark != "" {
			declared = mark
		} else if f.XML && declared == "" {
			declared = declaredIn(body)
		}
		var err error
		if from, err = Charset(declared); err != nil {
			return "", &Error{"charset", "the reply declares a charset that is not known; name the true one under reply.charset"}
		}
	}
	if from == utf8Encoding {
		return body, nil
	}
	text, err := from.NewDecoder().String(body)
	if err != nil || strings.ContainsRune(text, utf8.RuneError) {
		return "", refusal("charset", "the reply has bytes that its charset does not know")
	}
	return text, nil
}
