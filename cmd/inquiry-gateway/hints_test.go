package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// With a ttl of an hour both nodes show what has changed as soon as the legacy system
// has told of it, whichever way it tells, and no internal id comes out.
func TestHintsMakeBothNodesShowAChange(t *testing.T) {
	t.Parallel() // it waits
	srv := redistest.Start(t)
	s := setup{yaml: "cache: {buyer: {ttl: 1h, stale_while_revalidate: 1h}}"}
	nodes := pair(t, fmt.Sprintf("addrs: [%q], %s", srv.Addr, relaxedTimeout), s)
	system, account := nodes[0].system, legacy.BuyerTypical
	for _, tt := range []struct {
		name string
		tell func()
	}{
		{"hard", func() {
			body := fmt.Sprintf(`{"accounts":[%q],"hard":true}`, account)
			resp, err := http.Post(nodes[0].app.OpsURL()+"/ops/changed", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Errorf("a hard hint: %s", resp.Status)
			}
		}},
		{"soft", func() { changedBy(nodes[1], "--account", account) }},
		{"by a kind", func() { changedBy(nodes[0], "--kind", "buyer") }},
	} {
		for _, node := range nodes {
			node.eventually("the list is cached", func() bool {
				return strings.HasPrefix(node.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit; ttl=3")
			})
		}
		if !system.Answer(account) {
			t.Fatal("nothing has changed")
		}
		want, start := truth(system, "buyer", account, "", ""), time.Now()
		if bytes.Equal(want, nodes[0].get(buyerList, "buyer").body) {
			t.Errorf("%s: the change shows before it is told of", tt.name)
		}
		tt.tell()
		for _, node := range nodes {
			node.eventually(tt.name+": the change shows", func() bool { return bytes.Equal(want, node.get(buyerList, "buyer").body) })
		}
		t.Logf("%s: both nodes show it after %s", tt.name, time.Since(start))
	}
}

func changedBy(p *program, what ...string) {
	p.t.Helper()
	if out, problem, code := command(p.t, append([]string{"purge", "--refresh", "--ops", p.app.OpsURL()}, what...)...); code != 0 {
		p.t.Fatalf("%s %s", out, problem)
	}
}
