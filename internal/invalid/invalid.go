// Package invalid says what is wrong with a configuration, and at which key.
package invalid

import (
	"errors"
	"fmt"
	"time"
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

// Within notes a duration that is not in the range.
func (p *Problems) Within(field string, d, least, most time.Duration) {
	if d < least || d > most {
		p.Add(field, "is %v: use %v to %v", d, least, most)
	}
}

// Err joins the mistakes. It is nil where there are none.
func (p Problems) Err() error { return errors.Join(p...) }
