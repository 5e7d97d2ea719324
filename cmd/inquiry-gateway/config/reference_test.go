package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/secretfile"
)

var update = flag.Bool("update", false, "write docs/configuration.md and cmd/inquiry-gateway/config/config.schema.json")

// The page of all keys is made of the structs, of their comments and of notLive.
func TestReferenceIsUpToDate(t *testing.T) {
	upToDate(t, "../../../docs/configuration.md", reference(t))
}

// upToDate compares a generated file, and writes it first with -update.
func upToDate(t *testing.T, file, want string) {
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what the structs say (%v); run: go generate ./cmd/inquiry-gateway/config", file, err)
	}
}

const referenceHead = `# All keys of the configuration

This page is made from the program's own structs; do not edit it. [The example](../cmd/inquiry-gateway/config/testdata/example.yaml) shows
how they look in a file. ` + "`inquiry-gateway check`" + ` tells what a file says, defaults included.

Durations are written 500ms, 30s or 1h30m; sizes 4KiB, 16MiB or a number of bytes. A file is named from the folder of the configuration file.
The last column says after what a change counts: a reload, which follows by itself when a file changes, or a restart. What is below a section
counts with it.
`

// reference writes the page.
func reference(t *testing.T) string {
	r := &referenceWriter{comments: comments{}, seen: map[reflect.Type]string{}}
	r.WriteString(referenceHead)
	config := reflect.ValueOf(Default())
	r.table("The file itself")
	for _, f := range fieldsOf(config.Type()) {
		if value := config.FieldByIndex(f.index); !hasKeys(value.Type()) {
			r.key(t, f.key, value, r.comment(t, config.Type(), f))
		}
	}
	for _, f := range fieldsOf(config.Type()) {
		if value := config.FieldByIndex(f.index); hasKeys(value.Type()) {
			r.table(f.key)
			r.keys(t, f.key, value)
		}
	}
	return r.String()
}

type referenceWriter struct {
	strings.Builder
	comments comments
	seen     map[reflect.Type]string // the key at which a section was written
}

func (r *referenceWriter) table(name string) {
	fmt.Fprintf(r, "\n## %s\n\n| key | value | default | what it is | a change counts after a |\n|---|---|---|---|---|\n", name)
}

// keys writes one row for each key of a section and of those below it.
func (r *referenceWriter) keys(t *testing.T, path string, section reflect.Value) {
	r.seen[section.Type()] = path
	for _, f := range fieldsOf(section.Type()) {
		r.key(t, join(path, f.key), section.FieldByIndex(f.index), r.comment(t, section.Type(), f))
	}
}

func (r *referenceWriter) key(t *testing.T, path string, v reflect.Value, comment string) {
	inner, key := below(v), path
	switch v.Type().Kind() {
	case reflect.Map:
		key += ".*"
	case reflect.Slice:
		key += "[]"
	}
	first, repeated := "", false
	if inner.IsValid() {
		first, repeated = r.seen[inner.Type()]
	}
	if repeated {
		comment = strings.TrimPrefix(comment+"; the keys of `"+first+"`", "; ")
	}
	fmt.Fprintf(r, "| `%s` | %s | %s | %s | %s |\n", path, form(path, v.Type()), shownDefault(v), comment, effectOf(path))
	if inner.IsValid() && !repeated {
		r.keys(t, key, inner)
	}
}

// hasKeys tells whether a type has keys of its own.
func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0
}

// below gives the section that a key holds, itself or in a list or mapping, with
// its defaults.
func below(v reflect.Value) reflect.Value {
	if hasKeys(v.Type()) {
		return v
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if inner := v.Type().Elem(); hasKeys(inner) {
			value := reflect.New(inner)
			if custom, ok := value.Interface().(unmarshaler); ok {
				_ = custom.UnmarshalYAML(func(any) error { return nil }) // leaves the defaults
			}
			return value.Elem()
		}
	}
	return reflect.Value{}
}

// form names a type in the words of the file's writer.
func form(path string, t reflect.Type) string {
	custom := reflect.PointerTo(t).Implements(reflect.TypeFor[unmarshaler]())
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[secretfile.File](), strings.HasSuffix(path, "_file"):
		return "file"
	case t.Kind() == reflect.Pointer:
		return form("", t.Elem())
	case t.Kind() == reflect.Interface:
		return "any value"
	case t.Kind() == reflect.Slice && custom:
		return form("", t.Elem()) + " or a list of them"
	case t.Kind() == reflect.Slice:
		return "list of " + form("", t.Elem()) + "s"
	case t.Kind() == reflect.Map && hasKeys(t.Elem()):
		return "mapping of sections"
	case t.Kind() == reflect.Map:
		return "mapping of " + form("", t.Elem()) + "s"
	case hasKeys(t) && t.Name() == "Field":
		return "path, or section"
	case hasKeys(t):
		return "section"
	case t.Kind() == reflect.Int64:
		return "size"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String, custom:
		return "text"
	}
	return "number"
}

func shownDefault(v reflect.Value) string {
	switch shown := view(v, nil, "").(type) {
	case string:
		if shown != "" {
			return "`" + shown + "`"
		}
	case bool, int, int64, float64, uint64:
		return fmt.Sprintf("`%v`", shown)
	}
	return ""
}

// comment gives the first sentence of what is written at a field, as Markdown.
func (r *referenceWriter) comment(t *testing.T, owner reflect.Type, f field) string {
	text, name := r.comments.of(t, owner, f)
	text = strings.TrimSuffix(new(doc.Package).Synopsis(text), ".")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "{", "`{", "}", "}`").Replace(withoutName(text, name))
}

// withoutName takes the field's name off the front of its comment.
func withoutName(text, name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(text, name+" "), "is ")
}

// comments are the comments of structs, by folder and Type.Field.
type comments map[string]map[string]string

// of gives what is written at a field, and the field's name.
func (c comments) of(t *testing.T, owner reflect.Type, f field) (text, name string) {
	for _, i := range f.index[:len(f.index)-1] {
		owner = owner.Field(i).Type
	}
	name = owner.Field(f.index[len(f.index)-1]).Name
	dir := filepath.Join("../../..", strings.TrimPrefix(owner.PkgPath(), "inquiry-gateway/"))
	if c[dir] == nil {
		c[dir] = fieldComments(t, dir)
	}
	return c[dir][owner.Name()+"."+name], name
}

// fieldComments reads the comments of the structs of a package.
func fieldComments(t *testing.T, dir string) map[string]string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						comments[spec.Name.Name+"."+name.Name] = f.Doc.Text() + f.Comment.Text()
					}
				}
			}
			return false
		})
	}
	return comments
}
