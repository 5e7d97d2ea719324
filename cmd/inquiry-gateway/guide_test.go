package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// The guide's configuration is refused for the reasons that the guide names, and
// good once it is mended as the guide says.
func TestTheGuideWorksAsItStands(t *testing.T) {
	p := start(t, setup{legacy: legacy.Options{Seed: 1}})
	guide, err := os.ReadFile(filepath.Join("..", "..", "deploy", "examples", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	block := func(i int) string { return string(blocks[i][1]) }
	base := p.upstream
	try := func(name, text string) (out, errOut string, code int) {
		p.write(name, strings.Replace(text, demoLegacyURL, base, 1))
		return command(t, "probe", "-c", filepath.Join(p.dir, name), "--kind", "buyer", "--account", "acme", "--records", "1")
	}
	out, _, code := try("first.yaml", block(0))
	for _, line := range []string{"record 1\n", `  7       status  "C"  a value that has no entry in values`, "  replies.#.uuid          string\n", "refused: 6 records that the mapping cannot accept\n"} {
		if !strings.Contains(out, line) || !strings.Contains(string(guide), line) || code != 1 {
			t.Errorf("exit code %d, guide or probe do not say %q:\n%s", code, line, out)
		}
	}
	mended := strings.Replace(block(0), "      status: {path: state, values: {N: pending, A: answered}}\n", block(1), 1)
	mended = strings.Replace(mended, "    owner: customer.id\n", block(2), 1)
	if out, errOut, code := try("mended.yaml", mended); code != 0 || !strings.HasSuffix(out, "\ngood: the gateway would serve this list\n") {
		t.Errorf("mended: exit code %d: %s%s", code, out, errOut)
	}
	// Step 4; the guide's keys.yaml is there already.
	out, errOut, code := command(t, "check", "-c", filepath.Join(p.dir, "mended.yaml"), "--live", "--buyer", "acme", "--seller", "hanriver")
	if code != 0 || !strings.Contains(out, "buyer acme: good, 24 records") || !strings.Contains(string(guide), "buyer acme: good, 24 records") {
		t.Errorf("check: exit code %d: %s%s", code, out, errOut)
	}
}

// Each guarantee of the README names tests of this package or of app.
func TestGuaranteesNameTests(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("app/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []byte
	for _, file := range append(files, below...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests = append(tests, text...)
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(readme, -1)
	if len(names) < 20 {
		t.Errorf("the README names %d tests", len(names))
	}
	for _, name := range names {
		if !bytes.Contains(tests, append(append([]byte("\nfunc "), name[1]...), '(')) {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// The README's picture of one request names functions as package.function. Each
// of them exists.
func TestPictureNamesFunctions(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(readme), "```mermaid\n")
	picture, _, closed := strings.Cut(picture, "```")
	names := regexp.MustCompile(`\b((?:auth|cache|gateway|upstream)(?:/\w+)*)\.(\w+)`).FindAllStringSubmatch(picture, -1)
	if !closed || len(names) < 15 {
		t.Fatalf("the picture names %d functions", len(names))
	}
	for _, name := range names {
		function := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name[2] + `[(\[]`)
		if !function.MatchString(sources(t, name[1])) {
			t.Errorf("there is no function %s", name[0])
		}
	}
}

// sources is the text of a package, tests aside.
func sources(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
