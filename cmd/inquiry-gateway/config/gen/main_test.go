package main

import (
	"os"
	"testing"
)

func TestWhatIsGeneratedIsUpToDate(t *testing.T) {
	files, err := generate("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range files {
		if have, err := os.ReadFile(file); err != nil || string(have) != string(want) {
			t.Errorf("%s is not what the structs say (%v); run: go generate ./cmd/inquiry-gateway/config", file, err)
		}
	}
}
