// Package v1 is the public wire format of the gateway, version 1: the JSON
// envelope of both inquiry lists and of every error, the OpenAPI document that
// describes them, and the page that shows that document.
//
// Everything in it is a pure function of its arguments or an immutable value,
// so all of it is safe for concurrent use. Whatever a record holds, what is
// rendered is valid JSON in valid UTF-8 with exactly the documented keys.
package v1

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"inquiry-gateway/upstream"
)

// Kind is one of the two lists: who may read it, where it is, and how it shows a record.
type Kind struct {
	Name     string // as keys, entries and the configuration say it
	Path     string
	Endpoint string // in metrics and logs

	record func(dst []byte, q *upstream.Inquiry) []byte
	size   func(q *upstream.Inquiry) int // at least the bytes of a record whose texts need no escapes
}

// kinds is never changed.
var kinds = [...]Kind{
	{"buyer", "/api/v1/buyer/inquiries", "buyer_inquiries", appendBuyer, sizeOfBuyer},
	{"seller", "/api/v1/seller/inquiries", "seller_inquiries", appendSeller, sizeOfSeller},
}

// Kinds are both kinds, in the order of the document.
func Kinds() []Kind { return append([]Kind(nil), kinds[:]...) }

const (
	listOpen  = `{"data":[`
	listClose = `],"meta":{},"errors":[]}`
)

// Empty is the whole reply of a list without records.
func Empty() []byte { return []byte(listOpen + listClose) }

// Render gives the whole reply of a kind's list: the envelope with one record for each
// inquiry, in the order given. Another kind is a bug and an error: no list is shown to a
// caller for whom it was not made. A NullString that is not valid becomes null; a nil list or
// nil Responses become []. The document promises sellers an inquiry_type that is never
// null, which the mapping has to see to; one that is not valid is shown as the null that it
// is. It allocates once, where one byte in 32 or fewer needs an escape.
func Render(kind string, list []upstream.Inquiry) ([]byte, error) {
	at := slices.IndexFunc(kinds[:], func(k Kind) bool { return k.Name == kind })
	if at < 0 {
		return nil, fmt.Errorf("no list is of kind %q", kind)
	}
	k, n := &kinds[at], len(listOpen)+len(listClose)
	for i := range list {
		n += k.size(&list[i])
	}
	dst := append(make([]byte, 0, n+n/32), listOpen...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = k.record(dst, &list[i])
	}
	return append(dst, listClose...), nil
}

func appendBuyer(dst []byte, q *upstream.Inquiry) []byte {
	dst = appendText(dst, `{"title":`, q.Title)
	dst = appendText(dst, `,"content":`, q.Content)
	dst = appendText(dst, `,"status":`, q.Status)
	dst = appendNullText(dst, `,"inquiry_type":`, q.InquiryType)
	dst = appendTime(dst, q.CreatedAt)
	dst = append(dst, `,"responses":[`...)
	for i := range q.Responses {
		if i > 0 {
			dst = append(dst, ',')
		}
		r := &q.Responses[i]
		dst = appendText(dst, `{"content":`, r.Content)
		dst = appendNullText(dst, `,"responder_type":`, r.ResponderType)
		dst = append(appendTime(dst, r.CreatedAt), '}')
	}
	return append(dst, `]}`...)
}

// What a record and a response have besides their texts: keys, quotes, commas, one
// timestamp, and null where that is longer than the quotes of a string.
const (
	buyerBytes    = 113
	responseBytes = 77
	sellerBytes   = 103
)

func sizeOfBuyer(q *upstream.Inquiry) int {
	n := buyerBytes + len(q.Title) + len(q.Content) + len(q.Status) + len(q.InquiryType.String)
	for i := range q.Responses {
		n += responseBytes + len(q.Responses[i].Content) + len(q.Responses[i].ResponderType.String)
	}
	return n
}

func appendSeller(dst []byte, q *upstream.Inquiry) []byte {
	dst = appendText(dst, `{"title":`, q.Title)
	dst = appendText(dst, `,"status":`, q.Status)
	dst = appendNullText(dst, `,"inquiry_type":`, q.InquiryType)
	dst = appendText(dst, `,"company_name":`, q.CompanyName)
	return append(appendTime(dst, q.CreatedAt), '}')
}

