package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"text/template"
	"time"

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

// arguments are a program's, once it is known on which addresses it listens.
type arguments func(listen, ops string) []string

// start runs a program and waits until it takes connections. goProgram tells
// that it serves its own figures on the second address.
func (b *bench) start(ctx context.Context, p testkit.Program, goProgram bool, args arguments) *server {
	listen, ops := must(testkit.FreeAddr()), must(testkit.FreeAddr())
	p.Addr, p.Dir, p.Args = listen, b.dir, args(listen, ops)
	s := &server{Process: must(testkit.Start(ctx, p)), url: "http://" + listen}
	b.started = append(b.started, s.Process)
	if goProgram {
		s.ops = ops
	}
	return s
}

// stop ends everything in the opposite order of the start.
func (b *bench) stop() error {
	var errs []error
	for i := len(b.started) - 1; i >= 0; i-- {
		errs = append(errs, b.started[i].Stop())
	}
	if b.legacyServer != nil {
		errs = append(errs, b.legacyServer.Close())
	}
	return errors.Join(errs...)
}

// startLegacy serves the legacy system from this process: its CPU time is never
// counted, and its counters and its latency are at hand.
func (b *bench) startLegacy() {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	// With the buyers that always exist and no more, all but a few inquiries are
	// the busy one's. A quarter of them, in the rarest state, is more than 5,000.
	b.legacy = legacy.New(legacy.Options{Seed: 1, Buyers: 4, Inquiries: 22_000})
	b.legacyURL = "http://" + l.Addr().String()
	b.legacyServer = &http.Server{Handler: b.legacy, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = b.legacyServer.Serve(l) }() // ends with Close
}

// startRedis runs a Redis that keeps nothing on disk. All nodes with a Redis share it.
func (b *bench) startRedis(ctx context.Context) {
	b.redis = b.start(ctx, testkit.Program{Name: "redis", Path: "redis-server"}, false, func(listen, _ string) []string {
		host, port, _ := net.SplitHostPort(listen) // it is both
		return append(testkit.InMemory(), "--bind", host, "--port", port, "--dir", b.dir)
	})
}

// startBare runs the handler that the gateway is compared with.
func (b *bench) startBare(ctx context.Context, name string, args ...string) *server {
	return b.start(ctx, testkit.Program{Name: name, Path: b.path("bin/bare")}, true, func(listen, ops string) []string {
		return append([]string{"-listen", listen, "-control", ops}, args...)
	})
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
	s := b.start(ctx, testkit.Program{Name: n.Name, Path: b.path("bin/inquiry-gateway")}, true, func(listen, ops string) []string {
		n.Listen, n.Ops, n.legacyURL = listen, ops, b.legacyURL
		return []string{"serve", "-c", b.write(n.Name+".yaml", "gateway.yaml", n)}
	})
	if n.TLS {
		s.url = "https://" + s.Addr
	}
	return s
}
