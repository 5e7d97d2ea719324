// Package http3 stands for HTTP/3, which the gateway does not speak.
package http3

import (
	"errors"
	"net/http"
)

// ListenAndServeQUIC gives errors.ErrUnsupported.
func ListenAndServeQUIC(_, _, _ string, _ http.Handler) error { return errors.ErrUnsupported }
