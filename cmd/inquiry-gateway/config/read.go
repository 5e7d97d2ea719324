package config

import "inquiry-gateway/internal/invalid"

// Read reads another YAML file as strictly as the configuration into a pointer:
// keys by their yaml tags, texts by their enum tags. Variables stay as they are
// written. The error is a Problems.
func Read(path string, into any) error {
	doc := readDocument(path, nil)
	if doc.root == nil {
		return doc.err()
	}
	doc.decode(into)
	var enums invalid.Problems
	enums.Enums("", into)
	doc.invalid("", enums.Err())
	return doc.err()
}
