package draft

import (
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"
)

// FromOpenAPI reads from an OpenAPI document, in YAML or JSON, what the samples
// cannot show whole: the values of enumerations, by the name of the property, and
// the address of the system.
func FromOpenAPI(document []byte) (enums map[string][]string, baseURL string, err error) {
	var tree map[string]any
	if json.Unmarshal(document, &tree) != nil {
		if err := yaml.Unmarshal(document, &tree); err != nil {
			return nil, "", fmt.Errorf("is neither JSON nor YAML: %w", err)
		}
	}
	if _, ok := tree["paths"].(map[string]any); !ok {
		return nil, "", fmt.Errorf("has no paths; is it an OpenAPI document?")
	}
	enums = map[string][]string{}
	collectEnums(tree, enums, 0)
	if servers, ok := tree["servers"].([]any); ok && len(servers) > 0 {
		if server, ok := servers[0].(map[string]any); ok {
			baseURL, _ = server["url"].(string)
		}
	}
	return enums, baseURL, nil
}

// maxDocumentDepth bounds the walk; schemas are not deeper.
const maxDocumentDepth = 60

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
