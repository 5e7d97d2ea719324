// Package mapping makes inquiries of the legacy's replies, as a configuration says.
//
// [Compile] checks the section of one kind and compiles it into a [Plan], once per configuration.
// [Plan.Request] returns the request for a list. Its replies go to [Builder.Take], one page after
// the other, which parses each into a tree (package jsontree) and evaluates the configured paths on
// its records and responses. The internal ids of every record and its responses are collected,
// even of dropped ones. Then the record is evaluated: its owner, whether it is shown, and only then
// its fields. Where rows, details or responses belong to it that are not there yet, it waits in a
// stage for each of these: [Builder.Next] returns the second requests, and [Builder.Attach] attaches
// what came to the records' trees. When all is there, [Builder.RemoveIDs] removes the internal ids
// from the texts.
//
// [Explainer] observes a Builder for a person who writes a mapping: it takes each record, also
// after a mistake, and says what it saw.
package mapping

import (
	"fmt"
	"time"
)

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

// Query selects the records of a kind.
type Query struct {
	Account     string // sent in the request and compared with the owner of each record
	Status      string // public value; empty: all
	InquiryType string // public value; empty: all
	Secret      string // what {secret} stands for in requests
}

// Error is the reason why a reply is refused. Its text is for logs, and holds nothing of the reply's content.
type Error struct {
	Reason string // json, expect, items, record, owner, paging, changed or too_many
	Err    error
	// Found is the value, shortened, that stands where another one is expected. It is
	// content: for an operator's screen, never for logs. Empty: nothing is there.
	Found string
}

// ReasonChanged is the reason of a list that changed while its pages were read. A second reading may succeed.
const ReasonChanged = "changed"

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// newError makes an [Error]. Its arguments must not hold content of a reply.
func newError(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}
