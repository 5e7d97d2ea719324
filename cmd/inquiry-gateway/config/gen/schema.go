package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

// node is a part of a schema. It is encoded with its keys sorted.
type node = map[string]any

// schemaWriter makes the JSON Schema of the file.
type schemaWriter struct {
	fieldComments comments
	defs          node // by the name of the Go type, or of a form
}

func makeSchema(fieldComments comments) ([]byte, error) {
	w := schemaWriter{fieldComments, node{
		"variable": node{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*\}`, "description": "${NAME} is the value of the environment variable NAME."},
		// The file's writer may leave out the quotes of a text that looks like a number.
		"text":     node{"type": []string{"string", "number", "boolean"}},
		"value":    node{"type": []string{"string", "number", "boolean", "null"}},
		"flag":     scalarOr(node{"type": "boolean"}),
		"duration": scalarOr(node{"type": "string", "pattern": `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`}, node{"const": 0}),
		"size":     scalarOr(node{"type": "integer", "minimum": 0}, node{"type": "string", "pattern": `^[0-9]+ *(GiB|MiB|KiB|GB|MB|kB|B)?$`}),
	}}
	root := w.section(reflect.ValueOf(config.Default()))
	maps.Copy(root, node{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of the inquiry gateway",
		"description": "Made from the program's own structs; do not edit it.", "$defs": w.defs,
	})
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	err := out.Encode(root)
	return b.Bytes(), err
}

// scalarOr gives the forms of a scalar, for which a variable may stand, too.
func scalarOr(forms ...node) node { return node{"anyOf": append(forms, ref("variable"))} }

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

func listOf(items node) node { return node{"type": []string{"array", "null"}, "items": items} }

func mapOf(values node) node {
	return node{"type": []string{"object", "null"}, "additionalProperties": values}
}

// define describes a section once, under the name of its type.
func (w schemaWriter) define(v reflect.Value) node {
	name := v.Type().String()
	if _, done := w.defs[name]; !done {
		w.defs[name] = node{} // for a section within itself
		w.defs[name] = w.section(v)
	}
	return ref(name)
}

// section describes a struct. A section whose keys are all commented out is null. What it
// shares with others, an embedded struct, is described once.
func (w schemaWriter) section(v reflect.Value) node {
	t := v.Type()
	properties, shared, required := node{}, []node{}, []string{}
	for _, f := range yamlfile.FieldsOf(t) {
		if len(f.Index) > 1 {
			continue
		}
		value := v.FieldByIndex(f.Index)
		key := maps.Clone(w.value(value, f.Rules))
		if text := w.fieldComments.of(t, f); text != "" {
			key["description"] = strings.TrimSuffix(text+" "+boundsIn(value.Type(), f.Rules), " ")
		}
		if shown := defaultOf(value); shown != nil {
			key["default"] = shown
		}
		properties[f.Key] = key
		if f.Required() != "" && value.IsZero() {
			required = append(required, f.Key)
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); yamlfile.HasKeys(f.Type) && (f.Tag.Get("yaml") == "" || f.Tag.Get("yaml") == ",inline") {
			part := w.section(v.Field(i))
			for _, closed := range []string{"additionalProperties", "unevaluatedProperties"} {
				delete(part, closed) // the struct around it allows more keys, and is closed itself
			}
			name := f.Type.String() + ", embedded"
			w.defs[name] = part
			shared = append(shared, ref(name))
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

// boundsIn says the bounds of what may be written in several units, which a schema cannot.
func boundsIn(t reflect.Type, r yamlfile.Rules) string {
	words := r.Bounds()
	if words == "" || t.Kind() != reflect.Int64 && (t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Int64) {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:] + "."
}

// value describes a value of the file.
func (w schemaWriter) value(v reflect.Value, r yamlfile.Rules) node {
	t, inner := v.Type(), yamlfile.InnerSection(v)
	switch {
	case yamlfile.IsNullable(t) && t.Kind() != reflect.Slice:
		return ref("value")
	case t == reflect.TypeFor[time.Duration]():
		return ref("duration")
	case t == reflect.TypeFor[setting.File]():
		return ref("text")
	case inner.IsValid() && t.Kind() == reflect.Map:
		return mapOf(w.define(inner))
	case inner.IsValid() && t.Kind() == reflect.Slice:
		return listOf(w.define(inner))
	case inner.IsValid() && r.Short() != "":
		return node{"if": node{"type": []string{"object", "null"}}, "then": w.define(inner), "else": w.shortForm(inner.Type(), r.Short())}
	case inner.IsValid():
		return w.define(inner)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.value(reflect.New(t.Elem()).Elem(), r)
	case reflect.Map:
		return mapOf(w.value(reflect.New(t.Elem()).Elem(), yamlfile.Rules{}))
	case reflect.Slice:
		items := w.value(reflect.New(t.Elem()).Elem(), r)
		if r.Short() == yamlfile.ShortList {
			return node{"if": node{"type": []string{"array", "null"}}, "then": listOf(items), "else": items}
		}
		return listOf(items)
	case reflect.Interface:
		return node{}
	}
	return scalar(t, r)
}

// shortForm is what may stand for a section: the value of one of its keys.
func (w schemaWriter) shortForm(t reflect.Type, key string) node {
	for _, f := range yamlfile.FieldsOf(t) {
		if f.Key == key {
			return w.value(reflect.New(t.FieldByIndex(f.Index).Type).Elem(), f.Rules)
		}
	}
	return node{}
}

// scalar describes a single value with its bounds.
func scalar(t reflect.Type, r yamlfile.Rules) node {
	number := node{"type": "integer"}
	switch form, _ := r.Form(); t.Kind() {
	case reflect.String:
		if r.Enum() != nil {
			words := []any{}
			for _, word := range r.Enum() {
				if words = append(words, word); word == "true" || word == "false" {
					words = append(words, word == "true") // as YAML reads it without quotes
				}
			}
			return scalarOr(node{"enum": words})
		}
		if form.Pattern != "" {
			return scalarOr(node{"type": []string{"string", "number", "boolean"}, "pattern": form.Pattern})
		}
		return ref("text")
	case reflect.Int64:
		return ref("size")
	case reflect.Bool:
		return ref("flag")
	case reflect.Float64:
		number["type"] = "number"
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
