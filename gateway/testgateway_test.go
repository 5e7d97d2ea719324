package gateway

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/connlimit"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testGateway is a gateway of real parts behind its listener: the keys of testdata, lists that are made
// of their names, limits. The listener is in memory, so that time can be that of synctest.
type testGateway struct {
	gateway  *Gateway
	handler  *Handler
	lists    *cache.Cache
	registry *prometheus.Registry
	logs     *testkit.Log
	clock    *testkit.Clock // of the limits; that of keys and lists stands still
	network  *network
	limit    *connlimit.Listener
	listener *front.Listener
	server   *http.Server
	secure   bool
	fast     atomic.Int64 // requests on the fast path
}

// setting is how a testGateway differs from the usual one.
type setting struct {
	tls       *tls.Config
	logErrors int // see NewErrorLog
	options   func(*Options)
}

var testTime = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// bodyOf is the list of a key: its name, and as much more as its filter says.
func bodyOf(k cache.Key) []byte {
	size := map[string]int{"large": 20_000, "huge": 200_000}[k.InquiryType]
	name := fmt.Sprintf("%s/%s/%s/%s ", k.Kind, k.Account, k.Status, k.InquiryType)
	return fmt.Appendf(nil, `{"data":[%q],"meta":{},"errors":[]}`, strings.Repeat(name, cmp.Or(size, 200)/len(name)+1))
}

// newTestGateway serves until the test ends.
func newTestGateway(tb testing.TB, c setting) *testGateway {
	tb.Helper()
	s := &testGateway{
		handler: &Handler{}, registry: prometheus.NewRegistry(), logs: &testkit.Log{}, clock: testkit.NewClock(testTime),
		network: &network{Listener: memnet.Listen()}, secure: c.tls != nil,
	}
	logger := slog.New(slog.NewJSONHandler(s.logs, nil))
	now := func() time.Time { return testTime }
	shared := auth.Options{Now: now, Registerer: s.registry, Logger: logger}
	store, err := keysfile.New("testdata/keys.yaml", auth.Hasher{}, shared)
	if err != nil {
		tb.Fatal(err)
	}
	fill := func(_ context.Context, k cache.Key, _ cache.FillInfo) (cache.Content, error) {
		return cache.Content{Body: bodyOf(k), AnsweredAt: testTime}, nil
	}
	s.lists, err = cache.New(cache.DefaultConfig(), cache.Options{Now: now, Registerer: s.registry, Fill: fill})
	if err != nil {
		tb.Fatal(err)
	}
	plans := rate.Config{Plans: map[string]rate.Plan{"tight": {PerSecond: 1, Burst: 5}}}
	limits := rate.New(plans, rate.Options{Now: s.clock.Now, Registerer: s.registry})
	opts := Options{
		Auth: auth.NewAuthenticator(store, auth.Hasher{}, shared), Lists: s.lists, Rate: limits, FastPath: true, Docs: true, LogListKeys: true, WriteTimeout: 10 * time.Second,
		Logger: logger, RequestLog: s.logs, Registerer: s.registry, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	if c.options != nil {
		c.options(&opts)
	}
	s.gateway = New(opts)
	s.handler.Set(s.gateway)
	errorLog := NewErrorLog(c.logErrors, logger, s.registry)
	s.server = newServer(s, errorLog)
	s.limit = connlimit.New(s.network, "public", 0, s.registry)
	s.listener = front.NewListener(s.limit, s.server, front.Options{Serves: s.handler.OnFastPath, Fields: Fields(), TLS: c.tls})
	served := make(chan struct{})
	go func() { defer close(served); _ = s.server.Serve(s.listener) }()
	tb.Cleanup(func() {
		_ = s.server.Close()
		<-served
		limits.Close()
		_ = s.lists.Close(context.Background())
	})
	return s
}

// ServeHTTP counts the requests on the fast path.
func (s *testGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, ok := w.(headSender); ok {
		s.fast.Add(1)
	}
	s.handler.ServeHTTP(w, r)
}

// newServer has the settings of the program's.
func newServer(h http.Handler, errorLog *log.Logger) *http.Server {
	s := &http.Server{
		Handler: h, ConnContext: connlimit.ConnContext, ErrorLog: errorLog,
		MaxHeaderBytes: 64 << 10, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, ReadHeaderTimeout: 30 * time.Second,
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// secureConfig is that of a server of a test.
func secureConfig(tb testing.TB) *tls.Config {
	dir := tb.TempDir()
	testkit.Certificate(tb, dir, "gateway")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		tb.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
}

// trusting is that of its callers.
func trusting(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, CurvePreferences: []tls.CurveID{tls.X25519}} //nolint:gosec // a test
}

// counted is a counter or gauge, by the values of its labels put together.
func (s *testGateway) counted(tb testing.TB, name, labels string) float64 {
	tb.Helper()
	values, err := testkit.Values(s.registry, "inquiry_gateway_"+name)
	if err != nil {
		tb.Fatal(err)
	}
	return values[labels]
}

// logLine is what tests read of a line of the log.
type logLine struct {
	Msg, Level, Endpoint, Cause, Stack string
	Status, Bytes                      int
	Client                             string `json:"client_address"`
	Code                               string `json:"error_code"`
	RequestID                          string `json:"request_id"`
	Kind, Key, ETag                    string
	TraceID                            string `json:"trace_id"`
	SpanID                             string `json:"span_id"`
}

// lines takes those of requests since the last call, each of which must be JSON.
func (s *testGateway) lines(tb testing.TB) (all []logLine) {
	tb.Helper()
	for line := range strings.Lines(s.logs.Take()) {
		var r logLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			tb.Fatalf("%v in %s", err, line)
		}
		if r.Msg == "request" {
			all = append(all, r)
		}
	}
	return all
}

const buyersList = "/api/v1/buyer/inquiries"

// ask sends a request past the front and net/http, from 192.0.2.1 and with a key, as far as
// the fields say nothing else.
func (s *testGateway) ask(method, target string, fields ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, s.request(method, target, fields...))
	return w
}

