package conformance

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// A planted difference of each kind is found, and what is another value each time is none.
func TestDifferences(t *testing.T) {
	base := []string{`{"data":[{"title":"Late"},{"title":"Later"}]}`, "/tickets", `{"msg":"request","status":200,"time":"2026-01-02T03:04:05Z"}`, `hits_total{kind="buyer"}`, " 1", "W/1"}
	see := func(parts []string) observation {
		o := observation{run: "a run", facts: map[fact][]string{}}
		header := http.Header{"Date": {"now"}, "Age": {"7"}}
		if parts[5] != "" {
			header.Set("Etag", parts[5])
		}
		o.answer(&http.Response{Status: "200 OK", Proto: "HTTP/1.1", Header: header}, []byte(parts[0]), "GET /list", false)
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1"+parts[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		o.requests(&replayer{seen: []*http.Request{r}, bodies: []string{""}})
		o.log(parts[2] + "\n" + `{"msg":"serving","listen":"127.0.0.1:1"}` + "\n")
		o.metrics("# TYPE x\n" + parts[3] + parts[4] + "\n" + `took_seconds_sum{kind="buyer"} 1.5` + "\n")
		return o
	}
	for _, c := range []struct {
		part          int
		changed, want string
	}{
		{0, `{"data":[{"title":"Late"},{"title":"Last"}]}`, `answer body data[].title: "Later" -> "Last"`},
		{0, `{"data":[{"title":"Late"},{"title":"Later","id":null}]}`, `answer body data[].id: none -> "<nil>"`},
		{0, "oops", `answer body: none -> oops`},
		{5, "", `answer header Etag: W/1 -> none`},
		{1, "/t", `request to the legacy system path: /tickets -> /t`},
		{2, `{"msg":"request","status":404,"time":"2027-01-02T03:04:05Z"}`, `log line "request" status: 200 -> 404`},
		{2, `{"msg":"request","time":"2027-01-02T03:04:05Z"}`, `log line "request" status: 200 -> none`},
		{2, `{"msg":"request","status":200,"time":"2027-01-02T03:04:05Z"}`, ""},
		{2, `{"msg":"asked","status":200}`, `log line "asked": none -> there`},
		{3, `hit_total{kind="buyer"}`, `metric hit_total: none -> there`},
		{3, `hits_total{sort="buyer"}`, `metric hits_total: none -> there`},
		{4, " 2", `metric hits_total value: 1 -> 2`},
	} {
		parts := append([]string{}, base...)
		parts[c.part] = c.changed
		var out bytes.Buffer
		printDifferences(&out, diff(see(base), see(parts)))
		if !strings.Contains(out.String(), c.want) || c.want == "" && out.Len() > 0 {
			t.Errorf("%s: want %s, got\n%s", c.changed, c.want, &out)
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
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("\nrate_limit:", "\n#", "title: Subject", "title: Text", "$orderby: CreatedAt desc,Id", "$orderby: Id").Replace(string(text))
	if err := os.WriteFile(example, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
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
