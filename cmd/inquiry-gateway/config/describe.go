package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

// Comments gives what is written at a field of a struct in the program's source. It begins
// with the field's name.
type Comments func(owner reflect.Type, field string) string

// of gives what is written at a key, without the name.
func (c Comments) of(owner reflect.Type, f yamlfile.Field) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		owner = owner.Field(i).Type
	}
	name := owner.Field(f.Index[len(f.Index)-1]).Name
	text := strings.TrimPrefix(c(owner, name), name+" ")
	for _, verb := range []string{"is ", "are "} {
		text = strings.TrimPrefix(text, verb)
	}
	return strings.Join(strings.Fields(text), " ")
}

// hasKeys tells whether a type has keys of its own.
func hasKeys(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(yamlfile.FieldsOf(t)) > 0 }

// below gives the section that a key holds, itself or in a list or mapping, with its defaults.
func below(v reflect.Value) reflect.Value {
	if hasKeys(v.Type()) {
		return v
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if inner := v.Type().Elem(); hasKeys(inner) {
			return yamlfile.Fresh(inner)
		}
	}
	return reflect.Value{}
}

// node is a part of a schema. It is encoded with its keys sorted.
type node = map[string]any

// describer writes the schema.
type describer struct {
	comments Comments
	defs     node // by the name of the Go type, or of a form
}

