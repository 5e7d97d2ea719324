package conformance

import (
	"encoding/xml"
	"flag"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

var h2spec = flag.String("h2spec", "", "path of h2spec; empty: TestH2Spec does nothing")

// bareFailures are the tests of h2spec 2.2 that net/http alone fails, by section and
// number: it closes a connection where the test wants a frame, or the other way round.
var bareFailures = []string{"http2/3.5/2", "http2/4.2/3", "http2/6.5.3/1", "http2/8.1.2.2/1", "http2/8.1.2.2/2"}

// TestH2Spec holds h2spec against the gateway, which may fail what net/http fails and
// nothing else. A test whose result depends on how fast the machine is has six tries.
func TestH2Spec(t *testing.T) {
	if *h2spec == "" {
		return // make conformance gives it: it takes a minute
	}
	for m, s := range startServers(t) {
		failed := h2specFailures(t, s, "")
		for range 5 {
			failed = slices.DeleteFunc(failed, func(test string) bool {
				return slices.Contains(bareFailures, test) || len(h2specFailures(t, s, test)) == 0
			})
		}
		if len(failed) > 0 {
			t.Errorf("%s: %v fail", m, failed)
		}
	}
}

// h2specFailures runs one test, or all, and names those that fail as h2spec does.
func h2specFailures(t *testing.T, s server, test string) (names []string) {
	host, port, _ := strings.Cut(s.address, ":")
	file := filepath.Join(t.TempDir(), "h2spec.xml")
	args := []string{"-h", host, "-p", port, "-P", "/nowhere", "--junit-report", file}
	if s.secure {
		args = append(args, "-t", "-k")
	}
	if test != "" {
		args = append(args, test)
	}
	_ = exec.CommandContext(t.Context(), *h2spec, args...).Run() // fails with its tests
	text := testkit.Read(t, file)
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
	if err := xml.Unmarshal([]byte(text), &result); err != nil || len(result.Suites) == 0 {
		t.Fatal(err)
	}
	for _, suite := range result.Suites {
		for i, c := range suite.Cases {
			if c.Failure != nil || c.Error != nil {
				number := test
				if test == "" {
					number = c.Package + "/" + strconv.Itoa(i+1)
				}
				names = append(names, number)
			}
		}
	}
	return names
}
