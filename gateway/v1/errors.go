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
// with no data and errs in the order given.
func AppendErrors(dst []byte, errs ...Error) []byte {
	dst = append(dst, `{"data":[],"meta":{},"errors":[`...)
	for i := range errs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendError(dst, &errs[i])
	}
	return append(dst, `]}`...)
}

// appendError appends one error object. Its keys are in the documented order.
func appendError(dst []byte, e *Error) []byte {
	dst = AppendString(append(dst, `{"id":`...), e.ID)
	dst = AppendString(append(dst, `,"status":`...), e.Status)
	dst = AppendString(append(dst, `,"code":`...), e.Code)
	dst = AppendString(append(dst, `,"title":`...), e.Title)
	dst = AppendString(append(dst, `,"detail":`...), e.Detail)
	return append(appendSource(dst, e.Source), '}')
}

// appendSource appends the key source with its comma, or nothing.
func appendSource(dst []byte, s *Source) []byte {
	switch {
	case s == nil:
		return dst
	case s.Header != "":
		return append(AppendString(append(dst, `,"source":{"header":`...), s.Header), '}')
	}
	return append(AppendString(append(dst, `,"source":{"parameter":`...), s.Parameter), '}')
}
