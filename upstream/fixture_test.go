package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configFrom decodes a section over the defaults, as the program does.
func configFrom(t testing.TB, section string) Config {
	t.Helper()
	cfg := DefaultConfig()
	if err := yamlfile.Decode(section, &cfg); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return cfg
}

// buyers is the sample's section of buyers with some keys more.
func buyers(t testing.TB, keys string) func(*Config) {
	t.Helper()
	cfg := configFrom(t, strings.Replace(testkit.SampleYAML, "filtering: upstream", "filtering: upstream\n  "+keys, 1))
	if err := cfg.Validate(); err != nil {
		t.Fatalf("%s: %v", keys, err)
	}
	return func(c *Config) { c.Buyer = cfg.Buyer }
}

// fixture is a legacy system whose behaviour is one function, and a client of it.
type fixture struct {
	*Client
	reg   *prometheus.Registry
	calls atomic.Int64
	log   bytes.Buffer
}

// newFixture starts it; each change may adapt the configuration.
func newFixture(t testing.TB, serve http.HandlerFunc, changes ...func(*Config)) *fixture {
	t.Helper()
	return newFixtureWith(t, Options{}, serve, changes...)
}

// newFixtureAt is newFixture with a clock that the test sets.
func newFixtureAt(t testing.TB, clock *testkit.Clock, serve http.HandlerFunc, changes ...func(*Config)) *fixture {
	t.Helper()
	return newFixtureWith(t, Options{Now: clock.Now}, serve, changes...)
}

func newFixtureWith(t testing.TB, opts Options, serve http.HandlerFunc, changes ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{reg: prometheus.NewRegistry()}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		serve(w, r)
	}))
	cfg := configFrom(t, testkit.SampleYAML)
	cfg.Timeout = 5 * time.Second
	cfg.BaseURL = srv.URL
	for _, change := range changes {
		change(&cfg)
	}
	opts.Registerer, opts.Logger = f.reg, slog.New(slog.NewJSONHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	f.Client = c
	t.Cleanup(func() { c.Close(); srv.CloseClientConnections(); srv.Close() })
	return f
}

// metric sums the samples of a series whose labels contain all of the values.
func (f *fixture) metric(t testing.TB, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "inquiry_gateway_upstream_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			match := true
			for _, l := range labels {
				match = match && strings.Contains(m.String(), `value:"`+l+`"`)
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// logged counts the records of the log that have all of the texts.
func (f *fixture) logged(texts ...string) (n int) {
	for line := range strings.Lines(f.log.String()) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			n++
		}
	}
	return n
}

var acme = Request{Kind: "buyer", Account: "acme"}

// buyer asks for the list of an account.
func (f *fixture) buyer(t testing.TB, account string) (List, error) {
	return f.Fetch(t.Context(), Request{Kind: "buyer", Account: account})
}

// failed calls Fetch and wants a failure of the kind's word, and the reason.
func failed(t testing.TB, f *fixture, ctx context.Context, kind, reason string) *Error {
	t.Helper()
	list, err := f.Fetch(ctx, acme)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, %v", list, err)
	}
	if e.Kind.String() != kind || e.Reason != reason {
		t.Fatalf("got %v, want %s (%s)", e, kind, reason)
	}
	return e
}

func serveJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_, _ = io.WriteString(w, body)
	}
}

// emptyList is a good reply.
const emptyList = `{"result":{"items":[]}}`

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"result":{"items":[]},"secret":"s3cr3t"}`)
	}
}

// hang answers nothing, or only a part, until the client goes away.
func hang(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if part != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// waitFor polls until a state that another goroutine's clock brings about.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never happened")
		}
	}
}
