package main

import (
	"os"
	"strings"
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

// Each key has a text of its own, in a table with a head.
func TestEachKeyHasAText(t *testing.T) {
	files, _ := generate("../../../..")
	before := ""
	for line := range strings.Lines(string(files["../../../../docs/configuration.md"])) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(before, "|") && !strings.HasPrefix(line, "| key |") {
			t.Errorf("a table without a head: %s", line)
		}
		before = line
		if cells := strings.Split(line, " | "); len(cells) == 5 && (len(cells[3]) < 12 && cells[0] != "| key" || strings.HasPrefix(cells[3], ";")) {
			t.Errorf("no text: %s", line)
		}
	}
}
