package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"inquiry-gateway/upstream/legacy"
)

// node says how one gateway is configured. Zero fields keep it as it is
// delivered.
type node struct {
	name     string
	records  int  // of every list that the legacy has for it
	uncached bool // every request is a miss
	tls      bool
	redis    string // address
	local    string // size of the in-process tier; empty: enough for everything
	backend  string // address
}

// longTTL outlives every run, so that a hit stays one.
const longTTL = "{ttl: 4h, stale_while_revalidate: 1s, stale_if_error: 1s}"

// config is the node's YAML file.
func (n node) config(listen, ops string) string {
	ttl := longTTL
	if n.uncached {
		ttl = "{ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}"
	}
	local := n.local
	if local == "" {
		local = "1GiB"
	}
	entry := "64MiB"
	if n.local != "" {
		entry = n.local
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nops: {listen: %s}\nrequest_timeout: 20s\nshutdown_delay: 0s\nauth: {keys_file: keys.yaml}\n", listen, ops)
	b.WriteString("rate_limit: {per_second: 0}\n") // off: few accounts make all the load
	if n.tls {
		b.WriteString("tls: {cert_file: cert.pem, key_file: key.pem}\n")
	}
	if n.redis != "" {
		fmt.Fprintf(&b, "redis: {addrs: [%q]}\n", n.redis)
	}
	fmt.Fprintf(&b, "cache:\n  local: {max_bytes: %s}\n  max_entry_bytes: %s\n  jitter: 0\n  buyer: %s\n  seller: %s\n",
		local, entry, ttl, ttl)
	b.WriteString(n.mapping())
	return b.String()
}

// mapping is the delivered mapping of the legacy system with another address
// and more time, and all places for any account: what is measured here is cost, not patience.
func (n node) mapping() string {
	const address, timeout = "base_url: http://127.0.0.1:9300", "timeout: 2s"
	text := string(legacy.Mapping())
	text = strings.Replace(text, address, fmt.Sprintf("base_url: http://%s/r%d", n.backend, n.records), 1)
	return strings.Replace(text, timeout, "timeout: 15s\n  max_concurrent_per_account: 64", 1)
}

// startNode writes the configuration beside the fixture's files and runs the
// gateway's binary.
func (s *stand) startNode(ctx context.Context, n node) (*process, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	file := s.fixture.path(n.name + ".yaml")
	if err := os.WriteFile(file, []byte(n.config(addrs[0], addrs[1])), 0o600); err != nil {
		return nil, err
	}
	p := &process{name: n.name, addr: addrs[0], ops: addrs[1]}
	return p, s.crew.start(ctx, p, s.bin("inquiry-gateway"), "serve", "-c", file)
}
