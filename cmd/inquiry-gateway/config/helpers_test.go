package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/yamlfile"
)

// fakeEnv is the environment of all tests of this package.
func fakeEnv(name string) (string, bool) {
	v, ok := map[string]string{"PORT": "9000", "SECRET": "hunter2", "TTL": "45s"}[name]
	return v, ok
}

// sample is a section with files.
type sample struct {
	KeyFile secretfile.File `yaml:"key_file"`
	Inner   inner           `yaml:"inner"`
	Many    []inner         `yaml:"many"`
}

type inner struct {
	CAFile secretfile.File `yaml:"ca_file"`
}

// documentOf parses a text as the file gateway.yaml.
func documentOf(text string) document {
	doc := newDocument(yamlfile.Parse("gateway.yaml", text, fakeEnv))
	doc.Path = "/etc/gw/gateway.yaml"
	return doc
}

// lines gives an error line by line.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// write makes a file of a test and gives its path.
func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
