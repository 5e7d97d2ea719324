package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
)

// document is one configuration file on its way into Go values. Everything it
// finds wrong goes into its report; callers go on after a problem, so that the
// writer of the file hears of all of them at once.
type document struct {
	*report
	path  string                 // absolute
	root  *value                 // nil if the file could not be read at all
	files map[string]fs.FileInfo // what was read, see Config.Files
}

// readDocument reads the file at path. Without env variables stay as they are written.
func readDocument(path string, env func(string) (string, bool)) *document {
	doc := &document{report: &report{file: path}, path: path, files: map[string]fs.FileInfo{}}
	if abs, err := filepath.Abs(path); err == nil {
		doc.path = abs
	}
	data, info, err := readRegular(path, maxFileBytes)
	doc.files[doc.path] = info
	doc.read(data, err, env)
	return doc
}

// read makes the tree of data, or reports err, which came with it.
func (doc *document) read(data []byte, err error, env func(string) (string, bool)) {
	if err == nil {
		data, err = cleanSource(data)
	}
	if err != nil {
		doc.add(position{}, "", "%v", err)
		return
	}
	if body := doc.parse(data); body != nil {
		doc.root = (&builder{report: doc.report, env: env, anchors: map[string]*value{}}).build(body, "")
	}
}

// into decodes the whole document over the defaults that a variable, whose pointer it
// gets, already holds.
func (doc *document) into(variable any) {
	doc.decode(doc.root, reflect.ValueOf(variable).Elem(), "", rules{})
}

// wrong reports what is wrong with a value after decoding. Where the key is
// not in the file, its nearest parent is the place.
func (doc *document) wrong(key, format string, args ...any) {
	if doc.follows(key) {
		return
	}
	at, _ := doc.root.locate(key)
	doc.problems = append(doc.problems, doc.problem(at, key, doc.hidden(fmt.Sprintf(format, args...))))
}

// warn notes what may be meant and is doubtful.
func (doc *document) warn(key, format string, args ...any) {
	at, _ := doc.root.locate(key)
	doc.warnings = append(doc.warnings, doc.problem(at, key, doc.hidden(fmt.Sprintf(format, args...))))
}

// invalid reports the errors that a section's own Validate gave. Each names
// its key, relative to the section, by a method Field.
func (doc *document) invalid(section string, err error) {
	for _, one := range flatten(err) {
		key := section
		if named, ok := errors.AsType[interface {
			error
			Field() string
		}](one); ok {
			key = joinField(section, named.Field())
		}
		doc.wrong(key, "%v", one)
	}
}

// joinField puts a field of an error under its section; either may be empty, and a field
// may begin with an index.
func joinField(section, field string) string {
	if field == "" || section == "" || field[0] == '[' {
		return section + field
	}
	return section + "." + field
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}

// has tells whether the file itself says something at key, a default aside.
func (doc *document) has(key string) bool {
	_, found := doc.root.locate(key)
	return found != nil
}

// Read reads another YAML file as strictly as the configuration into a pointer, by the
// tags of its structs. Variables stay as they are written. The error is a Problems.
func Read(path string, into any) error {
	doc := readDocument(path, nil)
	doc.into(into)
	return doc.err()
}
