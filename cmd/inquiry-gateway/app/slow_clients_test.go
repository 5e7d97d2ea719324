package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/memnet"
	"inquiry-gateway/upstream/legacy"
)

// program is the whole gateway in virtual time, with a buyer's key.
type program struct {
	*App
	public, ops *memnet.Listener
	key         string
	secure      bool
	logs        testkit.Log
}

const (
	maxPublic = 4
	opsToken  = "the-token-of-the-operators"
)

func startProgram(t *testing.T, secure bool, maxConnections int) *program {
	dir := t.TempDir()
	p := &program{public: memnet.Listen(), ops: memnet.Listen(), secure: secure, key: buyerKey(t, dir)}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nops: {listen: 127.0.0.1:0, token_file: token}\nauth: {keys_file: keys.yaml}\nmax_connections: %d\nshutdown_delay: 0s\n", maxConnections)
	if secure {
		testkit.Certificate(t, dir, "gateway")
		text += "tls: {cert_file: cert.pem, key_file: key.pem}\n"
	}
	p.public.Room, p.ops.Room = 16, 16 // less than any answer: who reads nothing holds up the gateway
	for name, content := range map[string]string{"gateway.yaml": text + string(legacy.Mapping()), "token": opsToken} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cfg, err := config.Load(filepath.Join(dir, "gateway.yaml"), config.Options{})
	must(t, err)
	system := memnet.Listen()
	server := &http.Server{Handler: legacy.New(legacy.Options{})}
	go func() { _ = server.Serve(system) }()
	p.App, err = New(cfg, Listeners{p.public, p.ops}, Options{Logger: slog.New(slog.NewJSONHandler(&p.logs, nil)), Dial: system.Dial, PollFiles: time.Hour})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	return p
}

// connections is how many are open.
func (p *program) connections(t *testing.T, listener string) int {
	t.Helper()
	values, err := testkit.Values(p.registry, "inquiry_gateway_http_connections")
	must(t, err)
	return int(values[listener])
}

// caller asks on one connection, as long as that is kept.
type knownCaller struct {
	*http.Transport
	url, token string
	dials      int
	dialed     func() // comes after the connection, and before anything is sent
}

func (p *program) caller(listener string) *knownCaller {
	c := &knownCaller{url: "http://127.0.0.1/ops/config", token: opsToken, dialed: func() {}}
	dial := p.ops.Dial
	if listener == "public" {
		c.url, c.token, dial = map[bool]string{true: "https", false: "http"}[p.secure]+"://127.0.0.1/api/v1/buyer/inquiries", p.key, p.public.Dial
	}
	c.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dials++
			conn, err := dial(ctx, network, address)
			c.dialed()
			return conn, err
		}}
	return c
}

func (c *knownCaller) ask() error {
	r, _ := http.NewRequest(http.MethodGet, c.url, nil)
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return err
}

// slowly begins what an unauthenticated client does on a connection, and stops in the middle. Where it
// is slow to read a response it reads nothing, otherwise all; "window" reads all, but grants no window
// for a body.
func slowly(t *testing.T, c net.Conn, protocol, at string) {
	spoken, secure := strings.CutSuffix(protocol, " over TLS")
	if secure && at != "connect" && at != "handshake" {
		over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{strings.ToLower(spoken)}}) //nolint:gosec // a test
		must(t, over.Handshake())
		c = over
	}
	write := func(text string) { _, _ = io.WriteString(c, text) }
	if at != "answer" {
		defer func() { go func() { _, _ = io.Copy(io.Discard, c) }() }()
	}
	switch {
	case at == "connect":
		return
	case at == "handshake" && secure:
		write("\x16\x03\x01\x02\x00\x01") // of TLS: a ClientHello begins
		return
	case spoken == "HTTP/1.1":
		write(map[string]string{
			"handshake": "GET", "head": "GET /nowhere HTTP/1.1\r\nHost:", "body": "POST /nowhere HTTP/1.1\r\nHost: gateway\r\nContent-Length: 5\r\n\r\n",
			"answer": "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		}[at])
		return
	case at == "handshake":
		write(http2.ClientPreface[:20])
		return
	}
	write(http2.ClientPreface)
	framer, method, target := http2.NewFramer(c, nil), "GET", "/openapi.json"
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if at == "body" {
		method, target = "POST", "/nowhere"
	}
	for i := range uint32(3) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "127.0.0.1"}, {":path", target}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: at != "body", EndHeaders: at != "head"})
		if at == "head" {
			return
		}
	}
}

