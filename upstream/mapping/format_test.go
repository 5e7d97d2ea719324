package mapping

import (
	"testing"
)

// Paths are walked as far as they name elements, and each part that takes one as
// a list marks it.
func TestListsInXML(t *testing.T) {
	for path, body := range map[string]string{
		"a.#.b":                `{"r":{"a":[{"b":"1"}]}}`,
		"a.0.b":                `{"r":{"a":[{"b":"1"}]}}`,
		"a|#.b":                `{"r":{"a":[{"b":"1"}]}}`,
		`a.#(b=="1").b`:        `{"r":{"a":[{"b":"1"}]}}`,
		`a.#(b=="x.y|z")#.c.#`: `{"r":{"a":[{"b":"1"}]}}`,
		"a.b.#":                `{"r":{"a":{"b":["1"]}}}`,
		"a.@values.#":          `{"r":{"a":{"b":"1"}}}`,
		"a.b":                  `{"r":{"a":{"b":"1"}}}`,
	} {
		f := Format{}
		f.XML = true
		at := f.place()
		at.names = []string{"r"}
		at.note(path)
		if got, err := f.Decode("<r><a><b>1</b></a></r>", "", 1000); got != body || err != nil {
			t.Errorf("%s: %s %v, want %s", path, got, err, body)
		}
	}
}
