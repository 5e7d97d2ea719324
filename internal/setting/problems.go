// Package setting has what the sections of a configuration have in common: the mistakes in them,
// each with its key, and the files that they name, with what these contain.
package setting

import (
	"fmt"
	"reflect"
	"strings"
)

// Problem is one thing that is wrong, or with a warning doubtful, in a file. Who checks a section
// that is no file any more knows the key in it; who reads the file adds the place.
type Problem struct {
	File    string `json:"-"`                // as it was given to who read it; empty: there is no place
	Line    int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column  int    `json:"column,omitempty"` // from 1; 0: the line as a whole
	Key     string `json:"key,omitempty"`    // path such as upstream.buyer.fields.title; may be empty
	Message string `json:"message"`          // what is wrong and what to do about it; holds no secret
}

// Error gives the problem on one line: file:line:column: key: message.
func (p Problem) Error() string {
	var parts []string
	if p.File != "" {
		place := p.File
		for _, n := range []int{p.Line, p.Column} {
			if n == 0 {
				break
			}
			place += fmt.Sprintf(":%d", n)
		}
		parts = append(parts, place)
	}
	if p.Key != "" {
		parts = append(parts, p.Key)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// Problems collects what is wrong, so that one check shows all of it. Its zero value is ready
// for use, by one goroutine. It is an error only where there are any.
type Problems []Problem

// Add notes a mistake at a key.
func (p *Problems) Add(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

// AddIf is Add where bad holds.
func (p *Problems) AddIf(bad bool, key, format string, args ...any) {
	if bad {
		p.Add(key, format, args...)
	}
}

// Err is nil where there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error gives one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// IsSet tells whether any key of a section has a value, so that a section that lacks a required key
// is reported, not ignored. An empty list is no value: a configuration that is written out in full
// has such lists.
func IsSet(section any) bool { return isSet(reflect.ValueOf(section)) }

// isSet is false for zero values, and for lists and maps without elements.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid: // nil of an interface
		return false
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Struct:
		for _, inner := range v.Fields() {
			if isSet(inner) {
				return true
			}
		}
		return false
	}
	return !v.IsZero()
}
