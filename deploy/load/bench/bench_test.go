package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir(), options: options{keys: 3, progress: t.Logf}}
	b.makeFixture()
	return b
}

// TestNodesAreConfiguredAsMeant loads what the gateway is started with.
func TestNodesAreConfiguredAsMeant(t *testing.T) {
	b := newBench(t)
	load := func(n node) config.Config {
		t.Helper()
		n.Listen, n.Ops, n.legacyURL = "127.0.0.1:1", "127.0.0.1:2", "http://127.0.0.1:9"
		loaded, err := config.Load(b.write("node.yaml", "gateway.yaml", n), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Config
	}
	usual := load(node{Records: 26})
	if usual.Upstream.BaseURL != "http://127.0.0.1:9/first/26" || usual.Cache.Buyer.TTL != 4*time.Hour || usual.Cache.Jitter != 0 {
		t.Errorf("the usual node has %q, ttl %s, jitter %v", usual.Upstream.BaseURL, usual.Cache.Buyer.TTL, usual.Cache.Jitter)
	}
	if usual.Upstream.Timeout != 15*time.Second {
		t.Errorf("the legacy may take %s", usual.Upstream.Timeout)
	}
	if c := load(node{Uncached: true}); c.Cache.Buyer.TTL != 0 {
		t.Errorf("an uncached node has ttl %s", c.Cache.Buyer.TTL)
	}
	if c := load(node{Redis: "127.0.0.1:3", Small: true, TLS: true}); len(c.Redis.Addrs) != 1 || c.Cache.Local.MaxBytes != 1<<20 || !c.TLS.CertFile.Set() {
		t.Errorf("a second node has Redis %v, %d bytes and certificate %q", c.Redis.Addrs, c.Cache.Local.MaxBytes, c.TLS.CertFile)
	}
}

func TestKeysFileHoldsEveryKey(t *testing.T) {
	b := newBench(t)
	store, err := keysfile.New(b.path("keys.yaml"), auth.Hasher{}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := catch(func() { authenticating(store, b.keys, 1000) }); err != nil {
		t.Errorf("a key of the fixture: %v", err)
	}
}

// counter is a reading with two counters.
func counter(code, outcome string, n float64) measure.Series {
	one := func(name string, labels map[string]string) *dto.MetricFamily {
		m := &dto.Metric{Counter: &dto.Counter{Value: proto.Float64(n)}}
		for k, v := range labels {
			m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(k), Value: proto.String(v)})
		}
		return &dto.MetricFamily{Name: proto.String(name), Metric: []*dto.Metric{m}}
	}
	return measure.Series{
		one("inquiry_gateway_http_requests_total", map[string]string{"code": code, "endpoint": "x"}),
		one("inquiry_gateway_cache_lookups_total", map[string]string{"kind": "buyer", "outcome": outcome, "tier": "local"}),
	}
}

func TestVerifyFindsABenchmarkThatLies(t *testing.T) {
	good := measure.Load{Requests: 10_000, Bytes: 1_500_000}
	peer := row{bytes: limits{100, 200}}
	gateway := peer
	gateway.counted = localHit()
	notModified := gateway
	notModified.status = "304"
	for _, c := range []struct {
		name string
		row  row
		load measure.Load
		seen measure.Series
		ok   bool
	}{
		{"a peer", peer, good, nil, true},
		{"short answers", peer, measure.Load{Requests: 10_000, Bytes: 500_000}, nil, false},
		{"long answers", peer, measure.Load{Requests: 10_000, Bytes: 5_000_000}, nil, false},
		{"bad status", peer, measure.Load{Requests: 10_000, Bytes: 1_500_000, BadStatus: 1}, nil, false},
		{"hits", gateway, good, counter("200", "hit", 10_000), true},
		{"304", notModified, good, counter("304", "hit", 10_000), true},
		{"misses", gateway, good, counter("200", "miss", 10_000), false},
		{"errors", gateway, good, counter("503", "hit", 10_000), false},
		{"not 304", notModified, good, counter("200", "hit", 10_000), false},
		{"nothing was served", gateway, good, counter("200", "hit", 5), false},
	} {
		if err := c.row.verify(state{}, state{series: c.seen}, c.load); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSampleDividesByRequests(t *testing.T) {
	r := &row{server: &server{ops: "x"}}
	before := state{heap: measure.Heap{TotalAlloc: 1000, Mallocs: 10}}
	after := state{
		first: usage{server: measure.Usage{CPU: 2 * time.Second, RSS: 1 << 20, Peak: 2 << 20}, helper: measure.Usage{CPU: time.Second}},
		heap:  measure.Heap{TotalAlloc: 201_000, Mallocs: 2010, GC: time.Second},
	}
	s := r.sample(before, after, measure.Load{Requests: 1000, Duration: time.Second})
	if s.CPU != 2000 || s.Helper != 1000 || s.Rate != 1000 || s.RSS != 1 || s.Peak != 2 {
		t.Errorf("got %+v", s)
	}
	if s.Go == nil || s.Go.Bytes != 200 || s.Go.Objects != 2 || s.Go.GCShare != 0.5 {
		t.Errorf("of the Go process: %+v", s.Go)
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-quick"})
	if err != nil || o.rounds != 1 || o.duration != time.Second {
		t.Errorf("quick: %d rounds of %s, %v", o.rounds, o.duration, err)
	}
	if o, err := parseOptions(nil); err != nil || o.rounds < 6 {
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

func TestResultsAreWritten(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	writeResults(out, report.Run{Rounds: 1, Rows: []report.Row{{Name: "nginx", Group: groupHits, Missing: "not installed"}}})
	for _, name := range []string{"RESULTS.md", "results.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !strings.Contains(string(text), "not installed") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

func TestMissTableHasTheCostOfARecord(t *testing.T) {
	miss := func(records int, cpu float64) *row {
		return &row{records: records, Row: report.Row{Samples: []report.Sample{{CPU: cpu}}}}
	}
	table := missTable([]*row{miss(0, 7), miss(20, 140), miss(1000, 2100), {records: 5000}})
	if len(table.Rows) != 2 || table.Rows[1][2] != "2.100µs" || table.Rows[1][3] != "2.000µs" {
		t.Errorf("%v", table.Rows)
	}
}
