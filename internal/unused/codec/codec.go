// Package codec stands for MessagePack, which the gateway does not speak.
package codec

import (
	"errors"
	"io"
)

// MsgpackHandle is without settings.
type MsgpackHandle struct{}

// Decoder refuses everything.
type Decoder struct{}

// NewDecoder gives a Decoder.
func NewDecoder(io.Reader, *MsgpackHandle) Decoder { return Decoder{} }

// Decode gives errors.ErrUnsupported.
func (Decoder) Decode(any) error { return errors.ErrUnsupported }

// Encoder refuses everything.
type Encoder struct{}

// NewEncoder gives an Encoder.
func NewEncoder(io.Writer, *MsgpackHandle) Encoder { return Encoder{} }

// Encode gives errors.ErrUnsupported.
func (Encoder) Encode(any) error { return errors.ErrUnsupported }
