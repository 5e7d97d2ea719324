package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

const (
	readinessPoll = 40 * time.Millisecond
	loadWorkers   = 4
	loadPause     = 5 * time.Millisecond // between two requests of one worker
)

// balancer sends requests to the programs that were ready when it last asked. It
// repeats none.
type balancer struct {
	t        *testing.T
	client   *http.Client
	backends [2]atomic.Pointer[member]
	turn     atomic.Int64
}

// member is one run of a program.
type member struct {
	url, ops, key string
	ready         atomic.Bool
}

func newBalancer(t *testing.T, programs [2]*program) *balancer {
	b := &balancer{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadWorkers}}}
	t.Cleanup(b.client.CloseIdleConnections)
	for i, p := range programs {
		b.add(i, p)
	}
	return b
}

// add waits until the program is ready.
func (b *balancer) add(i int, p *program) {
	m := &member{url: p.app.URL(), ops: p.app.OpsURL(), key: p.keys["buyer"]}
	p.eventually("it is ready", func() bool { return b.poll(m) })
	b.backends[i].Store(m)
}

func (b *balancer) poll(m *member) bool {
	resp, err := b.client.Get(m.ops + "/readyz")
	if err != nil {
		m.ready.Store(false)
		return false
	}
	_ = resp.Body.Close()
	m.ready.Store(resp.StatusCode == http.StatusOK)
	return m.ready.Load()
}

// do sends one request to whoever is ready.
func (b *balancer) do() error {
	turn := int(b.turn.Add(1))
	for i := range b.backends {
		m := b.backends[(turn+i)%len(b.backends)].Load()
		if !m.ready.Load() {
			continue
		}
		// A body that cannot be read again keeps net/http from repeating the request.
		r, err := http.NewRequest(http.MethodGet, m.url+buyerList, io.NopCloser(strings.NewReader("")))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+m.key)
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
	return fmt.Errorf("nobody is ready")
}

// Two nodes are restarted in turn under load, behind a balancer that asks for
// their readiness: no request fails.
func TestRollingRestart(t *testing.T) {
	settings := setup{yaml: "shutdown_delay: 400ms"}
	first := start(t, settings)
	settings.joins = first
	programs := [2]*program{first, start(t, settings)}
	b := newBalancer(t, programs)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for tick := time.Tick(readinessPoll); ; <-tick {
			select {
			case <-done:
				return
			default:
			}
			for i := range b.backends {
				b.poll(b.backends[i].Load())
			}
		}
	})
	var requests, failed atomic.Int64
	var last atomic.Value
	for range loadWorkers {
		group.Go(func() {
			for tick := time.Tick(loadPause); ; <-tick {
				select {
				case <-done:
					return
				default:
				}
				requests.Add(1)
				if err := b.do(); err != nil {
					failed.Add(1)
					last.Store(err.Error())
				}
			}
		})
	}
	for i := range 3 {
		p := programs[i%2]
		p.stop()
		p.run()
		b.add(i%2, p)
	}
	close(done)
	group.Wait()
	for _, p := range programs { // both at once, which takes one delay
		group.Go(p.stop)
	}
	group.Wait()
	if failed.Load() > 0 || requests.Load() < 100 {
		t.Errorf("%d of %d requests failed, the last: %v", failed.Load(), requests.Load(), last.Load())
	}
}

// While a program drains it says so, answers on new connections and on those that
// it has, asks each time to come back on another one, and ends at once when it is
// told to stop again.
func TestDraining(t *testing.T) {
	p := start(t, setup{yaml: "shutdown_delay: 1h"})
	for _, target := range []string{buyerList, "/nowhere", "/openapi.json"} {
		if a := p.get(target, "buyer"); a.header.Get("Connection") != "" {
			t.Errorf("%s: Connection is %q while nobody stops", target, a.header.Get("Connection"))
		}
	}
	etag := p.get(buyerList, "buyer").header.Get("Etag")
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.stop() }()
	p.eventually("it is not ready", func() bool { return p.ops("/readyz").status == http.StatusServiceUnavailable })
	for name, c := range map[string]struct {
		request *http.Request
		status  int
	}{
		"list":         {p.request(http.MethodGet, buyerList, "buyer"), 200},
		"HEAD":         {p.request(http.MethodHead, buyerList, "buyer"), 200},
		"not modified": {p.request(http.MethodGet, buyerList, "buyer", "If-None-Match", etag), 304},
		"no key":       {p.request(http.MethodGet, buyerList, ""), 401},
		"no such path": {p.request(http.MethodGet, "/nowhere", ""), 404},
		"no method":    {p.request(http.MethodDelete, buyerList, ""), 405},
		"document":     {p.request(http.MethodGet, "/openapi.json", ""), 200},
	} {
		resp, err := p.client.Do(c.request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !resp.Close {
			t.Errorf("%s: %s, the connection is to be closed: %t", name, resp.Status, resp.Close)
		}
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-stopped
}

// overHTTP2 is a client that speaks nothing else, and how many connections it has
// opened.
func overHTTP2(t *testing.T) (*http.Client, func() int64) {
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
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, opened.Load
}

// Over HTTP/2 a draining program answers and has the caller open another
// connection for what follows.
func TestDrainingOverHTTP2(t *testing.T) {
	for name, s := range map[string]setup{
		"clear": {},
		"TLS":   {prepare: func(p *program) { testkit.Certificate(t, p.dir, "gateway") }, yaml: "tls: {cert_file: cert.pem, key_file: key.pem}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s.yaml += "shutdown_delay: 1h"
			p := start(t, s)
			client, opened := overHTTP2(t)
			ask := func() {
				resp, err := client.Do(p.request(http.MethodGet, buyerList, "buyer"))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
					t.Fatalf("%s over %s", resp.Status, resp.Proto)
				}
			}
			ask()
			ask()
			if n := opened(); n != 1 {
				t.Fatalf("%d connections before the stop", n)
			}
			stopped := make(chan struct{})
			go func() { defer close(stopped); p.stop() }()
			p.eventually("it drains", func() bool { return p.part("status") == "draining" })
			ask()
			p.eventually("the caller opens another connection", func() bool { ask(); return opened() > 1 })
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-stopped
		})
	}
}
