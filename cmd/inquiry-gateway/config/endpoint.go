package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

// EndpointText is what the file says at upstream.buyer or upstream.seller, as YAML:
// variables as they are written, without comments. Empty where there is no file.
func (c Config) EndpointText(kind string) string {
	n := child(child(c.written, "upstream"), kind)
	if n == nil {
		return ""
	}
	text, err := yaml.MarshalWithOptions(asWritten(n), yaml.IndentSequence(true))
	if err != nil {
		return ""
	}
	return string(text)
}

// WithEndpoint is the upstream section with another mapping of a kind, which text
// says as YAML. Variables are not put in: whoever writes the text may not see them.
// The error is a Problems, with places in the text.
func WithEndpoint(section upstream.Config, kind, text string) (upstream.Config, error) {
	doc := textDocument("mapping", text, maxFileBytes)
	if doc.root == nil {
		return section, doc.err()
	}
	endpoint := upstream.DefaultConfig().Buyer
	if doc.decode(&endpoint); doc.err() != nil {
		return section, doc.err()
	}
	var problems, relative invalid.Problems
	mapping.Compile(kind, endpoint, section.BaseURL, section.MaxRecords, &problems)
	for _, err := range problems {
		if at, ok := errors.AsType[*invalid.Error](err); ok {
			relative.Add(strings.TrimPrefix(at.Field(), kind+"."), "%v", err)
		}
	}
	doc.invalid("", relative.Err())
	*section.Endpoint(kind) = endpoint
	return section, doc.err()
}
