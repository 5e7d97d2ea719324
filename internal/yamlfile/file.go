// Package yamlfile reads a YAML 1.2 file strictly into structs, by the tags of their fields. It
// reports every mistake of the file in one run, each with its line and key.
package yamlfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
)

// File is a file that is being decoded. It collects problems and goes on, so that one run reports all of them.
type File struct {
	report
	Path       string      // absolute
	Info       fs.FileInfo // from just before it was read; nil if it could not be read
	Root       *yaml.Node  // the tree, without the values that were reported; nil if it could not be read
	env        func(string) (string, bool)
	written    map[*yaml.Node]string // scalars that name variables, as the file has them
	unexpanded map[*yaml.Node]bool   // scalars with a variable that is not set or is misspelt
}

// maxFileBytes bounds a file. A large one with two mapped endpoints has about 10 KiB.
const maxFileBytes = 256 << 10

// Open reads the file at path. Variables such as ${NAME} are looked up in env; if env is nil, they
// stay as they are written.
func Open(path string, env func(string) (string, bool)) *File {
	doc := newFile(path, env)
	if abs, err := filepath.Abs(path); err == nil {
		doc.Path = abs
	}
	data, info, err := setting.ReadRegular(path, maxFileBytes)
	if doc.Info = info; err != nil {
		doc.reportAndSuppress(position{}, "", "%v", err)
		return doc
	}
	doc.load(data)
	return doc
}

// Parse reads data as the file of that name.
func Parse(name string, data []byte, env func(string) (string, bool)) *File {
	doc := newFile(name, env)
	doc.load(data)
	return doc
}

func newFile(name string, env func(string) (string, bool)) *File {
	return &File{
		report: report{file: name, suppressed: map[string]bool{}, above: map[string]bool{}},
		Path:   name, env: env, written: map[*yaml.Node]string{}, unexpanded: map[*yaml.Node]bool{},
	}
}

// Read decodes the file at path into the variable that into points to. Variables stay as they are written. The error is a
// setting.Problems.
func Read(path string, into any) error {
	doc := Open(path, nil)
	doc.Decode(into)
	return doc.Err()
}

// Decode reads a text into the variable that into points to, over the defaults that it already
// holds. The error is a setting.Problems.
func Decode(text string, into any) error {
	doc := Parse("yaml", []byte(text), nil)
	doc.Decode(into)
	return doc.Err()
}

// Decode decodes the file over the defaults that the variable already holds.
func (doc *File) Decode(into any) {
	doc.decode(doc.Root, reflect.ValueOf(into).Elem(), "", Rules{})
}

// Errorf reports a problem of a decoded value, unless the key is suppressed. If the key is not in the
// file, the position is that of its nearest parent.
func (doc *File) Errorf(key, format string, args ...any) {
	if !doc.Suppressed(key) {
		at, _ := doc.locate(key)
		doc.report.report(at, key, doc.hidden(fmt.Sprintf(format, args...)))
	}
}

// FileErrorf reports a problem of the file as a whole.
func (doc *File) FileErrorf(format string, args ...any) {
	doc.reportAndSuppress(position{}, "", format, args...)
}

// Warn adds a warning.
func (doc *File) Warn(key, format string, args ...any) {
	at, _ := doc.locate(key)
	doc.warnings = append(doc.warnings, doc.problem(at, key, doc.hidden(fmt.Sprintf(format, args...))))
}

// Invalid reports the error of a section's Validate: a setting.Problems with keys relative to the section, or any other
// error, which is reported at the section.
func (doc *File) Invalid(section string, err error) {
	problems, ok := errors.AsType[setting.Problems](err)
	if !ok && err != nil {
		problems.Add("", "%v", err)
	}
	for _, one := range problems {
		doc.Errorf(Join(section, one.Key), "%s", one.Message)
	}
}

// At returns the value of a key such as a.b[2].c, or nil if the file does not have it.
func (doc *File) At(key string) *yaml.Node {
	_, n := doc.locate(key)
	return n
}

// Line returns the line, from 1, of a key or of its nearest parent in the file.
func (doc *File) Line(key string) int {
	at, _ := doc.locate(key)
	return at.line
}

// Child returns the value of a key of a mapping, or nil. n may be nil.
func Child(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// IsNull reports whether a value is left out, ~ or null.
func IsNull(n *yaml.Node) bool { return n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// locate returns the value at a path such as a.b[2].c and its position: the key's if the value is a mapping or a list,
// else the value's. If the file does not have the path, n is nil and the position is that of the nearest parent. Keys may
// contain dots, so the longest one that fits is taken.
func (doc *File) locate(path string) (at position, n *yaml.Node) {
	at, n = position{1, 1}, doc.Root
	for path != "" && n != nil {
		path = strings.TrimPrefix(path, ".")
		if n.Kind == yaml.SequenceNode {
			number, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
			i, err := strconv.Atoi(number)
			if err != nil || i < 0 || i >= len(n.Content) {
				return at, nil
			}
			n, path = n.Content[i], rest
			at = placeOf(n)
			continue
		}
		best := -1
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if (path == key || Under(path, key)) && (best < 0 || len(key) > len(n.Content[best].Value)) {
				best = i
			}
		}
		if best < 0 {
			return at, nil
		}
		key, value := n.Content[best], n.Content[best+1]
		if at = placeOf(key); value.Kind == yaml.ScalarNode {
			at = placeOf(value)
		}
		n, path = value, path[len(key.Value):]
	}
	return at, n
}

func placeOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// Join appends a key or a path to a path. Either may be empty, and key may begin with an index.
func Join(path, key string) string {
	if path == "" || key == "" || key[0] == '[' {
		return path + key
	}
	return path + "." + key
}

// Item appends an index to a path.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Under reports whether the path a lies below the path b.
func Under(a, b string) bool {
	rest, ok := strings.CutPrefix(a, b)
	return ok && (b == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// Written returns a scalar as the file has it, if it names variables.
func (doc *File) Written(n *yaml.Node) (text string, ok bool) {
	text, ok = doc.written[n]
	return text, ok
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*\}?)`)
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\}$`)

// expand replaces the environment variables in a scalar: ${NAME} by the value of NAME, $${ by a literal ${.
// It works on the parsed value, so the value of a variable cannot add keys, and is not expanded itself.
func (doc *File) expand(n *yaml.Node, path string) {
	var wrong string
	text := variable.ReplaceAllStringFunc(n.Value, func(written string) string {
		if strings.HasPrefix(written, "$$") {
			return written[1:]
		}
		name := strings.TrimSuffix(written[2:], "}")
		content, set := doc.env(name)
		switch {
		case wrong != "":
		case !variableName.MatchString(written[2:]):
			wrong = fmt.Sprintf("%q is no variable; write ${NAME}, or $${ for a literal ${", shorten(written))
		case !set:
			wrong = fmt.Sprintf("the environment variable %s is not set; set it, or write $${%s} for the literal text", name, name)
		}
		doc.hide(content, written)
		return content
	})
	if wrong != "" {
		doc.reportAndSuppress(placeOf(n), path, "%s", wrong)
		doc.unexpanded[n] = true
	}
	doc.hide(text, n.Value)
	doc.written[n], n.Value = n.Value, text
}
