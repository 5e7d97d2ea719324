package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/memnet"
	"inquiry-gateway/internal/yamlfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// section is what the tests start from: records have the title t, the content c, the
// responses r, the state s and the time at.
const section = `
base_url: http://legacy
buyer:
  path: /list
  query: {customer: "{account}", state: "{status}", type: "{inquiry_type}"}
  items: rows
  id: t
  internal_ids: [id]
  paging: {style: none}
  fields:
    title: t
    content: {path: c, default: ""}
    status: {path: s, values: {N: pending, A: answered}}
    inquiry_type: {path: k, default: null}
    created_at: at
    responses: {items: r, items_optional: true, fields: {content: c, responder_type: {path: by, default: null}, created_at: at}}
seller:
  path: /vendors/{account}
  items: rows
  paging: {style: none}
  fields: {title: t, status: {default: pending}, inquiry_type: {default: other}, company_name: {default: Acme}, created_at: at}
`

// good is what each record of theirs has.
const good = `"s":"N","at":"2026-01-02T03:04:05Z"`

// answers counts the replies that rows made.
var answers atomic.Int64

// rows is a reply with records of these titles, and with more members beside them: no two
// replies are the same.
func rows(more string, titles ...string) string {
	for i, title := range titles {
		titles[i] = fmt.Sprintf(`{"t":"%s",%s}`, title, good)
	}
	return fmt.Sprintf(`{"request_id":"r-%d","took":0.0,"rows":[%s]%s}`, answers.Add(1), strings.Join(titles, ","), more)
}

// configFrom decodes sections one over the other, as the program does with the defaults.
// What is written in the place of a secret's file stands for its text.
func configFrom(t testing.TB, sections ...string) Config {
	t.Helper()
	cfg := DefaultConfig()
	for _, text := range sections {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := yamlfile.Decode(text, &cfg); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	a := &cfg.Auth
	for _, file := range []*setting.File{&a.PasswordFile, &a.UsernameFile, &a.TokenFile, &a.SecretFile, &a.ClientSecretFile} {
		if file.Set() {
			*file = setting.NewFile("secret", file.Path()+"\n")
		}
	}
	return cfg
}

// fixture is a legacy system whose behaviour is one function, and a client of it.
type fixture struct {
	*Client
	opts  Options
	reg   *prometheus.Registry
	spans *tracetest.SpanRecorder
	log   testkit.Log
	calls atomic.Int64
}

// virtual runs a test in which time passes while all wait for it.
func virtual(t *testing.T, serve http.HandlerFunc, keys string, test func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(t, newFixture(t, serve, configFrom(t, section, keys)))
	})
}

// newFixture makes both, and a network in memory between them.
func newFixture(t testing.TB, serve http.HandlerFunc, cfg Config) *fixture {
	t.Helper()
	f := &fixture{reg: prometheus.NewRegistry(), spans: tracetest.NewSpanRecorder()}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.calls.Add(1)
		serve(w, r)
	})}
	network := memnet.Listen()
	go func() { _ = web.Serve(network) }()
	t.Cleanup(func() { _ = web.Close() })
	f.opts = Options{
		Registerer: f.reg, Logger: slog.New(slog.NewJSONHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		KeepFor: map[string]time.Duration{"buyer": time.Minute},
		Dial: func(ctx context.Context, protocol, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "nobody") {
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return network.Dial(ctx, protocol, address)
		},
		Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans)),
	}
	f.Client = f.another(t, cfg, func(*Options) {})
	return f
}

// next is a client that takes the place of the present one.
func (f *fixture) next(t testing.TB, cfg Config) *Client {
	t.Helper()
	return f.another(t, cfg, func(o *Options) { o.Before = f.Client })
}

// another is a client with other options.
func (f *fixture) another(t testing.TB, cfg Config, change func(*Options)) *Client {
	t.Helper()
	opts := f.opts
	change(&opts)
	c, err := New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// metric sums the samples of a series whose labels contain all of the values.
func (f *fixture) metric(t testing.TB, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			match := family.GetName() == "inquiry_gateway_upstream_"+name
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

var acme = Request{Kind: "buyer", Account: "acme"}

// buyer asks for the list of an account, and gives the reason where there is none.
func buyer(t testing.TB, c *Client, account string) (reason string) {
	if _, err := c.Fetch(t.Context(), Request{Kind: "buyer", Account: account}); err != nil {
		return asError(err).Reason
	}
	return "ok"
}

func serveJSON(body string) http.HandlerFunc { return serveAs(http.StatusOK, "application/json", body) }

func status(code int) http.HandlerFunc {
	return serveAs(code, "application/json", `{"rows":[],"secret":"s3cr3t"}`)
}

// serveAs answers so; without a media type where that is empty.
func serveAs(code int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if w.Header()["Content-Type"] = nil; media != "" {
			w.Header().Set("Content-Type", media)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// hang answers nothing until the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that it goes
	<-r.Context().Done()
}
