package main

import (
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
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
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
