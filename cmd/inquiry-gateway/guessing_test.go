package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// guess sends a key that does not exist.
func (p *program) guess(i int) answer {
	r := p.request(http.MethodGet, buyerList, "")
	r.Header.Set("Authorization", fmt.Sprintf("Bearer made-up-%d", i))
	return p.do(r)
}

// guessUntilLimited sends made-up keys until the address gets 429 for them, and
// checks that answer.
func (p *program) guessUntilLimited() {
	p.t.Helper()
	for i := range 200 {
		switch a := p.guess(i); a.status {
		case http.StatusUnauthorized:
		case http.StatusTooManyRequests:
			if a.header.Get("Retry-After") == "" || a.header.Get("RateLimit") != "" || a.header.Get("RateLimit-Policy") != "" {
				p.t.Errorf("429 for guesses: %v", a.header)
			}
			return
		default:
			p.t.Fatalf("guess %d: %d %s", i, a.status, a.body)
		}
	}
	p.t.Fatal("200 guesses from one address and no 429")
}

// Callers behind one address share it with somebody who guesses. A key that this
// node has seen good is never refused for that, and one that it has not seen is
// let in when it comes again.
func TestGuessesDoNotHoldUpGoodKeys(t *testing.T) {
	p, s := introspecting(t, "ttl: 20ms, negative_ttl: 1m, unknown_keys: {per_second: 0.01, burst: 20}")
	if a := p.get(buyerList, "buyer"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.guessUntilLimited()
	before := s.askedAbout("buyer")
	for deadline := time.Now().Add(10 * time.Second); s.askedAbout("buyer") < before+5 && time.Now().Before(deadline); {
		if a := p.get(buyerList, "buyer"); a.status != http.StatusOK {
			t.Fatalf("a key that was good a moment ago: %d %s", a.status, a.body)
		}
	}
	if s.askedAbout("buyer") < before+5 {
		t.Error("the key's time was never over")
	}
	first, second := p.get(sellerList, "seller"), p.get(sellerList, "seller")
	if first.status != http.StatusTooManyRequests || second.status != http.StatusOK {
		t.Errorf("a new key among guesses: %d, then %d", first.status, second.status)
	}
}

// Keys in a file are looked up at no cost, but guessing shows there too.
func TestGuessesAtAKeysFile(t *testing.T) {
	p := start(t, setup{})
	p.guessUntilLimited()
	for _, id := range []string{"buyer", "other-buyer"} {
		if a := p.get(buyerList, id); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", id, a.status, a.body)
		}
	}
	if !strings.Contains(string(p.ops("/metrics").body), "inquiry_gateway_auth_requests_total{result=\"limited\"} 1\n") {
		t.Error("the metric does not count one refusal for guessing")
	}
}