func sizeOfSeller(q *upstream.Inquiry) int {
	return sellerBytes + len(q.Title) + len(q.Status) + len(q.InquiryType.String) + len(q.CompanyName)
}

// appendText appends a key, as it stands in the record, and a string. What is no UTF-8
// becomes U+FFFD. Few characters need an escape; what lies between them is copied.
func appendText(dst []byte, key, s string) []byte {
	dst = append(dst, key...)
	if !utf8.ValidString(s) {
		dst, _ = jsontext.AppendQuote(dst, s) // its only error is about what it has replaced
		return dst
	}
	dst = append(dst, '"')
	for {
		n := plain(s)
		if dst = append(dst, s[:n]...); n == len(s) {
			return append(dst, '"')
		}
		var room [8]byte
		quoted, _ := jsontext.AppendQuote(room[:0], s[n:n+1])
		dst = append(dst, quoted[1:len(quoted)-1]...)
		s = s[n+1:]
	}
}

// plain counts the bytes of s before the first that needs an escape: a control character, a
// quotation mark or a backslash. It looks at eight bytes at a time, which halves the time
// that rendering takes.
func plain(s string) int {
	const (
		ones  = 0x0101010101010101 // the same byte in each of the eight places
		highs = 0x80 * ones
	)
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^'"'*ones, w^'\\'*ones
		// The lowest mark is always right: a borrow marks only what is above it.
		if mark := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs; mark != 0 {
			return i + bits.TrailingZeros64(mark)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}

func appendNullText(dst []byte, key string, s upstream.NullString) []byte {
	if !s.Valid {
		return append(append(dst, key...), `null`...)
	}
	return appendText(dst, key, s.String)
}

// appendTime appends created_at: RFC 3339, in UTC with milliseconds and Z. What is finer
// than a millisecond is cut off, never rounded up, so that no record is shown as younger
// than it is. RFC 3339 has four digits for the year: a time outside the years 0 to 9999
// becomes the nearest time inside.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	switch year := t.Year(); {
	case year < 0:
		t = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case year > 9999:
		t = time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	}
	const form = `,"created_at":"0000-00-00T00:00:00.000Z"`
	dst = append(dst, form...)
	digits := dst[len(dst)-len(`0000-00-00T00:00:00.000Z"`):]
	two := func(at, n int) { digits[at], digits[at+1] = byte('0'+n/10), byte('0'+n%10) }
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	two(0, year/100)
	two(2, year%100)
	two(5, int(month))
	two(8, day)
	two(11, hour)
	two(14, minute)
	two(17, second)
	ms := t.Nanosecond() / int(time.Millisecond)
	digits[20] = byte('0' + ms/100)
	two(21, ms%100)
	return dst
}

// ErrNotSelectable is returned for bytes that are not a list as Render makes it.
var ErrNotSelectable = errors.New("v1: no records can be selected from this list")

// Select takes the records with a status and an inquiry type out of a finished list; an
// empty one stands for all. The list must be one of Render's, and is not read strictly. The
// result is what Render makes of these records, in memory of its own. A record whose
// inquiry_type is null has none that could be wanted.
func Select(list []byte, status, inquiryType string) ([]byte, error) {
	if !bytes.HasPrefix(list, []byte(listOpen)) || !bytes.HasSuffix(list, []byte(listClose)) {
		return nil, ErrNotSelectable
	}
	dst := make([]byte, 0, len(list))
	dst = append(dst, listOpen...)
	gjson.GetBytes(list, "data").ForEach(func(_, record gjson.Result) bool {
		if has(record, "status", status) && has(record, "inquiry_type", inquiryType) {
			if len(dst) > len(listOpen) {
				dst = append(dst, ',')
			}
			dst = append(dst, record.Raw...)
		}
		return true
	})
	dst = append(dst, listClose...)
	return append(make([]byte, 0, len(dst)), dst...), nil
}

// has tells whether a field of a record is the wanted text.
func has(record gjson.Result, field, want string) bool {
	if want == "" {
		return true
	}
	value := record.Get(field)
	return value.Type == gjson.String && value.Str == want
}
