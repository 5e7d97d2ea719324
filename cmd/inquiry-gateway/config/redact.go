package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/internal/secretfile"
)

const hidden = "[hidden]"

// Redacted gives the effective configuration as YAML, defaults included, for a
// person to read or a log to keep. Values of headers and users in URLs are hidden; a
// value that comes from a variable is shown as ${NAME}; maps and what has several forms
// (queries, mappings) are shown as they stand in the file. Files are named, their
// content is not read.
func (c Config) Redacted() string {
	out, err := yaml.MarshalWithOptions(view(reflect.ValueOf(c), c.written, ""), yaml.IndentSequence(true))
	if err != nil {
		return "the configuration cannot be shown: " + err.Error()
	}
	return string(out)
}

// Shown gives each single value of Redacted by its full key, such as redis.addrs[0].
func (c Config) Shown() map[string]string { return leavesOf(c.Redacted()) }

// String is Redacted, so that no print of a configuration shows a secret.
func (c Config) String() string { return c.Redacted() }

// view turns a value into what the YAML encoder shows of it. n is what the file
// says there, or nil. A nil result is left out.
func view(v reflect.Value, n ast.Node, key string) any {
	if text, ok := n.(*ast.StringNode); ok && strings.Contains(text.Value, "${") {
		return text.Value
	}
	custom := reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[unmarshaler]())
	switch {
	case key == "headers":
		return hideValues(v)
	case custom || v.Kind() == reflect.Interface || v.Kind() == reflect.Map && n != nil:
		return asWritten(n)
	case v.Type() == reflect.TypeFor[time.Duration]():
		return formatDuration(time.Duration(v.Int()))
	case v.Type() == reflect.TypeFor[secretfile.File]():
		return v.Interface().(secretfile.File).Path()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return view(v.Elem(), n, key)
	case reflect.Struct:
		return viewStruct(v, n)
	case reflect.Slice:
		if list, ok := n.(*ast.SequenceNode); ok && len(list.Values) == v.Len() {
			shown := make([]any, v.Len())
			for i, value := range list.Values {
				shown[i] = view(v.Index(i), value, "")
			}
			return shown
		}
	case reflect.Int64:
		if s := formatBytes(v.Int()); strings.HasSuffix(s, "B") {
			return s
		}
	case reflect.String:
		return redactURL(v.String())
	}
	return v.Interface()
}

// viewStruct keeps the order of the fields, and leaves out what shows nothing.
func viewStruct(v reflect.Value, n ast.Node) any {
	section := yaml.MapSlice{}
	for _, f := range fieldsOf(v.Type()) {
		if value := view(v.FieldByIndex(f.index), child(n, f.key), f.key); value != nil {
			section = append(section, yaml.MapItem{Key: f.key, Value: value})
		}
	}
	if len(section) == 0 {
		return nil
	}
	return section
}

// hideValues shows the names of headers only: any of them may carry a credential.
func hideValues(headers reflect.Value) any {
	shown := map[string]string{}
	for _, name := range headers.MapKeys() {
		shown[name.String()] = hidden
	}
	return shown
}

// asWritten shows a part of the file.
func asWritten(n ast.Node) (shown any) {
	if n == nil {
		return nil
	}
	if err := yaml.NodeToValue(n, &shown, yaml.UseOrderedMap()); err != nil {
		return hidden
	}
	return shown
}

// redactURL hides the user in a URL, who must not be there and may be all the same.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return strings.Replace(u.String(), "//", "//"+hidden+"@", 1)
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

// Change is one key whose value differs between two configurations. An empty
// side has no such key.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Diff compares two configurations as Redacted shows them, key by key and
// sorted. What is hidden there is hidden here: of two hidden values it cannot
// be told whether they differ. A text that is no YAML counts as empty.
func Diff(old, next string) []Change {
	a, b := leavesOf(old), leavesOf(next)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	var changes []Change
	for _, key := range slices.Compact(keys) {
		if a[key] != b[key] {
			changes = append(changes, Change{key, a[key], b[key]})
		}
	}
	return changes
}

// leavesOf gives each value of a YAML text by its full key.
func leavesOf(text string) map[string]string {
	var tree any
	leaves := map[string]string{}
	if err := yaml.Unmarshal([]byte(text), &tree); err == nil {
		addLeaves(leaves, "", tree)
	}
	return leaves
}

// addLeaves walks down to single values. An empty mapping or list has none.
func addLeaves(leaves map[string]string, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			addLeaves(leaves, join(key, name), value)
		}
	case []any:
		for i, value := range v {
			addLeaves(leaves, fmt.Sprintf("%s[%d]", key, i), value)
		}
	default:
		leaves[key] = fmt.Sprint(v)
	}
}
