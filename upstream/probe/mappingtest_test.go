package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit/cases"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
)

const examples = "../../examples"

// upstreamOf is the upstream section of an example.
func upstreamOf(t *testing.T, name string) upstream.Config {
	t.Helper()
	cfg, err := config.Load(filepath.Join(examples, name), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Upstream
}

// runFile runs the tests in a file.
func runFile(t *testing.T, cfg upstream.Config, file string) ([]Result, error) {
	t.Helper()
	var tests []Test
	if err := yamlfile.Read(file, &tests); err != nil {
		return nil, err
	}
	return RunTests(t.Context(), cfg, tests, filepath.Dir(file), v1.Render)
}

// Every shipped example has tests, and passes them. What the guide tells a new user
// to do with a saved reply works on each.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "tests", "*.yaml"))
	all, globErr := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || globErr != nil || len(files) < 5 || len(files) != len(all)-1 { // keys.yaml is none
		t.Fatalf("%q, %q, %v, %v", files, all, err, globErr)
	}
	for _, file := range files {
		cfg := upstreamOf(t, filepath.Base(file))
		results, err := runFile(t, cfg, file)
		if err != nil || len(results) < 4 {
			t.Errorf("%s: %d tests, %v", file, len(results), err)
		}
		for _, r := range results {
			if len(r.Differences) > 0 {
				t.Errorf("%s: %s: %s", file, r.Name, strings.Join(r.Differences, "\n"))
			}
		}
		account := "4711"
		if strings.Contains(file, "salesforce") {
			account = "001D000000IqhSLIAZ"
		}
		samples, err := filepath.Glob(strings.TrimSuffix(file, ".yaml") + "*.[jx]*") // JSON or XML
		if err != nil || len(samples) == 0 {
			t.Fatalf("%q, %v", samples, err)
		}
		for _, file := range samples {
			if strings.Contains(file, "comments") {
				continue // the reply to a second call
			}
			sample, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for kind, other := range map[string]string{"buyer": "-seller", "seller": "-buyer"} {
				if strings.Contains(file, other) || kind == "buyer" && cfg.Buyer.Details.Fetch.Path != "" {
					continue // it is not the whole of this list
				}
				p, err := Run(t.Context(), cfg, upstream.Request{Kind: kind, Account: account}, Options{Sample: sample})
				if err != nil || p.Problem != "" || p.Items == 0 || len(p.Violations) > 0 || p.Owner.Matches != p.Items {
					t.Errorf("%s %s: %+v %v", file, kind, p, err)
				}
			}
		}
	}
}

// Tests of a mapping that differ from what comes out, with the lines that say so; and tests
// that are none.
func TestDifferences(t *testing.T) {
	cfg := upstreamOf(t, "bare-array.yaml")
	const record = `{vendor: a, subject: s, open: true, customer_name: c, created: "/Date(0)/"}`
	for _, c := range cases.Read(t, "testdata/differences.txt") {
		tests, said, _ := strings.Cut(c.Text, "=>\n")
		tests = strings.NewReplacer("$record", record, "$one", "kind: seller, account: a, replies: [{body: ["+record+"]}]").Replace(tests)
		file := filepath.Join(t.TempDir(), "tests.yaml")
		if err := os.WriteFile(file, []byte(tests), 0o600); err != nil {
			t.Fatal(err)
		}
		results, err := runFile(t, cfg, file)
		var got []string
		for _, r := range results {
			got = append(got, r.Differences...)
		}
		want := strings.FieldsFunc(strings.TrimSpace(said), func(r rune) bool { return r == '\n' })
		if err != nil && len(want) == 1 && strings.HasPrefix(want[0], "! ") && strings.Contains(err.Error(), want[0][2:]) {
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v\n%s\nwant\n%s", c.Name, err, strings.Join(got, "\n"), said)
		}
	}
}
