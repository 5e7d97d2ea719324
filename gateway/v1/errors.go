package v1

// Error is one error as a caller sees it: an error object of JSON:API 1.1.
// It must never carry a text or an id of the legacy system, or a key.
type Error struct {
	ID     string // of this occurrence: the request id
	Status string // the HTTP status in decimal
	Code   string // one of the documented codes
	Title  string // the same for every occurrence of a code
	Detail string // what the caller should do
	Source *Source
}

// Source names the part of the request that an error is about: a header, or else a
// query parameter, whose name may be empty, as in "?=x".
type Source struct {
	Parameter string // name of a query parameter
	Header    string // name of a request header
}

// AppendErrors appends the whole reply of a failed request to dst: the envelope
// with no data and one error.
func AppendErrors(dst []byte, e Error) []byte {
	dst = AppendString(append(dst, `{"data":[],"meta":{},"errors":[{"id":`...), e.ID)
	dst = AppendString(append(dst, `,"status":`...), e.Status)
	dst = AppendString(append(dst, `,"code":`...), e.Code)
	dst = AppendString(append(dst, `,"title":`...), e.Title)
	dst = AppendString(append(dst, `,"detail":`...), e.Detail)
	switch s := e.Source; {
	case s == nil:
	case s.Header != "":
		dst = append(AppendString(append(dst, `,"source":{"header":`...), s.Header), '}')
	default:
		dst = append(AppendString(append(dst, `,"source":{"parameter":`...), s.Parameter), '}')
	}
	return append(dst, `}]}`...)
}