// MakeSchema makes the JSON Schema of the file from the structs, their tags and comments.
func MakeSchema(comments Comments) ([]byte, error) {
	d := describer{comments: comments, defs: node{
		"variable": node{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`, "description": "${NAME} is the value of the environment variable NAME."},
		// The file's writer may leave out the quotes of a text that looks like a number.
		"text":     node{"type": []string{"string", "number", "boolean"}},
		"value":    node{"type": []string{"string", "number", "boolean", "null"}},
		"flag":     scalarOr(node{"type": "boolean"}),
		"duration": scalarOr(node{"type": "string", "pattern": `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`}, node{"const": 0}),
		"size":     scalarOr(node{"type": "integer", "minimum": 0}, node{"type": "string", "pattern": `^[0-9]+ *(GiB|MiB|KiB|GB|MB|kB|B)?$`}),
	}}
	root := d.section(reflect.ValueOf(Default()))
	maps.Copy(root, node{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of the inquiry gateway",
		"description": "Made from the program's own structs; do not edit it.", "$defs": d.defs,
	})
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	err := out.Encode(root)
	return []byte(b.String()), err
}

// scalarOr gives the forms of a scalar, for which a variable may stand, too.
func scalarOr(forms ...node) node { return node{"anyOf": append(forms, ref("variable"))} }

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

func listOf(items node) node { return node{"type": []string{"array", "null"}, "items": items} }

func mapOf(values node) node {
	return node{"type": []string{"object", "null"}, "additionalProperties": values}
}

// define describes a section once, under the name of its type.
func (d *describer) define(v reflect.Value) node {
	name := v.Type().String()
	if _, done := d.defs[name]; !done {
		d.defs[name] = node{} // for a section within itself
		d.defs[name] = d.section(v)
	}
	return ref(name)
}

// section describes a struct. A section whose keys are all commented out is null. What it
// shares with others, an embedded struct, is described once.
func (d *describer) section(v reflect.Value) node {
	t := v.Type()
	properties, shared, required := node{}, []node{}, []string{}
	for _, f := range yamlfile.FieldsOf(t) {
		if len(f.Index) > 1 {
			continue
		}
		value := v.FieldByIndex(f.Index)
		key := maps.Clone(d.value(value, f.Rules))
		if text := d.comments.of(t, f); text != "" {
			key["description"] = strings.TrimSuffix(text+" "+sentence(value.Type(), f.Rules), " ")
		}
		if shown := shownDefault(value); shown != nil && shown != "" {
			key["default"] = shown
		}
		properties[f.Key] = key
		if f.Required() != "" && value.IsZero() {
			required = append(required, f.Key)
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Struct && hasKeys(f.Type) && (f.Tag.Get("yaml") == "" || f.Tag.Get("yaml") == ",inline") {
			part := d.define(v.Field(i))
			for _, closed := range []string{"additionalProperties", "unevaluatedProperties"} {
				delete(d.defs[f.Type.String()].(node), closed) // which those who have it are
			}
			shared = append(shared, part)
		}
	}
	shared = append(shared, conditions(t)...)
	out := node{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	if len(shared) > 0 {
		out["allOf"] = shared
		delete(out, "additionalProperties")
		out["unevaluatedProperties"] = false
	}
	return out
}

// conditions are the keys that are needed with each value of the key that decides.
func conditions(t reflect.Type) (all []node) {
	needs := map[string][]string{}
	for _, f := range yamlfile.FieldsOf(t) {
		selector, values := f.With()
		for _, value := range values {
			if value, needed := strings.CutSuffix(value, "!"); needed {
				needs[selector+"="+value] = append(needs[selector+"="+value], f.Key)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		selector, value, _ := strings.Cut(name, "=")
		all = append(all, node{
			"if":   node{"type": "object", "required": []string{selector}, "patternProperties": node{"^" + selector + "$": node{"const": value}}},
			"then": node{"required": needs[name]},
		})
	}
	return all
}

// sentence says the bounds that a schema cannot, of what may be written in several units.
func sentence(t reflect.Type, r yamlfile.Rules) string {
	words := r.Bounds()
	if words == "" || t.Kind() != reflect.Int64 && !(t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Int64) {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:] + "."
}

// value describes a value of the file.
func (d *describer) value(v reflect.Value, r yamlfile.Rules) node {
	t, inner := v.Type(), below(v)
	if _, null := reflect.New(t).Interface().(yamlfile.Nullable); null {
		return ref("value")
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return ref("duration")
	case t == reflect.TypeFor[setting.File]():
		return ref("text")
	case inner.IsValid() && t.Kind() == reflect.Map:
		return mapOf(d.define(inner))
	case inner.IsValid() && t.Kind() == reflect.Slice:
		return listOf(d.define(inner))
	case inner.IsValid() && r.Short() != "":
		return node{"if": node{"type": []string{"object", "null"}}, "then": d.define(inner), "else": d.shortForm(inner.Type(), r.Short())}
	case inner.IsValid():
		return d.define(inner)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.value(reflect.New(t.Elem()).Elem(), r)
	case reflect.Map:
		return mapOf(d.value(reflect.New(t.Elem()).Elem(), yamlfile.Rules{}))
	case reflect.Slice:
		items := d.value(reflect.New(t.Elem()).Elem(), r)
		if r.Short() == yamlfile.ShortList {
			return node{"if": node{"type": []string{"array", "null"}}, "then": listOf(items), "else": items}
		}
		return listOf(items)
	case reflect.Interface:
		return node{}
	}
	return d.scalar(t, r)
}

// shortForm is what may stand for a section: the value of one of its keys.
func (d *describer) shortForm(t reflect.Type, key string) node {
	for _, f := range yamlfile.FieldsOf(t) {
		if f.Key == key {
			return d.value(reflect.New(t.FieldByIndex(f.Index).Type).Elem(), f.Rules)
		}
	}
	return node{}
}

// scalar describes a single value with its bounds.
func (d *describer) scalar(t reflect.Type, r yamlfile.Rules) node {
	v := reflect.New(t).Elem()
	switch {
	case t.Kind() == reflect.String && r.Enum() != nil:
		words := []any{}
		for _, word := range r.Enum() {
			if words = append(words, word); word == "true" || word == "false" {
				words = append(words, word == "true") // as YAML reads it without quotes
			}
		}
		return scalarOr(node{"enum": words})
	case t.Kind() == reflect.String:
		if form, _ := r.Form(); form.Pattern != "" {
			return scalarOr(node{"type": []string{"string", "number", "boolean"}, "pattern": form.Pattern})
		}
		return ref("text")
	case t.Kind() == reflect.Int64:
		return ref("size")
	case t.Kind() == reflect.Bool:
		return ref("flag")
	}
	number := node{"type": "number"}
	if v.CanInt() || v.CanUint() {
		number["type"] = "integer"
	}
	for keyword, tag := range map[string]string{"minimum": "min", "maximum": "max", "exclusiveMinimum": "above"} {
		if bound := r.Bound(tag, t); !math.IsNaN(bound) {
			number[keyword] = bound
		}
	}
	if _, zero := r.Tags.Lookup("zero"); zero {
		return scalarOr(number, node{"const": 0})
	}
	return scalarOr(number)
}

// shownDefault gives a default as the file would hold it; nil: there is none.
func shownDefault(v reflect.Value) any {
	switch shown := view(v, nil, yamlfile.Field{}).(type) {
	case string, bool, int, int64, float64, uint64:
		return shown
	}
	return nil
}

const referenceHead = `# All keys of the configuration

This page is made from the program's own structs; do not edit it. [The example](../cmd/inquiry-gateway/config/testdata/example.yaml) shows
how they look in a file. ` + "`inquiry-gateway check --print`" + ` tells what a file says, defaults included.

Durations are written 500ms, 30s or 1h30m; sizes 4KiB, 16MiB or a number of bytes. A file is named from the folder of the configuration file.
The last column says after what a change counts: a reload, which follows by itself when a file changes, or a restart. What is below a section
counts with it.
`

// MakeReference makes the page of all keys from the structs, their tags and comments, and
// from notLive.
func MakeReference(comments Comments) []byte {
	r := &referenceWriter{comments: comments, seen: map[reflect.Type]string{}}
	r.WriteString(referenceHead)
	config := reflect.ValueOf(Default())
	r.table("The file itself")
	r.WriteString("what stands in no section.\n")
	r.head()
	for _, f := range yamlfile.FieldsOf(config.Type()) {
		if value := config.FieldByIndex(f.Index); !hasKeys(value.Type()) {
			r.key(config.Type(), f.Key, value, f)
		}
	}
	for _, f := range yamlfile.FieldsOf(config.Type()) {
		if value := config.FieldByIndex(f.Index); hasKeys(value.Type()) {
			r.table(f.Key)
			r.WriteString(comments.of(config.Type(), f) + "\n")
			r.head()
			r.keys(f.Key, value)
		}
	}
	return []byte(r.String())
}

type referenceWriter struct {
	strings.Builder
	comments Comments
	seen     map[reflect.Type]string // the key at which a section was written
}

func (r *referenceWriter) table(name string) { fmt.Fprintf(r, "\n## %s\n\n", name) }

func (r *referenceWriter) head() {
	r.WriteString("\n| key | value | default | what it is | a change counts after a |\n|---|---|---|---|---|\n")
}

// keys writes one row for each key of a section and of those below it.
func (r *referenceWriter) keys(path string, section reflect.Value) {
	r.seen[section.Type()] = path
	for _, f := range yamlfile.FieldsOf(section.Type()) {
		r.key(section.Type(), yamlfile.Join(path, f.Key), section.FieldByIndex(f.Index), f)
	}
}

func (r *referenceWriter) key(owner reflect.Type, path string, v reflect.Value, f yamlfile.Field) {
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
	text := strings.TrimSuffix(r.comments.of(owner, f), ".")
	if repeated {
		text += "; the keys of `" + first + "`"
	}
	value, normal := formOf(path, v.Type(), f.Rules), ""
	if shown := shownDefault(v); shown != nil && shown != "" {
		normal = fmt.Sprintf("`%v`", shown)
	}
	fmt.Fprintf(r, "| `%s` | %s | %s | %s | %s |\n", path, value, normal, markdown.Replace(text), effectOf(path))
	if inner.IsValid() && !repeated {
		r.keys(key, inner)
	}
}

var markdown = strings.NewReplacer("|", `\|`, "<", "&lt;", "{", "`{", "}", "}`")

// formOf names a type in the words of the file's writer, with the bounds of its values.
func formOf(path string, t reflect.Type, r yamlfile.Rules) string {
	words := ""
	_, null := reflect.New(t).Interface().(yamlfile.Nullable)
	switch {
	case t.Kind() == reflect.Pointer:
		return formOf("", t.Elem(), r)
	case t == reflect.TypeFor[time.Duration]():
		words = "duration"
	case t == reflect.TypeFor[setting.File](), strings.HasSuffix(path, "_file"):
		return "file"
	case null:
		return "text or null"
	case t.Kind() == reflect.Interface:
		return "any value"
	case t.Kind() == reflect.Slice && r.Short() == yamlfile.ShortList:
		return formOf("", t.Elem(), r) + " or a list of them"
	case t.Kind() == reflect.Slice:
		return "list of " + plural(formOf("", t.Elem(), r))
	case t.Kind() == reflect.Map:
		return "mapping of " + plural(formOf("", t.Elem(), yamlfile.Rules{}))
	case r.Short() != "":
		return r.Short() + ", or section"
	case hasKeys(t):
		return "section"
	case r.Enum() != nil:
		return yamlfile.Either(slices.DeleteFunc(r.Enum(), func(s string) bool { return s == "" }))
	case t.Kind() == reflect.Int64:
		words = "size"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		form, _ := r.Form()
		return cmp.Or(form.Name, "text")
	default:
		words = "number"
	}
	if bounds := r.Bounds(); bounds != "" {
		words += ", " + bounds
	}
	return words
}

func plural(words string) string {
	if one, rest, ok := strings.Cut(words, ","); ok {
		return one + "s," + rest
	}
	return words + "s"
}
