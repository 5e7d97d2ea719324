package conformance

import (
	"encoding/xml"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	write  = flag.Bool("write", false, "hold the cases in pieces, too, and write "+reportFile)
	h2spec = flag.String("h2spec", "", "path of h2spec; empty: it does not run")
)

const reportFile = "../../../deploy/docs/conformance.md"

// publicName is that of a case of the public tests which asks the same.
var publicName = regexp.MustCompile(`(?:^|, )as ([a-zA-Z0-9-]+)$`)

// writeReport is for people; failed are the tests of h2spec that each server fails.
func writeReport(t *testing.T, cases []testCase, failed map[string][]string) {
	var b strings.Builder
	fmt.Fprintf(&b, "# What the gateway does with HTTP\n\nWritten by `make conformance`; the cases are in `cmd/inquiry-gateway/conformance/testdata`.\n\n%s.\n\n", fmt.Sprintf("%s on %s/%s, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly)))
	fmt.Fprintf(&b, "%d conversations of bytes, each with a declared verdict: the status of each answer, conditions on its fields, and whether the connection stays or closes.\n"+
		"Each was held with the gateway in these ways, and each time the verdict was the declared one:\n\n", len(cases))
	for _, m := range modes {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	table := func(title string, head []string, row func(testCase) []string) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, c := range cases {
			if cells := row(c); cells != nil {
				fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(append([]string{c.section}, cells...), " | "), "*", `\*`))
			}
		}
	}
	table("Where the RFC advises something else", []string{"section", "conversation", "verdict", "why"}, func(c testCase) []string {
		if c.declared == "" {
			return nil
		}
		return []string{c.title, c.verdict(), c.declared}
	})
	table("Where net/http alone does something else", []string{"section", "conversation", "the gateway", "net/http, its mux and its ServeContent", "why"}, func(c testCase) []string {
		if c.bare == "" {
			return nil
		}
		return []string{c.title, c.verdict(), c.bare, c.bareWhy}
	})
	table("Cases of the public cache tests", []string{"section", "http-tests/cache-tests", "verdict"}, func(c testCase) []string {
		name := publicName.FindStringSubmatch(c.title)
		if name == nil {
			return nil
		}
		return []string{"`" + name[1] + "`", c.verdict()}
	})
	b.WriteString("\nThe others are about what a cache does with the fields of an origin server's answers. The gateway reads none of\n" +
		"them: its configuration says how long a list is fresh.\n")
	if failed != nil {
		fmt.Fprintf(&b, "\n## HTTP/2\n\n[h2spec](https://github.com/summerwind/h2spec) fails with each server in these tests; with the gateway in none that net/http alone passes.\n\n")
		for _, name := range slices.Sorted(maps.Keys(failed)) {
			fmt.Fprintf(&b, "- %s: %s\n", name, strings.Join(failed[name], "; "))
		}
	}
	if t.Failed() {
		return // what failed is not written down as what is
	}
	if err := os.WriteFile(reportFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runH2Spec gives the tests that each server fails. The gateway fails none that bare passes.
// In some of them a slow machine decides what comes first, the answer or the rest of the
// request: those are run again.
func runH2Spec(t *testing.T, servers map[mode]server, bare server) map[string][]string {
	if *h2spec == "" {
		return nil
	}
	of := failures(t, bare)
	failed := map[string][]string{"net/http alone": of}
	for _, m := range modes[:quickModes] {
		name := "the gateway, " + m.String()
		failed[name] = slices.DeleteFunc(failures(t, servers[m]), func(test string) bool {
			section, _, _ := strings.Cut(test, " ")
			for range 3 {
				if slices.Contains(of, test) {
					return false
				}
				if !slices.Contains(failures(t, servers[m], section), test) {
					return true
				}
			}
			t.Errorf("%s fails %s", name, test)
			return false
		})
	}
	return failed
}

func failures(t *testing.T, s server, sections ...string) (names []string) {
	host, port, _ := strings.Cut(s.address, ":")
	file := filepath.Join(t.TempDir(), "h2spec.xml")
	args := []string{"-h", host, "-p", port, "-P", "/nowhere", "--junit-report", file}
	if s.secure {
		args = append(args, "-t", "-k")
	}
	_ = exec.CommandContext(t.Context(), *h2spec, append(args, sections...)...).Run() // fails with its tests
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Suites []struct {
			Cases []struct {
				Package string    `xml:"package,attr"`
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &result); err != nil || len(result.Suites) == 0 {
		t.Fatal(err)
	}
	for _, suite := range result.Suites {
		for _, c := range suite.Cases {
			if c.Failure != nil || c.Error != nil {
				names = append(names, c.Package+" "+c.Name)
			}
		}
	}
	return names
}
