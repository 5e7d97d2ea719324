package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"
)

// FromOpenAPI completes options from an OpenAPI document, in YAML or JSON, by what the
// samples cannot show whole: the values of enumerations, by the name of the property,
// the requests for more of one record, and the address of the system.
func (o *Options) FromOpenAPI(document []byte) error {
	var tree map[string]any
	if json.Unmarshal(document, &tree) != nil {
		if err := yaml.Unmarshal(document, &tree); err != nil {
			return fmt.Errorf("is neither JSON nor YAML: %w", err)
		}
	}
	paths, ok := tree["paths"].(map[string]any)
	if !ok {
		return fmt.Errorf("has no paths; is it an OpenAPI document?")
	}
	o.Enums = map[string][]string{}
	collectEnums(tree, o.Enums, 0)
	if servers, ok := tree["servers"].([]any); ok && len(servers) > 0 {
		if server, ok := servers[0].(map[string]any); ok {
			o.BaseURL, _ = server["url"].(string)
		}
	}
	o.seconds(paths)
	return nil
}

// onePart is a path with one parameter, and at most one name after it.
var onePart = regexp.MustCompile(`^(/[^{}]+)/\{[^{}/]+\}(/[^{}/]+)?$`)

// seconds finds paths for one of a list, and for the answers to one.
func (o *Options) seconds(paths map[string]any) {
	answers := newVocabulary().responses
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		m := onePart.FindStringSubmatch(path)
		operations, _ := paths[path].(map[string]any)
		if m == nil || paths[m[1]] == nil || operations["get"] == nil {
			continue
		}
		switch {
		case m[2] == "" && o.Details == "":
			o.Details = m[1] + "/{id}"
		case m[2] != "" && o.Responses == "" && answers.score([]string{m[2]}) > 0.5:
			o.Responses = m[1] + "/{id}" + m[2]
		}
	}
}

// maxDocumentDepth bounds the walk; schemas are not deeper.
const maxDocumentDepth = 60

// collectEnums notes the values of all enumerations in a schema, by the name of the
// property. Properties of one name share them, whatever they belong to.
func collectEnums(v any, enums map[string][]string, depth int) {
	switch v := v.(type) {
	case map[string]any:
		if depth > maxDocumentDepth {
			return
		}
		properties, _ := v["properties"].(map[string]any)
		for name, property := range properties {
			if schema, ok := property.(map[string]any); ok {
				values, _ := schema["enum"].([]any)
				for _, value := range values {
					if value != nil {
						enums[name] = append(enums[name], fmt.Sprint(value))
					}
				}
			}
		}
		for _, inner := range v {
			collectEnums(inner, enums, depth+1)
		}
	case []any:
		for _, inner := range v {
			collectEnums(inner, enums, depth+1)
		}
	}
}
