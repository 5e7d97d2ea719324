package upstream

import (
	"errors"
	"io"
	"net/url"
	"syscall"
)

// redact takes the address out of a client's error: it holds the account and
// the filters.
func redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// isCutOff tells whether the legacy closed the connection before the end.
func isCutOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
