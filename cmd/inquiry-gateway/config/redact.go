package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

const hidden = "[hidden]"

// Redacted gives the effective configuration as YAML, defaults included, for a
// person to read or a log to keep. Values of headers and passwords in URLs are
// hidden; texts of free form (queries, mappings) that came out of a variable are
// shown as they stand in the file. Files are named, their content is not read.
func (c Config) Redacted() string {
	section, _ := view(reflect.ValueOf(c), c.root, "").(yaml.MapSlice)
	out, err := yaml.MarshalWithOptions(section, yaml.IndentSequence(true))
	if err != nil {
		return "the configuration cannot be shown: " + err.Error()
	}
	return string(out)
}

// String is Redacted, so that no print of a configuration shows a secret.
func (c Config) String() string { return c.Redacted() }

// view turns a value into what the YAML encoder shows of it. n is what the
// file says there, or nil. A nil result is left out.
func view(v reflect.Value, n *node, key string) any {
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[unmarshaler]()) {
		return n.view(key) // only the file knows the form it was written in
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return formatDuration(d)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return view(v.Elem(), n, key)
	case reflect.Struct:
		return viewStruct(v, n)
	case reflect.Map:
		return viewMap(v, n, key)
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = view(v.Index(i), n.item(i), key)
		}
		return items
	case reflect.Int64:
		return viewBytes(v.Int())
	case reflect.String:
		return redactText(key, v.String())
	}
	return v.Interface()
}

func viewStruct(v reflect.Value, n *node) any {
	section := yaml.MapSlice{}
	for _, f := range fieldsOf(v.Type()) {
		if value := view(v.FieldByIndex(f.index), n.child(f.key), f.key); value != nil {
			section = append(section, yaml.MapItem{Key: f.key, Value: value})
		}
	}
	if len(section) == 0 {
		return nil
	}
	return section
}

func viewMap(v reflect.Value, n *node, key string) any {
	section := yaml.MapSlice{}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		child := n.child(name.String())
		value := view(v.MapIndex(name), child, name.String())
		if key == "headers" {
			value = hidden
		} else if child != nil && child.source != "" {
			value = child.source
		}
		section = append(section, yaml.MapItem{Key: name.String(), Value: value})
	}
	return section
}

// view shows a part of the file as it is written.
func (n *node) view(key string) any {
	switch {
	case n == nil || n.kind == null || n.kind == broken:
		return nil
	case n.source != "":
		return n.source
	case n.kind == list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.view(key)
		}
		return items
	case n.kind == mapping:
		section := yaml.MapSlice{}
		for _, e := range n.entries {
			section = append(section, yaml.MapItem{Key: e.key, Value: e.value.view(e.key)})
		}
		return section
	}
	return n.plainScalar()
}

func (n *node) child(key string) *node {
	if n == nil {
		return nil
	}
	return n.get(key)
}

func (n *node) item(i int) *node {
	if n == nil || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// redactText hides what must not be in a configuration and may be all the same.
func redactText(key, text string) string {
	for _, word := range []string{"password", "secret", "token"} {
		if text != "" && strings.Contains(key, word) && !strings.HasSuffix(key, "_file") {
			return hidden
		}
	}
	if u, err := url.Parse(text); err == nil && u.User != nil {
		u.User = nil
		return strings.Replace(u.String(), "//", "//"+hidden+"@", 1)
	}
	return text
}

// viewBytes keeps a size without a unit a number.
func viewBytes(size int64) any {
	if s := formatBytes(size); strings.HasSuffix(s, "B") {
		return s
	}
	return size
}

// formatDuration writes 10m where Go writes 10m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
