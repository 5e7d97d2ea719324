// Package bson stands for BSON, which the gateway does not speak.
package bson

import "errors"

// Marshal gives errors.ErrUnsupported.
func Marshal(any) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmarshal gives errors.ErrUnsupported.
func Unmarshal([]byte, any) error { return errors.ErrUnsupported }
