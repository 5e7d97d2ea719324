package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// The legacy filters no sellers' list, so all of an account's are one to it.
func TestFiltersOfTheGatewayCostOneRequest(t *testing.T) {
	p := start(t, setup{upstream: []string{"default: other", "default: other, unknown_values: keep"}})
	ask := func(query string) answer {
		t.Helper()
		a := p.get(sellerList+query, "seller")
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		return a
	}
	if got := ask("?status=pending").header.Get("Cache-Status"); got != "inquiry-gateway; fwd=miss; stored" {
		t.Errorf("the first: %s", got)
	}
	for i := range 200 {
		a := ask(fmt.Sprintf("?inquiry_type=x%d", i))
		if string(a.body) != `{"data":[],"meta":{},"errors":[]}` || !strings.HasPrefix(a.header.Get("Cache-Status"), "inquiry-gateway; hit; ttl=") {
			t.Fatalf("%s %s", a.header.Get("Cache-Status"), a.body)
		}
	}
	for _, status := range []string{"", "pending", "answered", "closed"} {
		a := ask(query("status", status))
		if want := truth(p.system, "seller", legacy.SellerTypical, status, ""); !bytes.Equal(a.body, want) {
			t.Errorf("status %q: %.300s\nwant %.300s", status, a.body, want)
		}
	}
	if n := legacyRequests(t, p); n != 1 {
		t.Errorf("%v requests to the legacy, want 1", n)
	}
	x, _, code := command(t, "explain", "--ops", p.app.OpsURL(), "--account", legacy.SellerTypical, "--kind", "seller", "--status", "pending")
	if code != 0 || !strings.Contains(x, "derived_from: the list without filters") {
		t.Errorf("explain: %d %s", code, x)
	}
}

func query(name, value string) string {
	if value == "" {
		return ""
	}
	return "?" + name + "=" + value
}

// legacyRequests reads how many fetches there were.
func legacyRequests(t *testing.T, p *program) (n float64) {
	t.Helper()
	for line := range strings.Lines(string(p.ops("/metrics").body)) {
		if rest, ok := strings.CutPrefix(line, "inquiry_gateway_upstream_requests_total{"); ok {
			var one float64
			if _, err := fmt.Sscan(rest[strings.IndexByte(rest, ' ')+1:], &one); err != nil {
				t.Fatal(err)
			}
			n += one
		}
	}
	return n
}

// A filter value that no record can have costs Redis nothing: what it is called
// with meanwhile are the node's own polls.
func TestAnImpossibleFilterCostsRedisNothing(t *testing.T) {
	server := redistest.Start(t)
	p := start(t, setup{yaml: fmt.Sprintf("redis: {addrs: [%q], %s}", server.Addr, relaxedTimeout)})
	p.gets(http.StatusOK, buyerList, "buyer")
	// The commands of a look-up; polls and the prober use others. The list of all
	// commands is in the failure, so that a new one does not go unseen.
	calls := func() map[string]string {
		stats := map[string]string{}
		for line := range strings.Lines(server.Do("INFO", "commandstats")) {
			name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
			if count, _, found := strings.Cut(rest, ","); ok && found {
				stats[strings.TrimPrefix(name, "cmdstat_")] = count
			}
		}
		return stats
	}
	p.eventually("what the first list cost is over", func() bool {
		before := calls()
		return before["set"] != "" && calls()["publish"] == before["publish"]
	})
	before := calls()
	for i := range 100 {
		a := p.get(fmt.Sprintf("%s?status=x%d", buyerList, i), "buyer")
		if a.status != http.StatusOK || string(a.body) != `{"data":[],"meta":{},"errors":[]}` || a.header.Get("Cache-Status") != "inquiry-gateway; fwd=miss" {
			t.Fatalf("%d %s %s", a.status, a.header.Get("Cache-Status"), a.body)
		}
	}
	after := calls()
	for _, command := range []string{"set", "setnx", "getrange", "publish", "eval", "evalsha", "exists", "pexpire", "del"} {
		if before[command] != after[command] {
			t.Errorf("%s: %s before, %s after; all: %v", command, before[command], after[command], after)
		}
	}
	if n := legacyRequests(t, p); n != 1 {
		t.Errorf("%v requests to the legacy, want the first list's", n)
	}
}
