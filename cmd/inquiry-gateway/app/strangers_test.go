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
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// pipes is a listener in memory, for virtual time. What a caller sends has any room; what
// it does not read has none.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	end    func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// pipe is one end of a connection.
type pipe struct {
	net.Conn
	sent   chan []byte   // of a caller's end; nil: written at once
	closed chan struct{} // of a caller's end
	end    func()
}

func (p *pipe) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.sent == nil {
		return p.Conn.Write(b)
	}
	select {
	case p.sent <- bytes.Clone(b):
		return len(b), nil
	case <-p.closed:
		return 0, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	if p.sent != nil {
		p.end()
	}
	return p.Conn.Close()
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- &pipe{Conn: there}:
	case <-p.closed:
		return nil, net.ErrClosed
	}
	c := &pipe{Conn: here, sent: make(chan []byte, 100), closed: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.closed) })
	go func() {
		defer c.end()
		for {
			select {
			case b := <-c.sent:
				if _, err := here.Write(b); err != nil {
					return // the server has closed it
				}
			case <-c.closed:
				return
			}
		}
	}()
	return c, nil
}

// program is the whole gateway in virtual time, with a buyer's key.
type program struct {
	*App
	public, ops *pipes
	key         string
	secure      bool
}

const (
	maxPublic = 4
	opsToken  = "the-token-of-the-operators"
)

func startProgram(t *testing.T, secure bool) *program {
	dir := t.TempDir()
	p := &program{public: newPipes(), ops: newPipes(), secure: secure}
	var err error
	if p.key, err = auth.Generate(legacy.KindBuyer); err != nil {
		t.Fatal(err)
	}
	record := auth.KeyRecord{ID: "buyer", Kind: legacy.KindBuyer, Account: legacy.BuyerTypical, Scopes: []string{auth.ScopeInquiriesRead}, Digest: auth.Hasher{}.Hash(p.key)}
	account := &auth.Account{ID: legacy.BuyerTypical, APIAccess: auth.AccessPaid}
	if err := keysfile.NewEditor(filepath.Join(dir, "keys.yaml"), auth.Hasher{}).Add(t.Context(), record, account); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nops: {listen: 127.0.0.1:0, token_file: token}\nauth: {keys_file: keys.yaml}\nmax_connections: %d\nshutdown_delay: 0s\n", maxPublic)
	if secure {
		testkit.Certificate(t, dir, "gateway")
		text += "tls: {cert_file: cert.pem, key_file: key.pem}\n"
	}
	for name, content := range map[string]string{"gateway.yaml": text + string(legacy.Mapping()), "token": opsToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := config.Load(filepath.Join(dir, "gateway.yaml"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	system := newPipes()
	server := &http.Server{Handler: legacy.New(legacy.Options{})}
	go func() { _ = server.Serve(system) }()
	p.App, err = New(loaded.Config, Listeners{p.public, p.ops}, Options{Logger: slog.New(slog.DiscardHandler), Dial: system.dial, PollFiles: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return int(values[listener])
}

// caller asks on one connection, as long as that is kept.
type knownCaller struct {
	*http.Transport
	url, token string
	dials      int
}

func (p *program) caller(listener string) *knownCaller {
	c := &knownCaller{url: "http://127.0.0.1/ops/config", token: opsToken}
	dial := p.ops.dial
	if listener == "public" {
		c.url, c.token, dial = map[bool]string{true: "https", false: "http"}[p.secure]+"://127.0.0.1/api/v1/buyer/inquiries", p.key, p.public.dial
	}
	c.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dials++
			return dial(ctx, network, address)
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

// slowly begins what a stranger does on a connection, and stops in the middle. Where it is slow
// to read an answer it reads nothing, else all; "window" reads all, but has no room for a
// body.
func slowly(c net.Conn, protocol, at string) {
	write := func(text string) { _, _ = io.WriteString(c, text) }
	if at != "answer" {
		defer func() { go func() { _, _ = io.Copy(io.Discard, c) }() }()
	}
	if at == "connect" {
		return
	}
	if protocol == "HTTP/1.1" {
		write(map[string]string{
			"handshake": "GET", "head": "GET /nowhere HTTP/1.1\r\nHost:", "body": "POST /nowhere HTTP/1.1\r\nHost: gateway\r\nContent-Length: 5\r\n\r\n",
			"answer": "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		}[at])
		return
	}
	if at == "handshake" {
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

// Whoever has no key may be slow at anything: callers with one are answered on the connections that
// they have and on new ones, the probes are, no more connections are open than may be,
// and soon none of the strangers is left.
func TestSlowStrangers(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // what it starts must not belong to a bubble
	for listener, protocols := range map[string][]string{
		"public": {"HTTP/1.1", "h2c", "HTTP/1.1 over TLS", "h2 over TLS"}, "ops": {"HTTP/1.1", "h2c"},
	} {
		for _, protocol := range protocols {
			for _, at := range []string{"connect", "handshake", "head", "body", "answer", "window"} {
				if at == "window" && strings.HasPrefix(protocol, "HTTP/1.1") {
					continue
				}
				t.Run(listener+"/"+protocol+"/"+at, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { slowStrangers(t, listener, protocol, at) })
				})
			}
		}
	}
}

func slowStrangers(t *testing.T, listener, protocol, at string) {
	spoken, secure := strings.CutSuffix(protocol, " over TLS")
	p := startProgram(t, secure)
	network, most := p.ops, maxOpsConnections
	if listener == "public" {
		network, most = p.public, maxPublic
	}
	known := []*knownCaller{p.caller(listener), p.caller(listener)}
	defer func() {
		for _, c := range known {
			c.CloseIdleConnections()
		}
	}()
	if err := known[0].ask(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	for range most + 8 {
		c, err := network.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if secure && at != "connect" && at != "handshake" {
			over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{strings.ToLower(spoken)}}) //nolint:gosec // a test
			if err := over.Handshake(); err != nil {
				t.Fatal(err)
			}
			c = over
		}
		slowly(c, spoken, at)
		synctest.Wait()
	}
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
	time.Sleep(15 * time.Second)
	if n := p.connections(t, listener); n != len(known) {
		t.Errorf("%d connections are open later, want those of %d known callers", n, len(known))
	}
}
