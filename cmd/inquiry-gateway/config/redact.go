package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

const hidden = "[hidden]"

// Redacted returns the effective configuration as YAML, defaults included. Values of headers and users in URLs are hidden;
// variables are shown as ${NAME}, files by their names. Maps, and values that have several forms, are shown as in the file.
func (c Config) Redacted() string {
	var root *yaml.Node
	if c.file != nil {
		root = c.file.Root
	}
	out, err := yaml.Dump(c.view(reflect.ValueOf(c), root, yamlfile.Field{}), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	if err != nil {
		return "the configuration cannot be shown: " + err.Error()
	}
	return string(out)
}

// Shown returns the text of a key, such as redis.addrs[0], as Redacted shows it. text is the key's effective value.
func (c Config) Shown(key, text string) string {
	if c.file != nil {
		if written, ok := c.file.Written(c.file.At(key)); ok {
			return written
		}
	}
	return redactURL(text)
}

// String returns Redacted, so that printing a configuration shows no secret.
func (c Config) String() string { return c.Redacted() }

// view returns what is shown of a value. n is its node in the file, or nil. A nil result is left out.
func (c Config) view(into reflect.Value, n *yaml.Node, f yamlfile.Field) *yaml.Node {
	if written, ok := c.written(n); ok {
		return nodeOf(written)
	}
	kind := into.Kind()
	switch {
	case f.Key == "headers":
		return hideValues(into)
	case yamlfile.IsNullable(into.Type()) || f.Short() != "" || kind == reflect.Interface || kind == reflect.Map && n != nil:
		return c.asWritten(n)
	case kind == reflect.Pointer && into.IsNil():
		return nil
	case kind == reflect.Pointer:
		return c.view(into.Elem(), n, f)
	case yamlfile.HasKeys(into.Type()):
		return c.viewSection(into, n)
	case kind == reflect.Slice && n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == into.Len():
		shown := &yaml.Node{Kind: yaml.SequenceNode}
		for i, one := range n.Content {
			shown.Content = append(shown.Content, cmp.Or(c.view(into.Index(i), one, yamlfile.Field{}), nodeOf(nil)))
		}
		return shown
	case kind == reflect.String:
		return nodeOf(redactURL(into.String()))
	}
	return nodeOf(setting.Format(into))
}

// written returns a scalar of the file as it is written, if it names variables.
func (c Config) written(n *yaml.Node) (string, bool) {
	if c.file == nil {
		return "", false
	}
	return c.file.Written(n)
}

// nodeOf returns a plain value as YAML.
func nodeOf(v any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch value := reflect.ValueOf(v); {
	case value.Kind() == reflect.String:
		n.Tag, n.Value = "!!str", value.String()
		if strings.ContainsFunc(n.Value, unicode.IsControl) { // in one line, and escaped
			n.Style = yaml.DoubleQuotedStyle
		}
	case value.Kind() == reflect.Bool || value.CanInt() || value.CanUint() || value.CanFloat():
		n.Value = fmt.Sprint(v)
	default:
		if err := n.Dump(v, yaml.WithQuotePreference(yaml.QuoteDouble)); err != nil {
			n.SetString(err.Error())
		}
	}
	return n
}

// viewSection keeps the order of the fields, and leaves out those without a value to show.
func (c Config) viewSection(into reflect.Value, n *yaml.Node) *yaml.Node {
	shown := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range yamlfile.FieldsOf(into.Type()) {
		if one := c.view(into.FieldByIndex(f.Index), yamlfile.Child(n, f.Key), f); one != nil {
			shown.Content = append(shown.Content, nodeOf(f.Key), one)
		}
	}
	if len(shown.Content) == 0 {
		return nil
	}
	return shown
}

// hideValues shows the names of headers only: any of them may carry a credential.
func hideValues(headers reflect.Value) *yaml.Node {
	shown := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(headers.Interface().(map[string]string))) {
		shown.Content = append(shown.Content, nodeOf(name), nodeOf(hidden))
	}
	return shown
}

// asWritten shows a part of the file; nil if it has no value.
func (c Config) asWritten(n *yaml.Node) *yaml.Node {
	if n == nil || yamlfile.IsNull(n) {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		if written, ok := c.written(n); ok {
			return nodeOf(written)
		}
		if yamlfile.Quoted(n) {
			return nodeOf(n.Value)
		}
		return &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value}
	}
	shown := &yaml.Node{Kind: n.Kind}
	for _, inner := range n.Content {
		shown.Content = append(shown.Content, cmp.Or(c.asWritten(inner), nodeOf(nil)))
	}
	return shown
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

// Change is a key whose value differs between two configurations. A side without the key is empty.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Diff compares two results of Redacted key by key, sorted. Differences of hidden values do not show. It returns an error if one of
// them is not YAML.
func Diff(old, next string) ([]Change, error) {
	a, errOld := leavesOf(old)
	b, errNext := leavesOf(next)
	if err := errors.Join(errOld, errNext); err != nil {
		return nil, fmt.Errorf("the configurations cannot be compared: %w", err)
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	var changes []Change
	for _, key := range slices.Compact(keys) {
		if a[key] != b[key] {
			changes = append(changes, Change{key, a[key], b[key]})
		}
	}
	return changes, nil
}

// leavesOf returns each single value of a YAML text by its full key.
func leavesOf(text string) (map[string]string, error) {
	var tree yaml.Node
	leaves := map[string]string{}
	err := yaml.Load([]byte(text), &tree)
	if err == nil {
		addLeaves(leaves, "", tree.Content[0])
	}
	return leaves, err
}

// addLeaves walks down to single values. An empty mapping or list has none.
func addLeaves(leaves map[string]string, key string, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			addLeaves(leaves, yamlfile.Join(key, n.Content[i].Value), n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, one := range n.Content {
			addLeaves(leaves, yamlfile.Item(key, i), one)
		}
	default:
		leaves[key] = n.Value
	}
}
