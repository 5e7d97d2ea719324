package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"text/template"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

//go:embed files
var files embed.FS

// write fills one of the embedded templates into a file of the temporary folder
// and returns its path.
func (b *bench) write(name, from string, values any) string {
	file := must(os.Create(b.path(name)))
	check(must(template.ParseFS(files, "files/"+from)).Execute(file, values), file.Close())
	return file.Name()
}

// server is a program that this one started.
type server struct {
	*testkit.Process
	url string // without a path
	ops string // host:port of /debug/pprof, and of a gateway's /metrics; empty: not a Go program
}

// start runs a program and waits until it takes connections. ops is where it serves its
// own figures; empty: it is not a Go program.
func (b *bench) start(ctx context.Context, p testkit.Program, ops string) *server {
	p.Dir = b.dir
	s := &server{Process: must(testkit.Start(ctx, p)), url: "http://" + p.Addr, ops: ops}
	b.started = append(b.started, s.Process)
	return s
}

func freeAddr() string { return must(testkit.FreeAddr()) }

// stop ends everything in the opposite order of the start.
func (b *bench) stop() error {
	var errs []error
	for _, p := range slices.Backward(b.started) {
		errs = append(errs, p.Stop())
	}
	if b.legacyServer != nil {
		b.legacyServer.Close()
	}
	return errors.Join(errs...)
}

// startLegacy serves the legacy system from this process: its CPU time is never
// counted, and its counters and its latency are at hand.
func (b *bench) startLegacy() {
	// With the buyers that always exist and no more, all but a few inquiries are
	// the busy one's. A quarter of them, in the rarest state, is more than 5,000.
	b.legacy = legacy.New(legacy.Options{Seed: 1, Buyers: 4, Inquiries: 22_000})
	b.legacyServer = httptest.NewServer(b.legacy)
}

// startRedis runs a Redis that keeps nothing on disk. All nodes with a Redis share it.
func (b *bench) startRedis(ctx context.Context) {
	addr := freeAddr()
	host, port, _ := net.SplitHostPort(addr) // it is both
	args := append(testkit.InMemory(), "--bind", host, "--port", port, "--dir", b.dir)
	b.redis = b.start(ctx, testkit.Program{Name: "redis", Path: "redis-server", Addr: addr, Args: args}, "")
}

// startBare runs the handler that the gateway is compared with.
func (b *bench) startBare(ctx context.Context, name string, args ...string) *server {
	listen, ops := freeAddr(), freeAddr()
	args = append([]string{"-listen", listen, "-control", ops}, args...)
	return b.start(ctx, testkit.Program{Name: name, Path: b.path("bin/bare"), Addr: listen, Args: args}, ops)
}

// node says how a gateway is configured. Zero fields keep it as it is delivered.
type node struct {
	Name          string
	Records       int    // of every list that the legacy has for it
	Uncached, TLS bool   // Uncached: every request is a miss
	Small         bool   // the in-process tier has 1 MiB, not enough for everything
	Redis         string // address; empty: none

	Listen, Ops, legacyURL string // set by startNode
}

// Mapping is the delivered mapping of the legacy system with another address
// and more time: cost is measured here, not time limits.
func (n node) Mapping() string {
	return strings.NewReplacer(
		"base_url: http://127.0.0.1:9300", fmt.Sprintf("base_url: %s/first/%d", n.legacyURL, n.Records), "timeout: 2s", "timeout: 15s",
	).Replace(string(legacy.Mapping()))
}

// startNode runs the gateway's binary.
func (b *bench) startNode(ctx context.Context, n node) *server {
	n.Listen, n.Ops, n.legacyURL = freeAddr(), freeAddr(), b.legacyServer.URL
	args := []string{"serve", "-c", b.write(n.Name+".yaml", "gateway.yaml", n)}
	s := b.start(ctx, testkit.Program{Name: n.Name, Path: b.path("bin/inquiry-gateway"), Addr: n.Listen, Args: args}, n.Ops)
	if n.TLS {
		s.url = "https://" + s.Addr
	}
	return s
}
