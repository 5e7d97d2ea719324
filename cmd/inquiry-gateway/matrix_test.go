package main

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache/redistest"
	"inquiry-gateway/upstream/legacy"
)

// legacyState puts the legacy system into a column of the failure matrix.
var legacyStates = map[string]func(*program){
	"up":      func(*program) {},
	"slow":    fault(legacy.Fault{Name: legacy.FaultDelay, Delay: 10 * time.Second}),
	"down":    fault(legacy.Fault{Name: legacy.FaultRefuse}),
	"garbage": fault(legacy.Fault{Name: legacy.FaultHTML}),
}

// The declared results of the failure matrix, row legacy: with a list in the
// cache the answer is that list, stale and at once; without one it is the error
// that says what is wrong.
func TestMatrixLegacy(t *testing.T) {
	cold := map[string]int{"up": 200, "slow": 504, "down": 502, "garbage": 502}
	for state, prepare := range legacyStates {
		t.Run(state, func(t *testing.T) {
			var timeouts []string
			if state == "slow" {
				timeouts = shortTimeouts
			}
			p := start(t, setup{upstream: timeouts, yaml: "cache: {buyer: {ttl: 1ms, stale_while_revalidate: 0s, stale_if_error: 10m}}"})
			want := truth(p.system, "buyer", legacy.BuyerTypical, "", "")
			warm := p.get(buyerList, "buyer")
			prepare(p)
			p.eventually("the list is no longer fresh", func() bool {
				return state == "up" || strings.Contains(p.get(buyerList, "buyer").header.Get("Cache-Status"), "; ttl=-")
			})
			for i := range 3 {
				a := p.get(buyerList, "buyer")
				if a.status != http.StatusOK || !bytes.Equal(a.body, want) {
					t.Fatalf("warm, request %d: %d %.300s", i, a.status, a.body)
				}
				if state != "up" && !strings.HasSuffix(a.header.Get("Cache-Status"), "; detail=stale-error") {
					t.Errorf("warm: Cache-Status is %q", a.header.Get("Cache-Status"))
				}
			}
			if warm.status != 200 {
				t.Fatalf("warming: %d", warm.status)
			}
			if a := p.get(buyerList, "other-buyer"); a.status != cold[state] {
				t.Errorf("cold: %d, want %d: %s", a.status, cold[state], a.body)
			}
		})
	}
}

// Row Redis: its trouble never fails a request, with the list in the process
// (warm) or not (cold).
func TestMatrixRedis(t *testing.T) {
	for state, prepare := range map[string]func(*redistest.Server){
		"up":      func(*redistest.Server) {},
		"slow":    (*redistest.Server).Pause,
		"down":    (*redistest.Server).Kill,
		"garbage": spoil,
	} {
		t.Run(state, func(t *testing.T) {
			server := redistest.Start(t)
			p := start(t, setup{yaml: "redis: {addrs: [\"" + server.Addr + "\"]}"})
			want := truth(p.system, "buyer", legacy.BuyerTypical, "", "")
			if a := p.get(buyerList, "buyer"); a.status != 200 {
				t.Fatalf("warming: %d", a.status)
			}
			prepare(server)
			if a := p.get(buyerList, "buyer"); a.status != 200 || !bytes.Equal(a.body, want) {
				t.Errorf("warm: %d %.300s", a.status, a.body)
			}
			wantOther := truth(p.system, "buyer", legacy.BuyerOther, "", "")
			if a := p.get(buyerList, "other-buyer"); a.status != 200 || !bytes.Equal(a.body, wantOther) {
				t.Errorf("cold: %d %.300s", a.status, a.body)
			}
			if a := p.ops("/readyz"); a.status != 200 {
				t.Errorf("readyz: %d %s", a.status, a.body)
			}
		})
	}
}

// spoil replaces every value by bytes that no gateway wrote.
func spoil(s *redistest.Server) {
	for _, key := range strings.Fields(s.Do("KEYS", "*")) {
		s.Do("SET", key, "\x00garbage", "KEEPTTL")
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
	if state := second.app.current.Load().client.BreakerState("buyer"); state != "closed" {
		t.Errorf("its own breaker is %s", state)
	}
	first.system.ClearFaults("")
	second.eventually("the legacy is asked again", func() bool { return second.get(buyerList, "other-buyer").status == http.StatusOK })
	first.eventually("by both", func() bool { return first.get(buyerList, "empty-buyer").status == http.StatusOK })
}
