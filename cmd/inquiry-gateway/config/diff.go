package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml"
)

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

func leavesOf(text string) map[string]string {
	var tree any
	leaves := map[string]string{}
	if err := yaml.Unmarshal([]byte(text), &tree); err == nil {
		addLeaves(leaves, "", tree)
	}
	return leaves
}

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
