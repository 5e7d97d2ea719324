package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/testkit"
)

// stand is a gateway of real parts on a listener of a test: keys in a file, lists that
// are made of their names, limits.
type stand struct {
	gateway  *Gateway
	current  *Live
	lists    *cache.Lists
	registry *prometheus.Registry
	logs     *lines
	clock    *testkit.Clock // of the limits; that of lists stands still
	listener *front.Listener
	server   *http.Server
	idle     chan struct{} // gets one when net/http waits for another request
}

// lines keeps what is written until it is taken.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return bytes.Clone(l.b.Bytes())
}

// The keys of a stand. Those of "tight" may ask five times, and again every second.
var standKeys = []auth.KeyRecord{
	{ID: "acme", Kind: "buyer", Account: "acme"}, {ID: "globex", Kind: "buyer", Account: "globex"},
	{ID: "vendor", Kind: "seller", Account: "vendor"}, {ID: "tight", Kind: "buyer", Account: "tight"},
	{ID: "revoked", Kind: "buyer", Account: "acme", Revoked: true}, {ID: "scopeless", Kind: "buyer", Account: "acme", Scopes: []string{}},
	{ID: "unpaid", Kind: "buyer", Account: "unpaid"},
}

var standTime = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// bodyOf is the list of a key: its name, and as much more as its filter says.
func bodyOf(k cache.Key) []byte {
	size := 200
	if k.InquiryType == "large" {
		size = 20_000
	}
	name := fmt.Sprintf("%s/%s/%s/%s ", k.Kind, k.Account, k.Status, k.InquiryType)
	return fmt.Appendf(nil, `{"data":[%q],"meta":{},"errors":[]}`, strings.Repeat(name, size/len(name)+1))
}

func newStand(tb testing.TB, l net.Listener, change func(*Options)) *stand {
	s := &stand{current: &Live{}, registry: prometheus.NewRegistry(), logs: &lines{}, clock: testkit.NewClock(standTime), idle: make(chan struct{}, 100)}
	path := filepath.Join(tb.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("accounts: []\nkeys: []\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	file := keysfile.NewEditor(path, auth.Hasher{})
	for _, k := range standKeys {
		account := auth.Account{APIAccess: auth.AccessPaid}
		if k.ID == "tight" {
			account.Plan = "tight"
		}
		if k.ID == "unpaid" {
			account.APIAccess = auth.AccessNone
		}
		if k.Scopes == nil {
			k.Scopes = []string{auth.ScopeInquiriesRead}
		}
		k.Digest = auth.Hasher{}.Hash("key-of-" + k.ID)
		if err := file.Add(tb.Context(), k, &account); err != nil {
			tb.Fatal(err)
		}
	}
	quiet := slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	now := func() time.Time { return standTime }
	store, err := keysfile.New(path, auth.Hasher{}, auth.Options{Now: now, Registerer: s.registry})
	if err != nil {
		tb.Fatal(err)
	}
	authenticator := auth.NewAuthenticator(store, auth.Hasher{}, auth.Options{Logger: quiet, Now: now, Registerer: s.registry})
	s.lists, err = cache.New(cache.DefaultConfig(), cache.Options{Now: now, Registerer: s.registry, Fill: func(_ context.Context, k cache.Key) (cache.Content, error) {
		return cache.Content{Body: bodyOf(k), AnsweredAt: standTime}, nil
	}})
	if err != nil {
		tb.Fatal(err)
	}
	limits := rate.New(rate.Config{Plans: map[string]rate.Plan{"tight": {PerSecond: 1, Burst: 5}}}, rate.Options{Now: s.clock.Now, Registerer: s.registry})
	opts := Options{
		Auth: authenticator, Lists: s.lists, Rate: limits, HitLane: true, Docs: true, LogListKeys: true, Logger: quiet, RequestLog: s.logs, Registerer: s.registry,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	if change != nil {
		change(&opts)
	}
	s.gateway = New(opts)
	s.current.Set(s.gateway, 10*time.Second, true)
	s.listener = front.NewListener(l, front.Options{Handler: s.current, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: time.Minute})
	s.server = &http.Server{Handler: s.current, ConnContext: front.ConnContext, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, ReadHeaderTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ConnState: s.state, ErrorLog: slog.NewLogLogger(quiet.Handler(), slog.LevelWarn), Protocols: new(http.Protocols)}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetHTTP2(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	tb.Cleanup(func() {
		s.gateway.Close()
		limits.Close()
		_ = s.lists.Close(context.Background())
	})
	return s
}

func (s *stand) state(c net.Conn, state http.ConnState) {
	front.ConnState(c, state)
	if state == http.StateIdle {
		select {
		case s.idle <- struct{}{}:
		default: // nobody waits
		}
	}
}

// serve answers on the stand's listener until the test ends.
func (s *stand) serve(tb testing.TB) *stand {
	done := make(chan struct{})
	go func() { defer close(done); _ = s.server.Serve(s.listener) }()
	tb.Cleanup(func() { _ = s.server.Close(); <-done })
	return s
}

// inLane is how many fresh hits the front has answered.
func (s *stand) inLane(tb testing.TB) int {
	values, err := testkit.Values(s.registry, "inquiry_gateway_http_hit_lane_answers_total")
	if err != nil {
		tb.Fatal(err)
	}
	return int(values[""])
}
