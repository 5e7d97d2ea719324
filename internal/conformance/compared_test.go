package conformance

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// TestDifferences replaces a part of what a run has shown, and looks for the difference.
func TestDifferences(t *testing.T) {
	const shown = `{"data":[{"title":"Late"},{"title":"Later"}]}
W/1
/tickets
{"msg":"request","status":200,"time":"2026-01-02T03:04:05Z","listen":"127.0.0.1:1"}
hits_total{kind="buyer"} 1
took_seconds_sum{kind="buyer"} 1.5`
	see := func(old, now string) observation {
		o, parts := observation{run: "a run", facts: map[fact][]string{}}, strings.SplitN(strings.Replace(shown, old, now, 1), "\n", 5)
		o.answer(&http.Response{Status: "200 OK", Header: http.Header{"Etag": {parts[1]}, "Date": {now}}}, []byte(parts[0]), "GET /list", false)
		o.requests(&replayer{seen: []*http.Request{{Method: http.MethodGet, URL: &url.URL{Path: parts[2]}}}, bodies: []string{""}})
		o.log(parts[3] + "\n")
		o.metrics("# TYPE x\n" + parts[4] + "\n")
		return o
	}
	for _, c := range [][3]string{
		{`"Later"`, `"Last"`, `answer body data[].title: "Later" -> "Last"`},
		{`"Later"`, `"Later","id":1`, `answer body data[].id: none -> "1"`},
		{`{"data"`, "data", `answer body: none -> data`},
		{"W/1", "W/2", "answer header Etag: W/1 -> W/2"},
		{"/tickets", "/t", "request to the legacy system path: /tickets -> /t"},
		{"status", "code", `log line "request" status: 200 -> none`},
		{`"request"`, `"asked"`, `log line "asked": none -> there`},
		{"hits_", "hit_", "metric hits_total: there -> none"},
		{"kind", "sort", "metric hits_total: there -> none"},
		{" 1\n", " 2\n", "metric hits_total value: 1 -> 2"},
		{"2026", "2027", ""}, {"127.0.0.1:1", "127.0.0.1:2", ""}, {"1.5", "2.5", ""},
	} {
		var out bytes.Buffer
		printDifferences(&out, diff(see("", ""), see(c[0], c[1])))
		if !strings.Contains(out.String(), c[2]) || c[2] == "" && out.Len() > 0 {
			t.Errorf("%s: want %s, got\n%s", c[1], c[2], &out)
		}
	}
}

// Differences of one kind are one line for each pair of values, or one in all if the pairs are many.
func TestKindsOfDifferences(t *testing.T) {
	var found []difference
	for i, v := range strings.Fields("a b c d e f") {
		found = append(found, difference{fact{"answer", "title", "a run"}, "", v}, difference{fact{"answer", "text", "a run"}, "old", v},
			difference{fact{"answer", "status", "a run"}, "200", []string{"404", "502"}[i%2]})
	}
	var out bytes.Buffer
	printDifferences(&out, found)
	const want = "     3  answer status: 200 -> 404\n|     3  answer status: 200 -> 502\n|     6  answer text: old -> |     6  answer title: none -> "
	for _, line := range strings.Split(want, "|") {
		if !strings.Contains(out.String(), line) || strings.Count(out.String(), "\n") != 8 {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
}

// The program behaves as it does itself, and otherwise with another example.
func TestCompared(t *testing.T) {
	same, only := tree{dir: "../..", binary: testkit.BuildGateway(t)}, regexp.MustCompile("^odata-v2: (all lists|recording|an error reply)|^conversations")
	other := tree{dir: t.TempDir(), binary: same.binary}
	if err := os.CopyFS(filepath.Join(other.dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(other.dir, "examples/odata-v2.yaml")
	text := testkit.Read(t, example)
	changed := strings.NewReplacer("\nrate_limit:", "\n#", "title: Subject", "title: Text", "$orderby: CreatedAt desc,Id", "$orderby: Id").Replace(text)
	testkit.Write(t, example, changed)
	var out bytes.Buffer
	if printDifferences(&out, compare(t, [2]tree{same, same}, only)); out.Len() > 0 {
		t.Errorf("it differs from itself:\n%s", &out)
	}
	printDifferences(&out, compare(t, [2]tree{same, other}, regexp.MustCompile("^odata-v2: all lists")))
	for _, want := range []string{
		`answer header Ratelimit-Policy: "default";q=10000;w=1 -> none`, `answer body data[].title: "Late delivery" -> "`, "request to the legacy system query: ",
		`log line "serving" limits.per_second: 10000 -> 0`, "metric inquiry_gateway_rate_limit_decisions_total value: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
