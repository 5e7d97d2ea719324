package v1

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// ErrNotSelectable is returned for bytes that are not a list as this package
// renders it, and for a filter value that no such list can hold.
var ErrNotSelectable = errors.New("v1: no records can be selected from this list")

// Filter says which records are wanted. An empty field means all. A record whose
// inquiry_type is null has no inquiry_type that could be wanted.
type Filter struct{ Status, InquiryType string }

// SelectBuyer takes the records that f wants out of a finished buyers' list. The
// result is what AppendBuyer makes of these records, in memory of its own. The
// list is read strictly: whatever AppendBuyer does not write is an error.
func SelectBuyer(list []byte, f Filter) ([]byte, error) {
	return selectRecords(list, (*scanner).buyerRecord, f)
}

// SelectSeller is SelectBuyer for a sellers' list.
func SelectSeller(list []byte, f Filter) ([]byte, error) {
	return selectRecords(list, (*scanner).sellerRecord, f)
}

// span is a part of a list: records that are neighbours and are all wanted.
type span struct{ from, to int }

// selectRecords copies the wanted records, neighbours in one piece. A first pass
// finds them, so that the result is allocated once and in its exact size.
func selectRecords(list []byte, record func(*scanner) filtered, f Filter) ([]byte, error) {
	if !utf8.ValidString(f.Status) || !utf8.ValidString(f.InquiryType) {
		return nil, ErrNotSelectable // is rendered like other invalid texts
	}
	want := filtered{status: encoded(f.Status), inquiryType: encoded(f.InquiryType)}
	var few [32]span
	spans, size := few[:0], len(listOpen)+len(listClose)
	s := scanner{b: list}
	s.literal(listOpen)
	for first := true; !s.bad && !s.at(listClose); first = false {
		if !first {
			s.literal(`,`)
		}
		from := s.pos
		if !record(&s).matches(want) {
			continue
		}
		size += s.pos - from
		switch last := len(spans) - 1; {
		case last < 0:
			spans = append(spans, span{from, s.pos})
		case spans[last].to == from-1:
			spans[last].to = s.pos
			size++
		default:
			spans = append(spans, span{from, s.pos})
			size++
		}
	}
	if s.literal(listClose); s.bad || s.pos != len(list) {
		return nil, ErrNotSelectable
	}
	dst := append(make([]byte, 0, size), listOpen...)
	for i, part := range spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, list[part.from:part.to]...)
	}
	return append(dst, listClose...), nil
}

// encoded is a text as it stands between quotes, nil for an empty one. Two valid
// texts are equal exactly if they are equal in this form.
func encoded(s string) []byte {
	if s == "" {
		return nil
	}
	b := AppendString(nil, s)
	return b[1 : len(b)-1]
}

// filtered is what a record is selected by, as it stands between quotes.
// inquiryType is nil where it is null.
type filtered struct{ status, inquiryType []byte }

func (r filtered) matches(want filtered) bool {
	return (want.status == nil || bytes.Equal(r.status, want.status)) &&
		(want.inquiryType == nil || r.inquiryType != nil && bytes.Equal(r.inquiryType, want.inquiryType))
}

// scanner reads what this package has rendered. After the first surprise bad is
// set and nothing more is read.
type scanner struct {
	b   []byte
	pos int
	bad bool
}

// at tells whether the text comes next.
func (s *scanner) at(text string) bool {
	return len(s.b)-s.pos >= len(text) && string(s.b[s.pos:s.pos+len(text)]) == text
}

// literal reads exactly this text.
func (s *scanner) literal(text string) {
	if s.bad || !s.at(text) {
		s.bad = true
		return
	}
	s.pos += len(text)
}

// text reads a key with its string and gives what is between the quotes, which
// is not nil.
func (s *scanner) text(key string) []byte {
	s.literal(key)
	s.literal(`"`)
	if s.bad {
		return nil
	}
	from := s.pos
	for {
		n := bytes.IndexByte(s.b[s.pos:], '"')
		if n < 0 {
			s.bad = true
			return nil
		}
		end := s.pos + n
		s.pos = end + 1
		slash := end
		for slash > from && s.b[slash-1] == '\\' {
			slash--
		}
		if (end-slash)%2 == 0 {
			return s.b[from:end:end]
		}
	}
}

// nullText reads a key with its string or null; null is nil.
func (s *scanner) nullText(key string) []byte {
	s.literal(key)
	if !s.bad && s.at(`null`) {
		s.pos += len(`null`)
		return nil
	}
	return s.text(``)
}

// time reads created_at.
func (s *scanner) time() {
	if t := s.text(`,"created_at":`); len(t) != len(`2006-01-02T15:04:05.000Z`) || t[len(t)-1] != 'Z' {
		s.bad = true
	}
}

// buyerRecord reads what appendBuyerRecord writes.
func (s *scanner) buyerRecord() (r filtered) {
	s.text(`{"title":`)
	s.text(`,"content":`)
	r.status = s.text(`,"status":`)
	r.inquiryType = s.nullText(`,"inquiry_type":`)
	s.time()
	s.literal(`,"responses":[`)
	for first := true; !s.bad && !s.at(`]`); first = false {
		if !first {
			s.literal(`,`)
		}
		s.text(`{"content":`)
		s.nullText(`,"responder_type":`)
		s.time()
		s.literal(`}`)
	}
	s.literal(`]}`)
	return r
}

// sellerRecord reads what appendSellerRecord writes.
func (s *scanner) sellerRecord() (r filtered) {
	s.text(`{"title":`)
	r.status = s.text(`,"status":`)
	r.inquiryType = s.nullText(`,"inquiry_type":`)
	s.text(`,"company_name":`)
	s.time()
	s.literal(`}`)
	return r
}
