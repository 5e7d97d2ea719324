package config

import (
	"math"

	"inquiry-gateway/internal/invalid"
)

// Read reads another YAML file as strictly as the configuration into a pointer:
// keys by their yaml tags, texts by their enum tags. Variables stay as they are
// written. The error is a Problems.
func Read(path string, into any) error {
	return readDocument(path, nil).into(into)
}

// ReadText is Read of a text that is no file, and whose length the caller bounds.
// name stands for it in errors.
func ReadText(name, text string, into any) error {
	return textDocument(name, text, math.MaxInt).into(into)
}

func (doc *document) into(into any) error {
	if doc.root == nil {
		return doc.err()
	}
	doc.decode(into)
	var enums invalid.Problems
	enums.Enums("", into)
	doc.invalid("", enums.Err())
	return doc.err()
}
