package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit/program"
)

// seenAt is an observation into which differences are planted.
func seenAt() observation {
	return observation{
		answers:  []answer{{name: "GET /list", fields: map[string]string{"status": "200 OK", "header Etag": `W/"1"`, "body data[0].title": "Late", "body data[1].title": "Later"}}},
		requests: []map[string]string{{"method": "GET", "path": "/tickets"}, {"method": "GET", "path": "/tickets/1"}},
		log:      []map[string]string{{"msg": "request", "status": "200"}, {"msg": "request", "status": "404"}, {"msg": "serving"}},
		metrics:  map[string]string{`hits_total{kind="buyer"}`: "1", "lists": "2"},
	}
}

func TestDiff(t *testing.T) {
	for want, plant := range map[string]func(o *observation){
		"": func(o *observation) { o.log[0], o.log[1] = o.log[1], o.log[0] },
		`answer status: "200 OK" -> "502 Bad Gateway"`: func(o *observation) { o.answers[0].fields["status"] = "502 Bad Gateway" },
		`answer header Etag: "W/\"1\"" -> none`:        func(o *observation) { delete(o.answers[0].fields, "header Etag") },
		`answer body data[].title: "Later" -> ""`:      func(o *observation) { o.answers[0].fields["body data[1].title"] = "" },
		`answers: 1 -> 0`:                              func(o *observation) { o.answers = nil },
		`legacy request path: "/tickets/1" -> "/t/1"`:  func(o *observation) { o.requests[1]["path"] = "/t/1" },
		`legacy request: there -> none`:                func(o *observation) { o.requests = o.requests[:1] },
		`log line "request" status: "404" -> "400"`:    func(o *observation) { o.log[1]["status"] = "400" },
		`log line "request" id: none -> "1"`:           func(o *observation) { o.log[0]["id"] = "1" },
		`log line "more": none -> there`:               func(o *observation) { o.log = append(o.log, map[string]string{"msg": "more"}) },
		`metric lists: 2 -> 3`:                         func(o *observation) { o.metrics["lists"] = "3" },
		`metric hits_total series: 1 -> none`:          func(o *observation) { delete(o.metrics, `hits_total{kind="buyer"}`) },
	} {
		o := seenAt()
		plant(&o)
		var all differences
		all.add(diff("a run", seenAt(), o))
		var out bytes.Buffer
		all.print(&out)
		first, where, _ := strings.Cut(out.String(), "\n")
		if got := strings.TrimLeft(first, " 1"); got != want || want != "" && (!strings.HasPrefix(where, "        in a run") || strings.Count(where, "\n") != 1) {
			t.Errorf("got\n%s, want %s", out.String(), want)
		}
	}
}

// Differences of one kind are one line for each pair of values, or one in all where the pairs are many.
func TestKinds(t *testing.T) {
	var all differences
	for i, v := range strings.Fields("a a b c d e f") {
		all.add([]difference{{kind: "answer body title", new: v, where: "a run"}, {kind: "answer status", old: "200", new: []string{"404", "502"}[i%2], where: "a run"}})
	}
	var out bytes.Buffer
	all.print(&out)
	want := "     7  answer body title: none -> a\n        in a run\n     4  answer status: 200 -> 404\n        in a run\n     3  answer status: 200 -> 502\n        in a run\n"
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"list 4711 of http://127.0.0.1:4711/x, 0f0e0d0c0b0a09080706050403020100": "list 4711 of http://{address}/x, {id}",
		"/tmp/compare1/run22/keys.yaml changed at 2026-11-28T12:51:40.19442645Z": "{folder}/keys.yaml changed at {time}",
		"after 12ms, 1.5s, 1m30.25s; the timeout is 5s":                          "after {duration}, {duration}, {duration}; the timeout is 5s",
	} {
		if got := maskText(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for series, masked := range map[string]bool{
		"go_goroutines": true, "fetch_duration_seconds_sum": true, `fetch_duration_seconds_bucket{le="0.1"}`: true, `fetch_duration_seconds_bucket{le="+Inf"}`: false,
		`fetch_duration_seconds_count{kind="buyer"}`: false, "hits_total": false, `size_bytes_bucket{le="10"}`: false,
	} {
		if got := maskMetric(series, "1") != "1"; got != masked {
			t.Errorf("%s: masked %t", series, got)
		}
	}
}

// TestReport compares the program with itself, and with itself with a changed example and a changed log.
func TestReport(t *testing.T) {
	binary := program.Build(t)
	same := tree{dir: "../..", binary: binary}
	only := regexp.MustCompile(`^odata-v2/(case 1|all)|^conversations`)
	if out := reported(t, [2]tree{same, same}, only); out != "" {
		t.Errorf("differs from itself:\n%s", out)
	}
	other := tree{dir: t.TempDir(), binary: filepath.Join(t.TempDir(), "gateway")}
	if err := os.CopyFS(filepath.Join(other.dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(other.dir, "examples/odata-v2.yaml")
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, text string, mode os.FileMode) {
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	changed := strings.NewReplacer("\nrate_limit:", "\n#", "title: Subject", "title: Text", "$orderby: CreatedAt desc,Id", "$orderby: Id").Replace(string(text))
	write(example, changed, 0o600)
	write(other.binary, "#!/bin/sh\nexec "+binary+` "$@" 2>&1 | sed -u 's/"client_address"/"client"/'`+"\n", 0o700)
	out := reported(t, [2]tree{same, other}, regexp.MustCompile(`^odata-v2/(case 1|all)`))
	for _, want := range []string{
		`answer header Ratelimit-Policy: "\"default\";q=`, `answer body data[].title: "Late delivery" -> "`, "legacy request query: ", `log line "request" client: none -> "127.0.0.1"`,
		`log line "request" client_address: "127.0.0.1" -> none`, "metric inquiry_gateway_",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

func reported(t *testing.T, trees [2]tree, only *regexp.Regexp) string {
	t.Helper()
	var out bytes.Buffer
	differ, err := report(t.Context(), &out, trees, t.TempDir(), only)
	if err != nil || differ != (out.Len() > 0) {
		t.Fatalf("differ %t, %v:\n%s", differ, err, &out)
	}
	return out.String()
}

// Every recording is of an example, and is read whole.
func TestRecordings(t *testing.T) {
	files, err := recordings.ReadDir("testdata/recordings")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, f := range files {
		example, ok := strings.CutSuffix(f.Name(), ".json.gz")
		if !ok {
			continue
		}
		_, err := os.Stat("../../examples/" + example + ".yaml")
		if replies, failed := recorded(example); err != nil || failed != nil || replies == nil {
			t.Errorf("%s: %v, %v", f.Name(), err, failed)
		}
		made[example] = true
	}
	if len(made) < 3 {
		t.Errorf("recordings of %v only", maps.Keys(made))
	}
}
