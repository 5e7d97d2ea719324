// Package setting has what the sections of a configuration have in common: the mistakes in them,
// each with its key, and the files that they name, with what these contain.
package setting

import (
	"errors"
	"fmt"
	"reflect"
)

// Error is one mistake at one key. Its text says what is wrong and what to do,
// without the key.
type Error struct{ field, text string }

// Error gives the text.
func (e *Error) Error() string { return e.text }

// Field is the key's path in its section, such as buyer.fields.title.
func (e *Error) Field() string { return e.field }

// Problems collects mistakes, so that one check shows all of them. Its zero value
// is ready for use, by one goroutine.
type Problems []error

// Add notes a mistake at field.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, &Error{field, fmt.Sprintf(format, args...)})
}

// AddIf is Add where bad holds.
func (p *Problems) AddIf(bad bool, field, format string, args ...any) {
	if bad {
		p.Add(field, format, args...)
	}
}

// Err joins the mistakes. It is nil where there are none.
func (p Problems) Err() error { return errors.Join(p...) }

// Says tells whether any key of a section says something, so that one that lacks what
// it needs is found, not ignored. A list without elements says nothing: a configuration
// that is written out in full has such.
func Says(section any) bool { return says(reflect.ValueOf(section)) }

// says is false for zero values, and for lists and maps without elements.
func says(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid: // nil of an interface
		return false
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Struct:
		for _, inner := range v.Fields() {
			if says(inner) {
				return true
			}
		}
		return false
	}
	return !v.IsZero()
}
