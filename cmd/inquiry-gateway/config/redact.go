package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/internal/yamlfile"
)

const hidden = "[hidden]"

// Redacted gives the effective configuration as YAML, defaults included, for a
// person or a log. Values of headers and users in URLs are hidden; a
// value that comes from a variable is shown as ${NAME}; maps and what has several forms
// (queries, mappings) are shown as they stand in the file. Of files the names are shown.
func (c Config) Redacted() string {
	out, err := yaml.MarshalWithOptions(view(reflect.ValueOf(c), c.file, yamlfile.Field{}), yaml.IndentSequence(true))
	if err != nil {
		return "the configuration cannot be shown: " + err.Error()
	}
	return string(out)
}

// Shown gives each single value of Redacted by its full key, such as redis.addrs[0].
func (c Config) Shown() map[string]string { return leavesOf(c.Redacted()) }

// String is Redacted, so that no print of a configuration shows a secret.
func (c Config) String() string { return c.Redacted() }

// view turns a variable into what the YAML encoder shows of it. v is what the file
// says there, or nil. A nil result is left out.
func view(into reflect.Value, v *yamlfile.Value, f yamlfile.Field) any {
	if v != nil && v.Kind == yamlfile.Scalar && v.Written != v.Text {
		return v.Written
	}
	kind := into.Kind()
	switch {
	case f.Key == "headers":
		return hideValues(into)
	case yamlfile.IsNullable(into.Type()) || f.Short() != "" || kind == reflect.Interface || kind == reflect.Map && v != nil:
		return asWritten(v)
	case kind == reflect.Pointer && into.IsNil():
		return nil
	case kind == reflect.Pointer:
		return view(into.Elem(), v, f)
	case yamlfile.HasKeys(into.Type()):
		return viewSection(into, v)
	case kind == reflect.Slice && v != nil && v.Kind == yamlfile.List && len(v.Items) == into.Len():
		shown := make([]any, into.Len())
		for i, one := range v.Items {
			shown[i] = view(into.Index(i), one, yamlfile.Field{})
		}
		return shown
	case kind == reflect.String:
		return redactURL(into.String())
	}
	return yamlfile.Format(into)
}

// viewSection keeps the order of the fields, and leaves out what shows nothing.
func viewSection(into reflect.Value, v *yamlfile.Value) any {
	shown := yaml.MapSlice{}
	for _, f := range yamlfile.FieldsOf(into.Type()) {
		if one := view(into.FieldByIndex(f.Index), v.Child(f.Key), f); one != nil {
			shown = append(shown, yaml.MapItem{Key: f.Key, Value: one})
		}
	}
	if len(shown) == 0 {
		return nil
	}
	return shown
}

// hideValues shows the names of headers only: any of them may carry a credential.
func hideValues(headers reflect.Value) any {
	shown := map[string]string{}
	for _, name := range headers.MapKeys() {
		shown[name.String()] = hidden
	}
	return shown
}

// asWritten shows a part of the file; nil: it says nothing.
func asWritten(v *yamlfile.Value) any {
	switch {
	case v == nil || v.Kind == yamlfile.Null:
		return nil
	case v.Kind == yamlfile.List:
		shown := make([]any, len(v.Items))
		for i, one := range v.Items {
			shown[i] = asWritten(one)
		}
		return shown
	case v.Kind == yamlfile.Section:
		shown := yaml.MapSlice{}
		for _, e := range v.Keys {
			shown = append(shown, yaml.MapItem{Key: e.Key, Value: asWritten(e.Value)})
		}
		return shown
	}
	if v.Written != v.Text {
		return v.Written
	}
	return v.Plain()
}

// redactURL hides the user in a URL.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return strings.Replace(u.String(), "//", "//"+hidden+"@", 1)
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
			addLeaves(leaves, yamlfile.Join(key, name), value)
		}
	case []any:
		for i, value := range v {
			addLeaves(leaves, fmt.Sprintf("%s[%d]", key, i), value)
		}
	default:
		leaves[key] = fmt.Sprint(v)
	}
}
