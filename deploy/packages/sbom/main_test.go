package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// The test's own binary has the standard library and this module in it.
func TestSBOM(t *testing.T) {
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run([]string{os.Args[0], "v1.2.3"}, out); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Component component }
		Components             []component
	}
	if err := json.Unmarshal(first.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.BOMFormat != "CycloneDX" || got.Metadata.Component.Version != "v1.2.3" || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(got.Components, func(c component) bool { return c.Name == "std" && c.PURL == "pkg:golang/std@"+c.Version }) {
		t.Errorf("no standard library in %+v", got.Components)
	}
	if err := run([]string{"main.go", "v1"}, &first); err == nil {
		t.Error("a text is taken for a binary")
	}
}
