// Package validator stands for the check of what gin binds to structs, which the
// gateway does not do.
package validator

import "errors"

// Validate refuses everything.
type Validate struct{}

// New gives a Validate.
func New() *Validate { return &Validate{} }

// SetTagName does nothing.
func (*Validate) SetTagName(string) {}

// Struct gives errors.ErrUnsupported.
func (*Validate) Struct(any) error { return errors.ErrUnsupported }
