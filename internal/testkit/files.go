package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Read returns the text of a file. A file that cannot be read ends the test.
func Read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Write writes a file that only its owner may read, with the folders above it. A file that cannot be
// written ends the test.
func Write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
