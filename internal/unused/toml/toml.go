// Package toml stands for TOML, which the gateway does not speak.
package toml

import (
	"errors"
	"io"
)

// Marshal gives errors.ErrUnsupported.
func Marshal(any) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decoder refuses everything.
type Decoder struct{}

// NewDecoder gives a Decoder.
func NewDecoder(io.Reader) Decoder { return Decoder{} }

// Decode gives errors.ErrUnsupported.
func (Decoder) Decode(any) error { return errors.ErrUnsupported }
