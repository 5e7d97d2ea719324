package measure

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const wrkOutput = `Running 1s test @ http://127.0.0.1:1
  1 threads and 64 connections
Requests/sec:  25731.10
SUMMARY {"Requests":25731,"Duration":1000000000,"Bytes":257310000,"Errors":2,"BadStatus":3,"P50":1900000,"P99":29600000}
`

const h2loadOutput = `starting benchmark...
finished in 1.01s, 18755.00 req/s, 495.04KB/s
requests: 18757 total, 18759 started, 18757 done, 18750 succeeded, 4 failed, 2 errored, 1 timeout
status codes: 18751 2xx, 1 3xx, 3 4xx, 2 5xx
traffic: 495.04KB (506926) total, 73.54KB (75308) headers (space savings 96.02%), 91.58KB (93775) data
`

const h2log = "1795263280809472\t200\t5\n1795263280809472\t200\t1\n1795263280809472\t200\t3\n"

const metricsText = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",endpoint="a"} 10
requests_total{code="304",endpoint="a"} 2.5e1
requests_total{code="200",endpoint="b c"} 100
# TYPE up gauge
up 1
`

const heapText = `heap profile: 1: 2 [3: 4] @ heap/1048576
1: 2 [3: 4] @ 0x1 0x2
# runtime.MemStats
# Alloc = 439608
# TotalAlloc = 67377888
# Mallocs = 733643
# LastGC = 1010000000000
# PauseNs = [1 2 3]
# GCCPUFraction = 0.25
# DebugGC = false
`

func TestParseWrk(t *testing.T) {
	got, err := parseWrk([]byte(wrkOutput))
	want := Load{Requests: 25731, Duration: time.Second, Bytes: 257310000, P50: 1900 * time.Microsecond, P99: 29600 * time.Microsecond, Errors: 2, BadStatus: 3}
	if err != nil || got != want {
		t.Errorf("got %+v, want %+v, %v", got, want, err)
	}
	if got.Rate() != 25731 {
		t.Errorf("rate %v", got.Rate())
	}
	if _, err := parseWrk([]byte("unable to connect\n")); err == nil || !strings.Contains(err.Error(), "unable to connect") {
		t.Errorf("output without a summary: %v", err)
	}
}

func TestParseH2load(t *testing.T) {
	got, err := parseH2load([]byte(h2loadOutput))
	want := Load{Requests: 18757, Duration: 1010 * time.Millisecond, Bytes: 506926, Errors: 3, BadStatus: 5}
	if err != nil || got != want {
		t.Errorf("got %+v, want %+v, %v", got, want, err)
	}
	if _, err := parseH2load([]byte("finished in 1s,")); err == nil {
		t.Error("half a summary was taken")
	}
	p50, p99, err := parseH2log([]byte(h2log))
	if err != nil || p50 != 3*time.Microsecond || p99 < p50 || p99 > 5*time.Microsecond {
		t.Errorf("percentiles %s and %s, %v", p50, p99, err)
	}
	for _, bad := range []string{"", "1 200\n", "1 200 x\n"} {
		if _, _, err := parseH2log([]byte(bad)); err == nil {
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

// TestGeneratorsSayWhatFailed runs programs that end badly at once.
func TestGeneratorsSayWhatFailed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	plan := Plan{
		URL: "http://127.0.0.1:1", Keys: []string{"key-1", "key-2"}, Connections: 1, Files: filepath.Join(dir, "x"),
		Requests: []Request{{Path: "/a?b=c"}, {Path: "/d", Header: map[string]string{"If-None-Match": `W/"x"`}}},
	}
	for name, generator := range map[string]func(Plan) (Generator, error){"wrk": Wrk, "h2load": H2load} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho unable to connect >&2\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		load, err := generator(plan)
		if err != nil {
			t.Fatal(err)
		}
		_, err = load(context.Background(), time.Second)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(err.Error(), "unable to connect") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for file, want := range map[string]string{
		"x.keys": "key-1\nkey-2\n", "x.requests": "/a?b=c\n/d\tIf-None-Match\tW/\"x\"\n", "x.urls": "http://127.0.0.1:1/a?b=c\nhttp://127.0.0.1:1/d\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", file, got, err)
		}
	}
}

func TestUsageSumsUpTheGroup(t *testing.T) {
	group := syscall.Getpgrp()
	u, err := UsageOf(group)
	if err != nil || u.RSS <= 0 || u.Peak <= 0 || u.CPU < 0 || u.CPU > time.Hour {
		t.Errorf("this process's group is said to use %+v, %v", u, err)
	}
	child := exec.Command("sleep", "60")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if u, err := UsageOf(child.Process.Pid); err != nil || u.RSS <= 0 {
		t.Errorf("a process of its own is said to use %+v, %v", u, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	if _, err := UsageOf(child.Process.Pid); err == nil {
		t.Error("a process that has ended has a usage")
	}
}

func TestSeriesSum(t *testing.T) {
	s, err := ParseSeries([]byte(metricsText))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"requests_total", nil, 135},
		{"requests_total", map[string]string{"code": "200"}, 110},
		{"requests_total", map[string]string{"code": "200", "endpoint": "b c"}, 100},
		{"requests_total", map[string]string{"endpoint": "b"}, 0},
		{"up", nil, 1},
		{"down", nil, 0},
	} {
		if got := s.Sum(c.name, c.labels); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

func TestParseHeap(t *testing.T) {
	h, err := ParseHeap([]byte(heapText), time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	// A quarter of all processors for 10 s.
	want := Heap{TotalAlloc: 67377888, Mallocs: 733643, GC: time.Duration(runtime.GOMAXPROCS(0)) * 2500 * time.Millisecond}
	if h != want {
		t.Errorf("got %+v, want %+v", h, want)
	}
	if h, err := ParseHeap([]byte(heapText), time.Unix(2000, 0)); err != nil || h.GC != 0 {
		t.Errorf("without any collection it took %s, %v", h.GC, err)
	}
	if _, err := ParseHeap([]byte("heap profile: 0: 0\n"), time.Unix(1000, 0)); err == nil {
		t.Error("a profile without statistics was taken")
	}
}

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{wrkOutput, h2loadOutput, h2log, metricsText, heapText} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if l, err := parseWrk(text); err != nil && l != (Load{}) {
			t.Errorf("an error and %+v", l)
		}
		_, _ = parseH2load(text)
		if h, err := ParseHeap(text, time.Unix(0, 0)); err != nil && h != (Heap{}) {
			t.Errorf("an error and %+v", h)
		}
		if p50, p99, err := parseH2log(text); err == nil && p50 > p99 {
			t.Errorf("p50 %s above p99 %s", p50, p99)
		}
		_, _ = ParseSeries(text)
	})
}
