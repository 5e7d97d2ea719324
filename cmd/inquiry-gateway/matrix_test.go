package main

import (
	"bytes"
	"net/http"
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
	first, second := start(t, setup{yaml: yaml}), start(t, setup{yaml: yaml})
	a := first.get(buyerList, "buyer")
	second.eventually("the list comes out of Redis", func() bool {
		return strings.HasPrefix(second.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit")
	})
	b := second.get(buyerList, "buyer")
	if !bytes.Equal(a.body, b.body) || a.header.Get("Etag") != b.header.Get("Etag") {
		t.Errorf("the nodes disagree")
	}
	if n := second.system.Requests().Buyer; n > 1 {
		t.Errorf("the second node's legacy was asked %d times", n)
	}
}
