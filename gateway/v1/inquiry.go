// Package v1 is the public wire format of the gateway, version 1: the JSON
// envelope of both inquiry lists and of every error, the OpenAPI document that
// describes them, and the page that shows that document.
//
// Everything in it is a pure function of its arguments or an immutable value,
// so all of it is safe for concurrent use. Rendering appends to a byte slice
// and has no error: whatever a record holds, the result is valid JSON in valid
// UTF-8 with exactly the documented keys.
package v1

import (
	"fmt"
	"slices"

	"inquiry-gateway/upstream"
)

const (
	listOpen  = `{"data":[`
	listClose = `],"meta":{},"errors":[]}`

	// What a record costs besides its texts: keys, quotes, commas, one
	// timestamp, and null where that is longer than the quotes of a string.
	buyerRecordBytes  = 113
	responseBytes     = 77
	sellerRecordBytes = 103
)

// AppendBuyer appends the whole reply of the buyers' list to dst: the envelope
// with one record of title, content, status, inquiry_type, created_at and
// responses for each inquiry, in the order given. A NullString that is not
// valid becomes null; a nil list or nil Responses become [].
func AppendBuyer(dst []byte, list []upstream.Inquiry) []byte {
	return appendRecords(slices.Grow(dst, BuyerSize(list)), list, appendBuyerRecord)
}

// AppendSeller appends the whole reply of the sellers' list to dst: the
// envelope with one record of title, status, inquiry_type, company_name and
// created_at for each inquiry, in the order given. The document promises
// sellers an inquiry_type that is never null, which the mapping has to see to;
// one that is not valid is shown as the null that it is.
func AppendSeller(dst []byte, list []upstream.Inquiry) []byte {
	return appendRecords(slices.Grow(dst, SellerSize(list)), list, appendSellerRecord)
}

// Render gives the whole reply of a kind's list. Another kind is a bug and an error: no
// list is shown to a caller for whom it was not made.
func Render(kind string, list []upstream.Inquiry) ([]byte, error) {
	switch kind {
	case "buyer":
		return AppendBuyer(nil, list), nil
	case "seller":
		return AppendSeller(nil, list), nil
	}
	return nil, fmt.Errorf("no projection for kind %q", kind)
}

// appendRecords appends the envelope with what record renders of each inquiry.
func appendRecords(dst []byte, list []upstream.Inquiry, record func([]byte, *upstream.Inquiry) []byte) []byte {
	dst = append(dst, listOpen...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = record(dst, &list[i])
	}
	return append(dst, listClose...)
}

// BuyerSize estimates the bytes that AppendBuyer appends: enough for texts in
// which one byte in 32 needs a backslash, so that rendering allocates once.
func BuyerSize(list []upstream.Inquiry) int {
	text, fixed := 0, len(listOpen)+len(listClose)
	for i := range list {
		q := &list[i]
		text += len(q.Title) + len(q.Content) + len(q.Status) + len(q.InquiryType.String)
		fixed += buyerRecordBytes + responseBytes*len(q.Responses)
		for j := range q.Responses {
			text += len(q.Responses[j].Content) + len(q.Responses[j].ResponderType.String)
		}
	}
	return fixed + text + text/32
}

// SellerSize is BuyerSize for AppendSeller.
func SellerSize(list []upstream.Inquiry) int {
	text, fixed := 0, len(listOpen)+len(listClose)
	for i := range list {
		q := &list[i]
		text += len(q.Title) + len(q.Status) + len(q.InquiryType.String) + len(q.CompanyName)
		fixed += sellerRecordBytes
	}
	return fixed + text + text/32
}

func appendBuyerRecord(dst []byte, q *upstream.Inquiry) []byte {
	dst = appendText(append(dst, `{"title":"`...), q.Title)
	dst = appendText(append(dst, `,"content":"`...), q.Content)
	dst = appendText(append(dst, `,"status":"`...), q.Status)
	dst = appendNullString(append(dst, `,"inquiry_type":`...), q.InquiryType)
	dst = appendTime(append(dst, `,"created_at":`...), q.CreatedAt)
	dst = append(dst, `,"responses":[`...)
	for i := range q.Responses {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendResponse(dst, &q.Responses[i])
	}
	return append(dst, `]}`...)
}

func appendResponse(dst []byte, r *upstream.Response) []byte {
	dst = appendText(append(dst, `{"content":"`...), r.Content)
	dst = appendNullString(append(dst, `,"responder_type":`...), r.ResponderType)
	dst = appendTime(append(dst, `,"created_at":`...), r.CreatedAt)
	return append(dst, '}')
}

func appendSellerRecord(dst []byte, q *upstream.Inquiry) []byte {
	dst = appendText(append(dst, `{"title":"`...), q.Title)
	dst = appendText(append(dst, `,"status":"`...), q.Status)
	dst = appendNullString(append(dst, `,"inquiry_type":`...), q.InquiryType)
	dst = appendText(append(dst, `,"company_name":"`...), q.CompanyName)
	dst = appendTime(append(dst, `,"created_at":`...), q.CreatedAt)
	return append(dst, '}')
}