// request is what ask sends.
func (s *testGateway) request(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Authorization", "Bearer key-of-acme")
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		switch {
		case name == "From": // an address with a port
			r.RemoteAddr = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Add(name, value)
		}
	}
	return r
}

// hitOf is a canonical request.
func hitOf(key, target string, lines ...string) string {
	text := "GET " + target + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer key-of-" + key + "\r\n"
	for _, line := range lines {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

// caller speaks HTTP/1.1 by hand.
type caller struct {
	testing.TB
	conn halfConn
	in   *bufio.Reader
}

// connect opens a connection from an address, with TLS if the gateway has it.
func (s *testGateway) connect(peer net.Addr) halfConn {
	if c := s.network.connect(peer); s.secure {
		return tls.Client(c, trusting())
	} else {
		return c
	}
}

func (s *testGateway) call(tb testing.TB) *caller {
	c := s.connect(peers[0])
	tb.Cleanup(func() { _ = c.Close() })
	return &caller{tb, c, bufio.NewReader(c)}
}

func (c *caller) send(text string) {
	c.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.Fatal(err)
	}
}

// receive reads an answer, of which Body is there already.
func (c *caller) receive() (int, http.Header, string) {
	c.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// get asks for a list with a canonical request.
func (c *caller) get(key, target string, lines ...string) (int, http.Header, string) {
	c.Helper()
	c.send(hitOf(key, target, lines...))
	return c.receive()
}

// scripted are lists of which a test plays the look-up, or the slow way where it finds nothing.
type scripted struct {
	Lists
	found *cache.Result
	get   func(ctx context.Context, k cache.Key) (cache.Result, error)
}

func (s scripted) Lookup(cache.Key) (cache.Result, bool) {
	if s.found == nil {
		return cache.Result{}, false
	}
	return *s.found, true
}

func (s scripted) Get(ctx context.Context, k cache.Key) (cache.Result, error) { return s.get(ctx, k) }

// served are lists that tell a test of each hit before it is written.
type served struct {
	Lists
	tell func()
}

func (s served) RecordHit(k cache.Key, r cache.Result) {
	s.Lists.RecordHit(k, r)
	s.tell()
}
