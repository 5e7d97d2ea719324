package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/internal/yamlfile"
)

// environment has the variables of all tests of this package.
var environment = map[string]string{
	"PORT": "9000", "RATE": "0.5", "SECRET": "hunter2", "SHORT": "7", "BRACED": "{hunter}", "HOST": "db", "WORD": "x", "ZONE": "Q", "USER": "u",
	"SLOW": "6s", "QUICK": "5s", "NULL": "null", "TILDE": "~", "EMPTY": "",
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fakeEnv(name string) (string, bool) {
	v, ok := environment[name]
	return v, ok
}

// example gives the documented example, with some of its text replaced.
func example(t testing.TB, pairs ...string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/example.yaml")
	must(t, err)
	text := string(data)
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if !strings.Contains(text, pairs[0]) {
			t.Fatalf("%q is not in the example", pairs[0])
		}
		text = strings.Replace(text, pairs[0], pairs[1], 1)
	}
	return text
}

// folder is a configuration's folder with all the files that a test names.
func folder(t *testing.T, gatewayYAML string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"keys.yaml", "pepper", "token", "tls.pem", "tls.key", "legacy.ca"} {
		write(t, filepath.Join(dir, name), "content-of-"+name+"\n")
	}
	for name, text := range map[string]string{"blank": " \n", "words": "one two\n", "key": "k\n", "same-key": "k\r\n"} {
		write(t, filepath.Join(dir, name), text)
	}
	return write(t, filepath.Join(dir, "gateway.yaml"), gatewayYAML)
}

// loadText loads a text as the file gateway.yaml of a folder, and gives the mistakes found.
func loadText(t *testing.T, text string) (Config, []string) {
	t.Helper()
	path := folder(t, text)
	c, err := Load(path, Options{Env: fakeEnv})
	got := lines(err)
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], filepath.Dir(path)+"/", "")
		got[i] = strings.ReplaceAll(got[i], filepath.Dir(path), "FOLDER")
	}
	return c, got
}

// good loads a text that has no mistakes.
func good(t *testing.T, text string) Config {
	t.Helper()
	c, problems := loadText(t, text)
	if problems != nil {
		t.Fatalf("got\n%s", strings.Join(problems, "\n"))
	}
	return c
}

// parsed loads a text without a folder, for the tests that load thousands.
func parsed(text string) (Config, error) {
	return load(documentOf(text), Options{Env: fakeEnv, KeysMayMiss: true})
}

// documentOf parses a text as the file gateway.yaml.
func documentOf(text string) document {
	doc := newDocument(yamlfile.Parse("gateway.yaml", []byte(text), fakeEnv))
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
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
