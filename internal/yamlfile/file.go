// Package yamlfile reads a YAML file strictly into structs: by the tags of their fields,
// with each mistake at its line, and all of them in one run.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/internal/setting"
)

// File is one file on its way into Go values. Everything it finds wrong goes into its
// report, and callers go on, so that all problems are told at once.
type File struct {
	*builder
	Path string      // absolute
	Info fs.FileInfo // as it was just before it was read; nil: it could not be
	Root *Value      // nil if the file could not be read at all
}

func newFile(name string) *File {
	return &File{builder: &builder{report: &report{file: name}}, Path: name}
}

// Open reads the file at path. Variables such as ${NAME} are looked up in env; without it
// they stay as they are written.
func Open(path string, env func(string) (string, bool)) *File {
	doc := newFile(path)
	if abs, err := filepath.Abs(path); err == nil {
		doc.Path = abs
	}
	data, info, err := ReadRegular(path, maxFileBytes)
	doc.Info = info
	doc.read(data, err, env)
	return doc
}

// Parse reads a text as the file of that name.
func Parse(name, text string, env func(string) (string, bool)) *File {
	doc := newFile(name)
	doc.read([]byte(text), nil, env)
	return doc
}

// Decode reads a text into a variable, whose pointer it gets, over the defaults that it
// already holds. The error is a setting.Problems.
func Decode(text string, into any) error {
	doc := Parse("yaml", text, nil)
	doc.Decode(into)
	return doc.Err()
}

// read makes the tree of data, or reports err, which came with it.
func (doc *File) read(data []byte, err error, env func(string) (string, bool)) {
	if err == nil {
		data, err = cleanSource(data)
	}
	if err != nil {
		doc.add(position{}, "", "%v", err)
		return
	}
	doc.env = env
	if body := doc.parse(data, 0); body != nil {
		doc.Root = doc.build(body, "")
	}
}

// Extend reads more items of the list at a key of the document: those of a list that stands in
// the file after so many lines, where the document itself has nothing. It returns how many they
// are. So a large file can be read in parts: the parser takes a hundred times the size of its text.
func (doc *File) Extend(key, text string, before int) (items int) {
	data, err := cleanSource([]byte(text))
	if err != nil {
		doc.add(position{before + 1, 1}, key, "%v", err)
		return 0
	}
	body, ok := doc.parse(data, before).(*ast.SequenceNode)
	list := doc.Root.Child(key)
	if !ok || list == nil || list.Kind == Scalar || list.Kind == Section || list.Kind == List && before <= list.at.line {
		return 0
	}
	if list.Kind == Null {
		*list = Value{Kind: List, at: placeOf(body.Start)}
	}
	for _, one := range body.Values {
		list.Items = append(list.Items, doc.build(one, Item(key, len(list.Items))))
	}
	return len(body.Values)
}

// Decode decodes the whole document over the defaults that a variable, whose pointer it
// gets, already holds.
func (doc *File) Decode(variable any) {
	doc.decode(doc.Root, reflect.ValueOf(variable).Elem(), "", Rules{})
}

// Wrong reports what is wrong with a value after decoding. Where the key is
// not in the file, its nearest parent is the place.
func (doc *File) Wrong(key, format string, args ...any) {
	if doc.Follows(key) {
		return
	}
	at, _ := doc.Root.locate(key)
	doc.note(at, key, doc.hidden(fmt.Sprintf(format, args...)))
}

// WrongAt reports what is wrong with what stands in a line, from 1, or with the file as a whole, 0.
func (doc *File) WrongAt(line int, key, format string, args ...any) {
	if !doc.Follows(key) {
		doc.add(position{line, 1}, key, format, args...)
	}
}

// Line is where a key stands in the file, or its nearest parent, from 1.
func (doc *File) Line(key string) int {
	at, _ := doc.Root.locate(key)
	return at.line
}

// Warn reports what is doubtful.
func (doc *File) Warn(key, format string, args ...any) {
	at, _ := doc.Root.locate(key)
	doc.warnings = append(doc.warnings, doc.problem(at, key, doc.hidden(fmt.Sprintf(format, args...))))
}

// Invalid reports what a section's own Validate found, a setting.Problems with keys relative to
// the section, or says of the section what else went wrong.
func (doc *File) Invalid(section string, err error) {
	problems, ok := errors.AsType[setting.Problems](err)
	if !ok && err != nil {
		problems.Add("", "%v", err)
	}
	for _, one := range problems {
		doc.Wrong(Join(section, one.Key), "%s", one.Message)
	}
}

// Has tells whether the file itself has the key.
func (doc *File) Has(key string) bool {
	_, found := doc.Root.locate(key)
	return found != nil
}

// maxFileBytes bounds a file. A large one with two mapped
// endpoints has about 10 KiB.
const maxFileBytes = 256 << 10

// StatRegular refuses what is no regular file: a reload reads it again.
func StatRegular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fileError{err}
	case info.IsDir():
		return nil, errors.New("is a folder; name a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file; it must be one, because it is read again at a reload")
	}
	return info, nil
}

// ReadRegular reads a regular file of at most that many bytes.
func ReadRegular(path string, most int64) ([]byte, fs.FileInfo, error) {
	// Stat before open: opening a named pipe would wait for its writer.
	info, err := StatRegular(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileError{err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, nil, fileError{err}
	}
	if int64(len(data)) > most {
		return nil, nil, fmt.Errorf("is larger than %d KiB; is this the right file?", most>>10)
	}
	return data, info, nil
}

// cleanSource takes off a byte order mark and refuses what is no text.
func cleanSource(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text; save it as UTF-8")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("holds a NUL byte; is this the right file?")
	}
	return data, nil
}

// fileError is an error of the file system in plain words, without the path.
type fileError struct{ error }

// Unwrap gives the error itself, with the path.
func (e fileError) Unwrap() error { return e.error }

// Error says what to do.
func (e fileError) Error() string {
	switch {
	case errors.Is(e.error, fs.ErrNotExist):
		return "no such file; check the path"
	case errors.Is(e.error, fs.ErrPermission):
		return "may not be read by this user; check its mode and owner"
	}
	if pathErr, ok := errors.AsType[*fs.PathError](e.error); ok {
		return "cannot be read: " + pathErr.Err.Error()
	}
	return "cannot be read: " + e.error.Error()
}
