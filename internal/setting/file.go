package setting

import (
	"fmt"
	"strings"
)

// File is a file that a configuration names, with its content. The configuration
// reads it, at the start and at each reload; others get its text. Two are equal if
// name and content are. Printing one shows the name and never the content. The
// zero value is no file.
type File struct{ path, text string }

// NewFile is a file at path that holds text.
func NewFile(path, text string) File { return File{path, text} }

// Path is the file's name; empty: none is named.
func (f File) Path() string { return f.path }

// Set tells whether a file is named.
func (f File) Set() bool { return f.path != "" }

// Text is the whole content.
func (f File) Text() string { return f.text }

// Secret is the content without the line end that editors put there.
func (f File) Secret() string { return strings.TrimRight(f.text, "\r\n") }

// UnmarshalText takes the file's name. The content is read by the configuration.
func (f *File) UnmarshalText(path []byte) error {
	*f = File{path: string(path)}
	return nil
}

// MarshalText gives the name.
func (f File) MarshalText() ([]byte, error) { return []byte(f.path), nil }

// Format prints the name for every verb.
func (f File) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, f.path) }
