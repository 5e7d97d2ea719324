// Package upstream fetches inquiry lists from the legacy inquiry system and
// maps its JSON into the gateway's own records.
package upstream

import "time"

// Inquiry is one record of the legacy system after mapping and validation.
// It carries nothing that a public record does not show, so an internal id of
// the legacy system has no field to hide in.
type Inquiry struct {
	Title       string
	Content     string // buyers only
	Status      string // the public value
	InquiryType NullString
	CompanyName string     // sellers only
	CreatedAt   time.Time  // UTC
	Responses   []Response // buyers only
}

// Response is one answer to an inquiry.
type Response struct {
	Content       string
	ResponderType NullString
	CreatedAt     time.Time // UTC
}

// NullString is a string that may be null. Its zero value is null.
type NullString struct {
	String string
	Valid  bool // false: null, String is empty
}
