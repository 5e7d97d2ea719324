package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNodesAreConfiguredAsMeant loads what the gateway is started with.
func TestNodesAreConfiguredAsMeant(t *testing.T) {
	f, err := newFixture(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	load := func(n node) config.Config {
		t.Helper()
		n.backend = "127.0.0.1:9"
		file := f.path("node.yaml")
		if err := os.WriteFile(file, []byte(n.config("127.0.0.1:1", "127.0.0.1:2")), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(file, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Config
	}
	usual := load(node{records: 26})
	if usual.Upstream.BaseURL != "http://127.0.0.1:9/r26" || usual.Cache.Buyer.TTL != 4*time.Hour || usual.Cache.Jitter != 0 {
		t.Errorf("the usual node has %q, ttl %s, jitter %v", usual.Upstream.BaseURL, usual.Cache.Buyer.TTL, usual.Cache.Jitter)
	}
	if usual.Upstream.Timeout != 15*time.Second {
		t.Errorf("the legacy may take %s", usual.Upstream.Timeout)
	}
	if c := load(node{uncached: true}); c.Cache.Buyer.TTL != 0 {
		t.Errorf("an uncached node has ttl %s", c.Cache.Buyer.TTL)
	}
	if c := load(node{redis: "127.0.0.1:3", local: "1MiB", tls: true}); len(c.Redis.Addrs) != 1 || c.Cache.Local.MaxBytes != 1<<20 || c.TLS.CertFile == "" {
		t.Errorf("a second node has Redis %v, %d bytes and certificate %q", c.Redis.Addrs, c.Cache.Local.MaxBytes, c.TLS.CertFile)
	}
}

func TestKeysFileHoldsEveryKey(t *testing.T) {
	f, err := newFixture(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	store, err := auth.NewFileStore(f.path("keys.yaml"), auth.Hasher{}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authenticating(store, f.keys, 1000); err != nil {
		t.Errorf("a key of the fixture: %v", err)
	}
}

func TestExpectFindsABenchmarkThatLies(t *testing.T) {
	grown := func(code, outcome string, n float64) measure.Series {
		return measure.Series{
			seriesRequests + `{code="` + code + `",endpoint="x"}`:                   n,
			seriesLookups + `{kind="buyer",outcome="` + outcome + `",tier="local"}`: n,
		}
	}
	check := expect("200", localHits())
	if err := check(grown("200", "hit", 10_000), 10_000); err != nil {
		t.Errorf("hits: %v", err)
	}
	for name, series := range map[string]measure.Series{
		"misses":             grown("200", "miss", 10_000),
		"errors":             grown("503", "hit", 10_000),
		"nothing was served": grown("200", "hit", 5),
	} {
		if check(series, 10_000) == nil {
			t.Errorf("%s went for hits", name)
		}
	}
}

func TestVerifyHoldsTheLoadAgainstTheRow(t *testing.T) {
	r := &row{Row: report.Row{Name: "x"}, bytes: [2]float64{100, 200}}
	good := measure.Load{Requests: 1000, Bytes: 150_000}
	if err := r.verify(state{}, state{}, good); err != nil {
		t.Errorf("a good load: %v", err)
	}
	for name, c := range map[string]struct {
		load  measure.Load
		after state
	}{
		"short answers":         {measure.Load{Requests: 1000, Bytes: 50_000}, state{}},
		"long answers":          {measure.Load{Requests: 1000, Bytes: 500_000}, state{}},
		"bad status":            {measure.Load{Requests: 1000, Bytes: 150_000, BadStatus: 1}, state{}},
		"a peer that must miss": {good, state{finished: 500}},
	} {
		if r.verify(state{}, c.after, c.load) == nil {
			t.Errorf("%s went through", name)
		}
	}
}

func TestSampleDividesByRequests(t *testing.T) {
	started := time.Now().Add(-time.Minute)
	p := &process{started: started}
	r := &row{golang: p}
	before := state{heap: measure.Heap{TotalAlloc: 1000, Mallocs: 10}}
	after := state{
		used: measure.Usage{CPU: 2 * time.Second, RSS: 1 << 20, Peak: 2 << 20}, helper: measure.Usage{CPU: time.Second},
		heap: measure.Heap{TotalAlloc: 201_000, Mallocs: 2010},
	}
	s := r.sample(before, after, measure.Load{Requests: 1000, Duration: time.Second})
	if s.CPU != 2000 || s.Helper != 1000 || s.Rate != 1000 || s.RSS != 1 || s.Peak != 2 {
		t.Errorf("got %+v", s)
	}
	if s.Go == nil || s.Go.Bytes != 200 || s.Go.Objects != 2 || s.Go.GCShare != 0 {
		t.Errorf("of the Go process: %+v", s.Go)
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-quick"})
	if err != nil || o.rounds != 1 || o.duration != time.Second {
		t.Errorf("quick: %d rounds of %s, %v", o.rounds, o.duration, err)
	}
	if o, err := parseOptions(nil); err != nil || o.rounds < 5 {
		t.Errorf("by default %d rounds, %v", o.rounds, err)
	}
	if _, err := parseOptions([]string{"-rounds", "0"}); err == nil {
		t.Error("no rounds were taken")
	}
}

func TestMissingProgramsAreNamedWithTheirPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := checkPrograms()
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for program, pkg := range needed() {
		if !strings.Contains(err.Error(), program+" is not installed; Debian has it in the package "+pkg) {
			t.Errorf("%s is not named in: %v", program, err)
		}
	}
}

func TestCrewStopsWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	c := &crew{dir: dir}
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: "redis", addr: addr}
	if err := c.start(t.Context(), p, "redis-server", "--port", addr[strings.LastIndexByte(addr, ':')+1:], "--save", "", "--dir", dir); err != nil {
		t.Fatal(err)
	}
	if u, err := usage([]*process{p}); err != nil || u.RSS == 0 {
		t.Errorf("a running server uses %+v, %v", u, err)
	}
	if err := emptyLogs([]*process{p}); err != nil {
		t.Errorf("emptying its log: %v", err)
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := usage([]*process{p}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the stop: %v", err)
	}
}

func TestAProgramThatEndsAtOnceIsAnError(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho bad configuration >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	err = (&crew{dir: dir}).start(t.Context(), &process{name: "x", addr: addr}, program)
	if err == nil || !strings.Contains(err.Error(), "bad configuration") {
		t.Errorf("the error is %v", err)
	}
}

func TestResultsAreWritten(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "results"), progress: func(string, ...any) {}}
	if err := write(report.Run{Rounds: 1, Rows: []report.Row{{Name: "nginx", Group: groupHits, Missing: "not installed"}}}, o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"RESULTS.md", "results.json", "chart.svg"} {
		text, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil || !strings.Contains(string(text), "not installed") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

func TestMissTableHasTheSlope(t *testing.T) {
	miss := func(records int, cpu float64) *row {
		return &row{records: records, Row: report.Row{Samples: []report.Sample{{CPU: cpu}}}}
	}
	table := missTable([]*row{miss(0, 7), miss(20, 140), miss(1000, 2100), {records: 5000}})
	if len(table.Rows) != 2 || table.Rows[1][2] != "2.1 µs" || !strings.Contains(table.Text, "2.0 µs per record") {
		t.Errorf("%v: %s", table.Rows, table.Text)
	}
}
