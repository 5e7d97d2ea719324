package v1

import (
	"bytes"
	_ "embed" // the document is part of the binary
	"encoding/json"
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var openAPIYAML string

// openAPIJSON is converted when it is first asked for, once. The document is
// embedded and tested, so that it converts is known before the binary is built.
var openAPIJSON = sync.OnceValue(func() string {
	out, err := yamlToJSON([]byte(openAPIYAML))
	if err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	return string(out)
})

// OpenAPIYAML returns the OpenAPI 3.1 document of the public API as it was
// written. The caller owns the slice.
func OpenAPIYAML() []byte { return []byte(openAPIYAML) }

// OpenAPIJSON returns the same document as JSON, its keys in the order of the
// YAML: the same bytes from every build. The caller owns the slice.
func OpenAPIJSON() []byte { return []byte(openAPIJSON()) }

// yamlToJSON keeps the order of keys, which a map would lose.
func yamlToJSON(doc []byte) ([]byte, error) {
	var root any
	if err := yaml.NewDecoder(bytes.NewReader(doc), yaml.UseOrderedMap(), yaml.Strict()).Decode(&root); err != nil {
		return nil, err
	}
	return appendJSON(nil, root)
}

func appendJSON(dst []byte, node any) ([]byte, error) {
	switch v := node.(type) {
	case yaml.MapSlice:
		return appendObject(dst, v)
	case []any:
		return appendArray(dst, v)
	case string:

		return AppendString(dst, v), nil
	default:
		scalar, err := json.Marshal(v)
		return append(dst, scalar...), err
	}
}

func appendObject(dst []byte, members yaml.MapSlice) ([]byte, error) {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, fmt.Sprint(m.Key))
		var err error
		if dst, err = appendJSON(append(dst, ':'), m.Value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendArray(dst []byte, items []any) ([]byte, error) {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendJSON(dst, item); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}