// Unauthenticated clients may be slow at anything: callers with a key are answered on the connections
// that they have and on new ones, probes are, no more connections are open than may be, the log
// stays short. Most are closed soon; over HTTP/2 they stay while there is room.
func TestSlowUnauthenticatedClients(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // what it starts must not belong to a bubble
	columns := [...]string{"public/HTTP/1.1", "public/HTTP/1.1 over TLS", "public/h2c", "public/h2 over TLS", "ops/HTTP/1.1", "ops/h2c"}
	const kept = -2                                        // HTTP/2: they stay while there is room
	for at, seconds := range map[string][len(columns)]int{ // after which all are closed; -1: not possible
		"connect":   {5, 5, 5, 5, 5, 5},
		"handshake": {5, 5, 5, 5, 5, 0},
		"head":      {5, 5, kept, kept, 5, 0},
		"body":      {1, 1, kept, kept, 10, 0},
		"answer":    {2, 7, 20, 15, 10, 10},
		"window":    {-1, -1, kept, kept, -1, 0},
	} {
		for i, left := range seconds {
			if left == -1 {
				continue
			}
			t.Run(columns[i]+"/"+at, func(t *testing.T) {
				listener, protocol, _ := strings.Cut(columns[i], "/")
				synctest.Test(t, func(t *testing.T) { slowClients(t, listener, protocol, at, time.Duration(left)*time.Second) })
			})
		}
	}
}

func slowClients(t *testing.T, listener, protocol, at string, left time.Duration) {
	p := startProgram(t, strings.HasSuffix(protocol, "TLS"), maxPublic)
	network, most := p.ops, maxOpsConnections
	if listener == "public" {
		network, most = p.public, maxPublic
	}
	come := func(n int) {
		for range n {
			c, err := network.Dial(t.Context(), "", "")
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			slowly(t, c, protocol, at)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
	}
	known := []*knownCaller{p.caller(listener), p.caller(listener)}
	for _, c := range known {
		defer c.CloseIdleConnections()
	}
	must(t, known[0].ask())
	time.Sleep(2 * time.Second)
	come(most + 8)
	known[1].dialed = func() { come(2) } // before it asks
	for i, name := range []string{"an open", "a new"} {
		if err := known[i].ask(); err != nil || known[i].dials != 1 {
			t.Errorf("a known caller on %s connection, opened %d times: %v", name, known[i].dials, err)
		}
	}
	probe := p.caller("ops")
	probe.url, probe.token = "http://127.0.0.1/livez", ""
	if err := probe.ask(); err != nil {
		t.Errorf("/livez: %v", err)
	}
	probe.CloseIdleConnections()
	if n := p.connections(t, listener); n > most {
		t.Errorf("%d connections are open", n)
	}
	want := len(known)
	if left < 0 {
		want = most
	}
	for range left / time.Second { // known callers go on
		time.Sleep(time.Second)
		must(t, errors.Join(known[0].ask(), known[1].ask()))
	}
	synctest.Wait()
	if n := p.connections(t, listener); n != want {
		t.Errorf("%d connections are open later, want %d; %d are of known callers", n, want, len(known))
	}
	if n := strings.Count(p.logs.String(), `"level":"WARN"`); n > 20 { // as docs/observing.md says
		t.Errorf("%d warnings:\n%s", n, p.logs.String())
	}
}
