package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

const referenceHead = `# All keys of the configuration

Generated from the source; do not edit. [The example](../cmd/inquiry-gateway/config/testdata/example.yaml) shows
the keys in a file; ` + "`inquiry-gateway check --print`" + ` prints a configuration with its defaults.

Durations are written 500ms, 30s or 1h30m; sizes 4KiB, 16MiB or a number of bytes. Relative file names start at the folder of the configuration file.
The last column says when a changed value applies: after a reload, which happens by itself when a file changes, or after a restart. It also holds for
all keys below a section.
`

// referenceWriter makes the page of all keys.
type referenceWriter struct {
	strings.Builder
	fieldComments comments
	seen          map[reflect.Type]string // the key at which a section was written
}

func makeReference(fieldComments comments) []byte {
	w := &referenceWriter{fieldComments: fieldComments, seen: map[reflect.Type]string{}}
	w.WriteString(referenceHead)
	root := reflect.ValueOf(config.Default())
	w.table("Top level", "keys outside a section.")
	for _, f := range yamlfile.FieldsOf(root.Type()) {
		if value := root.FieldByIndex(f.Index); !yamlfile.HasKeys(value.Type()) {
			w.key(root.Type(), f.Key, value, f)
		}
	}
	for _, f := range yamlfile.FieldsOf(root.Type()) {
		if value := root.FieldByIndex(f.Index); yamlfile.HasKeys(value.Type()) {
			w.table(f.Key, fieldComments.of(root.Type(), f))
			w.keys(f.Key, value)
		}
	}
	return []byte(w.String())
}

// table begins that of a section.
func (w *referenceWriter) table(name, text string) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n| key | value | default | meaning | applies after a |\n|---|---|---|---|---|\n", name, text)
}

// keys writes one row for each key of a section and of those below it.
func (w *referenceWriter) keys(path string, section reflect.Value) {
	w.seen[section.Type()] = path
	for _, f := range yamlfile.FieldsOf(section.Type()) {
		w.key(section.Type(), yamlfile.Join(path, f.Key), section.FieldByIndex(f.Index), f)
	}
}

func (w *referenceWriter) key(owner reflect.Type, path string, v reflect.Value, f yamlfile.Field) {
	text := strings.TrimSuffix(w.fieldComments.of(owner, f), ".")
	inner, first, repeated := yamlfile.InnerSection(v), "", false
	if inner.IsValid() {
		if first, repeated = w.seen[inner.Type()]; repeated {
			text += "; the keys of `" + first + "`"
		}
	}
	normal := ""
	if shown := defaultOf(v); shown != nil {
		normal = fmt.Sprintf("`%v`", shown)
	}
	fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n", path, formOf(v.Type(), f.Rules), normal, markdown.Replace(text), config.EffectOf(path))
	if inner.IsValid() && !repeated {
		w.keys(path+map[reflect.Kind]string{reflect.Map: ".*", reflect.Slice: "[]"}[v.Kind()], inner)
	}
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "{", "`{", "}", "}`")

// formOf names a type in the words of the file's writer, with the bounds of its values.
func formOf(t reflect.Type, r yamlfile.Rules) string {
	words := "number"
	switch form, _ := r.Form(); {
	case t.Kind() == reflect.Pointer:
		return formOf(t.Elem(), r)
	case t == reflect.TypeFor[time.Duration]():
		words = "duration"
	case t == reflect.TypeFor[setting.File]():
		return "file"
	case yamlfile.IsNullable(t):
		return "text or null"
	case t.Kind() == reflect.Interface:
		return "any value"
	case t.Kind() == reflect.Slice && r.Short() == yamlfile.ShortList:
		return formOf(t.Elem(), r) + " or a list of them"
	case t.Kind() == reflect.Slice:
		return "list of " + plural(formOf(t.Elem(), r))
	case t.Kind() == reflect.Map:
		return "mapping of " + plural(formOf(t.Elem(), yamlfile.Rules{}))
	case r.Short() != "":
		return r.Short() + ", or section"
	case yamlfile.HasKeys(t):
		return "section"
	case r.Enum() != nil:
		return yamlfile.Either(slices.DeleteFunc(r.Enum(), func(s string) bool { return s == "" }))
	case t.Kind() == reflect.Int64:
		words = "size"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		words = cmp.Or(form.Name, "text")
	}
	if bounds := r.Bounds(); bounds != "" {
		words += ", " + bounds
	}
	return words
}

func plural(words string) string {
	one, rest, bounded := strings.Cut(words, ",")
	if bounded {
		rest = "," + rest
	}
	return one + "s" + rest
}
