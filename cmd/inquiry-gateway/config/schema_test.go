package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream/mapping"
)

// The JSON Schema of the file is made of the structs, of their comments and of
// their enum tags.
func TestSchemaIsUpToDate(t *testing.T) {
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(schemaOf(t)); err != nil {
		t.Fatal(err)
	}
	upToDate(t, "config.schema.json", b.String())
}

// node is a part of a schema. It is encoded with its keys sorted.
type node = map[string]any

func schemaOf(t *testing.T) node {
	s := &schemaWriter{t: t, comments: comments{}, defs: node{
		"variable": node{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`, "description": "${NAME} is the value of the environment variable NAME."},
		// The file's writer may leave out the quotes of a text that looks like a number.
		"text":     node{"type": []string{"string", "number", "boolean"}},
		"flag":     scalarOr(node{"type": "boolean"}),
		"integer":  scalarOr(node{"type": "integer"}),
		"count":    scalarOr(node{"type": "integer", "minimum": 0}),
		"number":   scalarOr(node{"type": "number"}),
		"duration": scalarOr(node{"type": "string", "pattern": `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`}, node{"const": 0}),
		"size":     scalarOr(node{"type": "integer", "minimum": 0}, node{"type": "string", "pattern": `^[0-9]+ *(GiB|MiB|KiB|GB|MB|kB|B)?$`}),
	}}
	root := s.section(reflect.ValueOf(Default()))
	maps.Copy(root, node{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of the inquiry gateway",
		"description": "Made from the program's own structs; do not edit it.", "$defs": s.defs,
	})
	return root
}

// scalarOr gives the forms of a scalar, for which a variable may stand, too.
func scalarOr(forms ...node) node { return node{"anyOf": append(forms, ref("variable"))} }

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

type schemaWriter struct {
	t        *testing.T
	comments comments
	defs     node // by Go type, or by name
}

// section describes a struct. A section whose keys are all commented out is null.
func (s *schemaWriter) section(v reflect.Value) node {
	properties := node{}
	for _, f := range fieldsOf(v.Type()) {
		value := v.FieldByIndex(f.index)
		key := maps.Clone(s.of(v.Type().FieldByIndex(f.index), value))
		text, name := s.comments.of(s.t, v.Type(), f)
		if text = strings.Join(strings.Fields(withoutName(text, name)), " "); text != "" {
			key["description"] = text
		}
		if value := shownDefault(value); value != "" {
			key["default"] = plainDefault(strings.Trim(value, "`"), v.FieldByIndex(f.index))
		}
		properties[f.key] = key
	}
	return node{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

// plainDefault gives a default as the file would hold it.
func plainDefault(shown string, v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Bool, v.CanFloat(), v.CanInt() && v.Kind() != reflect.Int64:
		return v.Interface()
	}
	return shown
}

// of describes the value of one key.
func (s *schemaWriter) of(f reflect.StructField, v reflect.Value) node {
	if values, ok := f.Tag.Lookup("enum"); ok {
		return scalarOr(node{"enum": strings.Split(values, ",")})
	}
	return s.value(v)
}

func (s *schemaWriter) value(v reflect.Value) node {
	t := v.Type()
	inner := below(v)
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return ref("duration")
	case t == reflect.TypeFor[secretfile.File]():
		return ref("text")
	case t == reflect.TypeFor[mapping.Default]():
		return node{"anyOf": []node{ref("text"), {"type": "null"}}}
	case t == reflect.TypeFor[mapping.Values]():
		return mapOf(node{"anyOf": []node{ref("text"), {"type": "null"}}})
	case t == reflect.TypeFor[mapping.Paths]():
		return oneOrMany(ref("text"))
	case t == reflect.TypeFor[mapping.Field]():
		def := s.define(v)
		return node{"anyOf": []node{ref("text"), listOf(ref("text")), def}}
	case inner.IsValid() && t.Kind() == reflect.Map:
		return mapOf(s.define(inner))
	case inner.IsValid() && t.Kind() == reflect.Slice:
		return listOf(s.define(inner))
	case inner.IsValid():
		return s.define(inner)
	}
	if _, custom := reflect.New(t).Interface().(unmarshaler); custom {
		s.t.Errorf("%v decodes itself: say here which forms it takes", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.value(reflect.New(t.Elem()).Elem())
	case reflect.Map:
		return mapOf(s.value(reflect.New(t.Elem()).Elem()))
	case reflect.Slice:
		return listOf(s.value(reflect.New(t.Elem()).Elem()))
	case reflect.Interface:
		return node{}
	}
	return ref(scalarName(t))
}

func scalarName(t reflect.Type) string {
	v := reflect.New(t).Elem()
	switch {
	case t.Kind() == reflect.Int64:
		return "size"
	case v.CanUint():
		return "count"
	case v.CanInt():
		return "integer"
	case v.CanFloat():
		return "number"
	case t.Kind() == reflect.Bool:
		return "flag"
	}
	return "text"
}

func listOf(items node) node { return node{"type": []string{"array", "null"}, "items": items} }

func mapOf(values node) node {
	return node{"type": []string{"object", "null"}, "additionalProperties": values}
}

func oneOrMany(form node) node { return node{"anyOf": []node{form, listOf(form)}} }

// define describes a section once, under the name of its type.
func (s *schemaWriter) define(v reflect.Value) node {
	name := v.Type().String()
	if _, done := s.defs[name]; !done {
		s.defs[name] = node{} // for a section within itself
		s.defs[name] = s.section(v)
	}
	return ref(name)
}
