package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/upstream/legacy"
)

// A stop lets requests under way finish.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Latency: 300 * time.Millisecond}})
	got := make(chan answer, 1)
	go func() { got <- p.get(buyerList, "buyer") }()
	p.eventually("the legacy has been asked", func() bool { return p.system.Stats().InFlight > 0 })
	p.stop()
	if a := <-got; a.status != http.StatusOK {
		t.Errorf("the request under way got %d", a.status)
	}
}

// A SIGHUP during the start, as from a script that has just written a file, does not end the
// process. The configuration is long, so that reading it takes a while.
func TestHangupDuringTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "unknown:\n" + strings.Repeat("- a text\n", 25_000)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	for range 3 {
		var stderr bytes.Buffer
		cmd := serveApart(t.Context(), "-c", file)
		cmd.Stderr = &stderr
		must(t, cmd.Start())
		for hasRead := 0; hasRead < len(text); { // rchar: bytes that the process has read
			counters, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", cmd.Process.Pid))
			must(t, err)
			_, _ = fmt.Sscanf(string(counters), "rchar: %d", &hasRead)
		}
		_ = cmd.Process.Signal(syscall.SIGHUP) // fails where the start has ended
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "unknown") {
			t.Errorf("the start did not go on: %v\n%s", err, &stderr)
		}
	}
}

// balancer sends requests to the programs in turn, but for those that it knows to stop. It
// repeats none.
type balancer struct {
	client   *http.Client
	backends [2]atomic.Pointer[program] // nil: it stops
	turn     atomic.Int64
	under    sync.RWMutex // locked for reading by each request
}

// tell sets a backend, and waits for the requests that knew another one.
func (b *balancer) tell(i int, p *program) {
	b.backends[i].Store(p)
	b.under.Lock()
	defer b.under.Unlock()
}

// do sends one request.
func (b *balancer) do() error {
	b.under.RLock()
	defer b.under.RUnlock()
	turn := int(b.turn.Add(1))
	p := cmp.Or(b.backends[turn%2].Load(), b.backends[(turn+1)%2].Load())
	// A body that cannot be read again keeps net/http from repeating the request.
	r, err := http.NewRequest(http.MethodGet, p.app.URL()+buyerList, io.NopCloser(strings.NewReader("")))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.keys["buyer"])
	resp, err := b.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	return nil
}

// Two nodes are restarted in turn under load, behind a balancer that learns some time after
// it has become so that one is not ready: no request fails.
func TestRollingRestart(t *testing.T) {
	settings := setup{yaml: "shutdown_delay: 1h"}
	first := start(t, settings)
	settings.joins = first
	programs := [2]*program{first, start(t, settings)}
	b := &balancer{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	t.Cleanup(b.client.CloseIdleConnections)
	for i, p := range programs {
		b.tell(i, p)
	}
	requests := first.background(4, func(_, _ int) error { return b.do() })
	served := func() {
		for begun := b.turn.Load(); b.turn.Load() < begun+40; {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 3 {
		p := programs[i%2]
		end := p.drain()
		served()
		b.tell(i%2, nil)
		end()
		served()
		p.run()
		p.eventually("it is ready", func() bool { return p.ops("/readyz").status == http.StatusOK })
		b.tell(i%2, p)
		served()
	}
	if n, err := requests(); err != nil {
		t.Errorf("%d requests, of which at least one failed: %v", n, err)
	}
	for _, p := range programs {
		p.drain()()
	}
}

// drain begins to stop a program that drains for an hour. end tells it again to stop, which it
// does at once.
func (p *program) drain() (end func()) {
	p.t.Helper()
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.stop() }()
	p.eventually("it is not ready", func() bool { return p.ops("/readyz").status == http.StatusServiceUnavailable })
	return func() {
		must(p.t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
		<-stopped
	}
}

// While a program drains it says so, answers on new connections and on those that
// it has, and asks each time to come back on another one.
func TestDraining(t *testing.T) {
	p := start(t, setup{yaml: "shutdown_delay: 1h"})
	requests := map[string]struct {
		request *http.Request
		status  int
	}{
		"list":         {p.request(http.MethodGet, buyerList, "buyer"), 200},
		"HEAD":         {p.request(http.MethodHead, buyerList, "buyer"), 200},
		"not modified": {p.request(http.MethodGet, buyerList, "buyer", "If-None-Match", p.get(buyerList, "buyer").header.Get("Etag")), 304},
		"no key":       {p.request(http.MethodGet, buyerList, ""), 401},
		"no such path": {p.request(http.MethodGet, "/nowhere", ""), 404},
		"no method":    {p.request(http.MethodDelete, buyerList, ""), 405},
		"document":     {p.request(http.MethodGet, "/openapi.json", ""), 200},
	}
	ask := func(closes bool) {
		t.Helper()
		for name, r := range requests {
			if a := p.do(r.request); a.status != r.status || a.close != closes {
				t.Errorf("%s: %d, the connection is to be closed: %t", name, a.status, a.close)
			}
		}
	}
	ask(false)
	end := p.drain()
	ask(true)
	end()
}

// Over HTTP/2 a draining program answers and has the caller open another
// connection for what follows.
func TestDrainingOverHTTP2(t *testing.T) {
	slow := setup{yaml: "shutdown_delay: 1h"}
	for name, s := range map[string]setup{"clear": slow, "TLS": overTLS(slow)} {
		t.Run(name, func(t *testing.T) {
			p := start(t, s)
			var opened atomic.Int64
			transport := &http.Transport{
				Protocols:       new(http.Protocols),
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					opened.Add(1)
					return new(net.Dialer).DialContext(ctx, network, address)
				},
			}
			transport.Protocols.SetHTTP2(true)
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			ask := func() {
				t.Helper()
				resp, err := client.Do(p.request(http.MethodGet, buyerList, "buyer"))
				must(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
					t.Fatalf("%s over %s", resp.Status, resp.Proto)
				}
			}
			ask()
			ask()
			if n := opened.Load(); n != 1 {
				t.Fatalf("%d connections before the stop", n)
			}
			end := p.drain()
			ask()
			p.eventually("the caller opens another connection", func() bool { ask(); return opened.Load() > 1 })
			end()
		})
	}
}
