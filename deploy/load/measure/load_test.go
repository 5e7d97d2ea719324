package measure

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const wrkOutput = `Running 1s test @ http://127.0.0.1:1
  1 threads and 64 connections
Requests/sec:  25731.10
SUMMARY {"requests":25731,"duration_us":1000000,"bytes":257310000,"failed":2,"status":3,"p50_us":1900,"p99_us":29600}
`

const h2loadOutput = `starting benchmark...
finished in 1.01s, 18755.00 req/s, 495.04KB/s
requests: 18757 total, 18759 started, 18757 done, 18750 succeeded, 4 failed, 2 errored, 1 timeout
status codes: 18751 2xx, 1 3xx, 3 4xx, 2 5xx
traffic: 495.04KB (506926) total, 73.54KB (75308) headers (space savings 96.02%), 91.58KB (93775) data
`

func TestParseWrk(t *testing.T) {
	got, err := ParseWrk([]byte(wrkOutput))
	if err != nil {
		t.Fatal(err)
	}
	want := Load{Requests: 25731, Duration: time.Second, Bytes: 257310000, P50: 1900 * time.Microsecond, P99: 29600 * time.Microsecond, Errors: 2, BadStatus: 3}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Rate() != 25731 {
		t.Errorf("rate %v", got.Rate())
	}
	if _, err := ParseWrk([]byte("unable to connect\n")); !errors.Is(err, errNoSummary) {
		t.Errorf("output without a summary: %v", err)
	}
}

func TestParseH2load(t *testing.T) {
	got, err := ParseH2load([]byte(h2loadOutput))
	if err != nil {
		t.Fatal(err)
	}
	want := Load{Requests: 18757, Duration: 1010 * time.Millisecond, Bytes: 506926, Errors: 3, BadStatus: 5}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := ParseH2load([]byte("finished in 1s,")); !errors.Is(err, errH2Summary) {
		t.Errorf("half a summary: %v", err)
	}
}

func TestPercentiles(t *testing.T) {
	var log strings.Builder
	for _, us := range []string{"5", "1", "4", "2", "3"} {
		log.WriteString("1795263280809472\t200\t" + us + "\n")
	}
	got, err := Percentiles(strings.NewReader(log.String()), 0, 0.5, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{1, 3, 5} {
		if got[i] != want*time.Microsecond {
			t.Errorf("percentile %d is %s", i, got[i])
		}
	}
	for _, bad := range []string{"", "1 200\n", "1 200 x\n"} {
		if _, err := Percentiles(strings.NewReader(bad), 0.5); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestCheckRefusesALoadWithErrors(t *testing.T) {
	good := Load{Requests: 10}
	if err := good.Check(); err != nil {
		t.Errorf("a good load: %v", err)
	}
	for _, bad := range []Load{{}, {Requests: 10, Errors: 1}, {Requests: 10, BadStatus: 1}} {
		if bad.Check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestScriptHoldsKeysAndRequests(t *testing.T) {
	script := Script([]string{"key-1", "key-2"}, []Request{
		{Path: "/a?b=c"}, {Path: "/d", Header: map[string]string{"If-None-Match": `W/"x"`}},
	})
	for _, want := range []string{
		`local keys = {"key-1","key-2",}`, `{path = "/a?b=c", header = {}},`, `["If-None-Match"] = "W/\034x\034",`, "function request()", "function done(",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("the script lacks %s", want)
		}
	}
}

func TestLuaStringEscapesEverything(t *testing.T) {
	if got, want := luaString("a\"\\\n\x00é~"), `"a\034\092\010\000\195\169~"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestGeneratorsSayWhatFailed runs programs that end badly at once.
func TestGeneratorsSayWhatFailed(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "wrk")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho unable to connect >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	_, err := Wrk{URL: "http://127.0.0.1:1", Script: "x.lua", Connections: 1}.Run(t.Context(), time.Second)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "unable to connect") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte(wrkOutput))
	f.Add([]byte(h2loadOutput))
	f.Add([]byte(metricsText))
	f.Add([]byte(heapText))
	f.Add([]byte(statLine))
	f.Add([]byte("1 200 7\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if l, err := ParseWrk(text); err != nil && l != (Load{}) {
			t.Errorf("an error and %+v", l)
		}
		if l, err := ParseH2load(text); err != nil && l != (Load{}) {
			t.Errorf("an error and %+v", l)
		}
		if h, err := ParseHeap(text); err != nil && h != (Heap{}) {
			t.Errorf("an error and %+v", h)
		}
		if p, err := Percentiles(strings.NewReader(string(text)), 0.5, 0.99); err == nil && p[0] > p[1] {
			t.Errorf("p50 %s above p99 %s", p[0], p[1])
		}
		for name := range ParseSeries(text) {
			if strings.ContainsAny(name, "\n") {
				t.Errorf("a series named %q", name)
			}
		}
		if _, cpu, err := parseStat(text); err != nil && cpu != 0 {
			t.Errorf("an error and %s", cpu)
		}
	})
}
