package main

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/drill"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// The failure matrix, as the drill declares it, with the whole program: what a
// caller gets with Redis, the legacy and the key store up, slow, down or giving
// garbage, one at a time and two at once.
func TestMatrix(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // it waits for timeouts
	dir := t.TempDir()
	store, err := drill.OpenStore(t.Context(), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg, _, err := drilledConfig("")
	if err != nil {
		t.Fatal(err)
	}
	report, err := drill.Run(t.Context(), drill.Options{Config: cfg, Start: startDrilled, Dir: dir, Store: store, Slack: noHurry})
	if err != nil || len(report.Rows) != 87 || len(report.Trials) != 11 {
		t.Fatalf("%d rows, %d trials, %v", len(report.Rows), len(report.Trials), err)
	}
	for _, row := range report.Rows {
		if row.Problem != "" {
			t.Errorf("%+v, %s: %s", row.Cell, row.Case, row.Problem)
		}
	}
	for _, trial := range report.Trials {
		if trial.Problem != "" || trial.Asked == 0 {
			t.Errorf("%s: %d answers, %s", trial.Does, trial.Asked, trial.Problem)
		}
	}
}

// Two nodes share a Redis: what one fetched, the other serves, with the age it
// has had since the legacy answered.
func TestSecondNodeTakesListsFromRedis(t *testing.T) {
	server := redistest.Start(t)
	yaml := "redis: {addrs: [\"" + server.Addr + "\"]}"
	first := start(t, setup{yaml: yaml})
	second := start(t, setup{yaml: yaml, joins: first})
	a := first.get(buyerList, "buyer")
	first.eventually("the list is in Redis", func() bool {
		return slices.ContainsFunc(strings.Fields(server.Do("KEYS", "iq:*:buyer:*")), func(word string) bool {
			return strings.HasPrefix(word, "iq:") && len(server.Do("STRLEN", word)) > len(":999")
		})
	})
	b := second.get(buyerList, "buyer")
	if !bytes.Equal(a.body, b.body) || a.header.Get("Etag") != b.header.Get("Etag") || !strings.HasPrefix(b.header.Get("Cache-Status"), "inquiry-gateway; hit") {
		t.Errorf("the second node answered %d %v", b.status, b.header)
	}
	if n := first.system.Requests().Buyer; n != 1 {
		t.Errorf("the legacy was asked %d times", n)
	}
}

// A node whose breaker opens spares the others the trial: they do not ask the
// legacy either, until one of them has found it well again.
func TestBreakersHeedEachOther(t *testing.T) {
	t.Parallel() // it waits
	yaml := "redis: {addrs: [\"" + redistest.Start(t).Addr + "\"]}"
	first := start(t, setup{yaml: yaml, upstream: []string{"max_records: 10000", "max_records: 10000\n  breaker: {window: 10s, min_requests: 5, failure_ratio: 0.5, open_for: 1s}"}})
	second := start(t, setup{yaml: yaml, joins: first})
	openBreaker(first)
	second.eventually("the second node has heard of it", func() bool {
		return strings.Contains(string(second.ops("/metrics").body), `inquiry_gateway_advice_events_total{event="heard",kind="buyer"}`)
	})
	asked := first.system.Requests().Buyer
	a := second.get(buyerList, "other-buyer")
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !bytes.Contains(a.body, []byte("upstream_unavailable")) {
		t.Errorf("the second node answered %d %s", a.status, a.body)
	}
	if n := first.system.Requests().Buyer; n != asked {
		t.Errorf("the second node asked the legacy %d times", n-asked)
	}
	if state := second.part("upstream_buyer"); state != "closed" {
		t.Errorf("its own breaker is %s", state)
	}
	first.system.ClearFaults("")
	second.eventually("the legacy is asked again", func() bool { return second.get(buyerList, "other-buyer").status == http.StatusOK })
	first.eventually("by both", func() bool { return first.get(buyerList, "empty-buyer").status == http.StatusOK })
}
