package v1

import (
	"bytes"
	_ "embed" // the document is part of the binary
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var openAPIYAML string

// openAPIJSON is the document as JSON, its keys in the order of the YAML: the same bytes
// from every build. It is converted when it is first asked for, once. The document is
// embedded and tested, so that it converts is known before the binary is built. The bytes
// must not be changed.
var openAPIJSON = sync.OnceValue(func() []byte {
	var compact bytes.Buffer
	doc, err := yaml.YAMLToJSON([]byte(openAPIYAML))
	if err = errors.Join(err, json.Compact(&compact, doc)); err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	return compact.Bytes()
})

// OpenAPIYAML returns the OpenAPI 3.1 document of the public API as it was
// written. The caller owns the slice.
func OpenAPIYAML() []byte { return []byte(openAPIYAML) }
