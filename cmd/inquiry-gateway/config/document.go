package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/internal/invalid"
)

// document is one configuration file on its way into Go values. Everything it
// finds wrong goes into its report; callers go on after a problem, so that the
// writer of the file hears of all of them at once.
type document struct {
	*report
	path string   // absolute
	root ast.Node // resolved; nil if the file could not be read at all
	// written is root with the variables as they are written, for what is shown.
	written ast.Node
}

// readDocument reads the file at path. Without env variables stay as they are written.
func readDocument(path string, env func(string) (string, bool)) *document {
	doc := &document{report: &report{file: path}, path: path}
	if abs, err := filepath.Abs(path); err == nil {
		doc.path = abs
	}
	data, _, err := readRegular(path, maxFileBytes)
	doc.read(data, err, env)
	return doc
}

// read makes the two trees of data, or reports err, which came with it.
func (doc *document) read(data []byte, err error, env func(string) (string, bool)) {
	if err == nil {
		data, err = cleanSource(data)
	}
	if err != nil {
		doc.add(position{}, "", "%v", err)
		return
	}
	body := doc.parse(data)
	if body == nil {
		return
	}
	doc.root = newResolver(doc.report, env).resolve(body, "")
	doc.written = newResolver(&report{}, nil).resolve(body, "")
}

// decode puts the file over the defaults that into, a pointer to a struct,
// already holds.
func (doc *document) decode(into any) {
	d := &decoder{doc.report}
	d.decode(doc.root, reflect.ValueOf(into).Elem(), "")
}

// wrong reports what is wrong with a value after decoding. Where the key is
// not in the file, its nearest parent is the place.
func (doc *document) wrong(key, format string, args ...any) {
	if doc.follows(key) {
		return
	}
	at, _ := locate(doc.root, key)
	doc.problems = append(doc.problems, doc.problem(at, key, fmt.Sprintf(format, args...)))
}

// warn notes what may be meant and is doubtful.
func (doc *document) warn(key, format string, args ...any) {
	at, _ := locate(doc.root, key)
	doc.warnings = append(doc.warnings, doc.problem(at, key, fmt.Sprintf(format, args...)))
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
	_, found := locate(doc.root, key)
	return found
}

// Read reads another YAML file as strictly as the configuration into a pointer:
// keys by their yaml tags, texts by their enum tags. Variables stay as they are
// written. The error is a Problems.
func Read(path string, into any) error {
	return readDocument(path, nil).into(into)
}

// into decodes the whole document, and checks its texts against their enum tags, which
// no package does for what is no configuration.
func (doc *document) into(into any) error {
	if doc.root == nil {
		return doc.err()
	}
	doc.decode(into)
	var enums invalid.Problems
	enums.Enums("", into)
	doc.invalid("", enums.Err())
	return doc.err()
}
