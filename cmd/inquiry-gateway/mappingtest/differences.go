package mappingtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxShown bounds the length of one value in a difference.
const maxShown = 200

// differences compares what the test wants with what came out, one line for each
// value. Of an object only the wanted keys are compared, of a list all elements.
func differences(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return ofObject(path, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return ofList(path, want, got)
		}
	default:
		// A test may write 12 for the text 12, for each public value is a text or null.
		if want == nil && got == nil || want != nil && fmt.Sprint(want) == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, shown(want), shown(got))}
}

func ofObject(path string, want, got map[string]any) (found []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		if !ok {
			found = append(found, fmt.Sprintf("%s.%s: is no field of the public record; it has %q", path, key, slices.Sorted(maps.Keys(got))))
			continue
		}
		found = append(found, differences(path+"."+key, want[key], value)...)
	}
	return found
}

func ofList(path string, want, got []any) (found []string) {
	for i := range max(len(want), len(got)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(want):
			found = append(found, fmt.Sprintf("%s: want no more, got %s", at, shown(got[i])))
		case i >= len(got):
			found = append(found, fmt.Sprintf("%s: want %s, got no more", at, shown(want[i])))
		default:
			found = append(found, differences(at, want[i], got[i])...)
		}
	}
	return found
}

func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > maxShown {
		return string(text[:maxShown]) + "..."
	}
	return string(text)
}
