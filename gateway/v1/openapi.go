package v1

import (
	"bytes"
	_ "embed" // the document is part of the binary
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/tidwall/gjson"
)

//go:embed openapi.yaml
var openAPIYAML string

// OpenAPIYAML returns the OpenAPI 3.1 document of the public API as it was
// written. The caller owns the slice.
func OpenAPIYAML() []byte { return []byte(openAPIYAML) }

// document gives the document as YAML and as JSON, with the paths of these kinds only. The
// JSON has its keys in the order of the YAML: the same bytes from every build. What is
// embedded is tested: an error means a broken binary.
func document(served []Kind) (asYAML, asJSON []byte) {
	var compact bytes.Buffer
	asYAML = OpenAPIYAML()
	doc, err := yaml.YAMLToJSON(asYAML)
	if err = errors.Join(err, json.Compact(&compact, doc)); err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	asJSON = compact.Bytes()
	if len(served) == len(kinds) {
		return asYAML, asJSON
	}
	paths, kept := gjson.GetBytes(asJSON, "paths"), []byte("{")
	paths.ForEach(func(path, item gjson.Result) bool {
		if slices.ContainsFunc(served, func(k Kind) bool { return k.Path == path.Str }) {
			kept = append(append(append(kept, path.Raw...), ':'), item.Raw...)
		}
		return true
	})
	asJSON = slices.Concat(asJSON[:paths.Index], kept, []byte("}"), asJSON[paths.Index+len(paths.Raw):])
	if asYAML, err = yaml.JSONToYAML(asJSON); err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	return asYAML, asJSON
}
