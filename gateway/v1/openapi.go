package v1

import (
	"bytes"
	_ "embed" // the document is part of the binary
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var openAPIYAML string

// OpenAPIYAML returns the OpenAPI 3.1 document of the public API as it was
// written, with both lists. The caller owns the slice.
func OpenAPIYAML() []byte { return []byte(openAPIYAML) }

// Words are the values that the two filters of a list take; none where any may be asked for.
type Words struct{ Status, InquiryType []string }

// anyFilterValue is the schema of a filter in the document, where its words are not known.
const anyFilterValue = `{type: string, minLength: 1, maxLength: 64, pattern: "^[A-Za-z0-9._-]{1,64}$"}`

// openAPI is the document of these lists, by kind: what belongs to another list is left
// out, and words that are known are named.
func openAPI(lists map[string]Words) string {
	text := openAPIYAML
	for _, kind := range []string{"buyer", "seller"} {
		words, served := lists[kind]
		if !served {
			text = without(text, "# only "+kind)
			continue
		}
		for filter, known := range map[string][]string{"status": words.Status, "inquiry_type": words.InquiryType} {
			if len(known) > 0 {
				list, _ := json.Marshal(known) // texts; JSON is YAML, too
				text = strings.Replace(text, anyFilterValue+" # words of "+kind+" "+filter, fmt.Sprintf("{type: string, enum: %s}", list), 1)
			}
		}
	}
	return text
}

// without leaves the blocks out whose first line ends with mark: that line, and what is
// further in below it.
func without(text, mark string) string {
	var kept strings.Builder
	block := -1 // its indent; none
	for line := range strings.Lines(text) {
		content := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if block >= 0 && (content == "" || indent > block) {
			continue
		}
		if block = -1; strings.HasSuffix(content, mark) {
			block = indent
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}

// openAPIJSON is a document as JSON, its keys in the order of the YAML: the same bytes
// from every build. What it is made of is embedded and tested, so that it converts is
// known before the binary is built.
func openAPIJSON(document string) []byte {
	var root yaml.Node
	var out bytes.Buffer
	err := yaml.Load([]byte(document), &root)
	if err == nil {
		err = writeJSON(&out, root.Content[0])
	}
	if err != nil {
		panic(fmt.Sprintf("v1: embedded openapi.yaml: %v", err))
	}
	return out.Bytes()
}

// writeJSON writes a value as compact JSON.
func writeJSON(out *bytes.Buffer, n *yaml.Node) (err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	isMap := n.Kind == yaml.MappingNode
	if !isMap && n.Kind != yaml.SequenceNode {
		var v any
		err = n.Load(&v)
		return errors.Join(err, writeScalar(out, v))
	}
	out.WriteString(map[bool]string{true: "{", false: "["}[isMap])
	for i, inner := range n.Content {
		isKey := isMap && i%2 == 0
		if i > 0 && (isKey || !isMap) {
			out.WriteByte(',')
		}
		if isKey {
			err = errors.Join(err, writeScalar(out, inner.Value))
			out.WriteByte(':')
		} else {
			err = errors.Join(err, writeJSON(out, inner))
		}
	}
	out.WriteString(map[bool]string{true: "}", false: "]"}[isMap])
	return err
}

func writeScalar(out *bytes.Buffer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	out.Truncate(out.Len() - 1) // the end of the line
	return err
}
