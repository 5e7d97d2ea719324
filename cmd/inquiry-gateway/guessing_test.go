package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
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
	p, s := introspecting(t, "cache_ttl: 20ms, unknown_keys: {per_second: 0.01, burst: 20}")
	p.gets(http.StatusOK, buyerList, "buyer")
	p.guessUntilLimited()
	before := s.askedAbout("buyer")
	for deadline := time.Now().Add(10 * time.Second); s.askedAbout("buyer") < before+5 && time.Now().Before(deadline); {
		p.gets(http.StatusOK, buyerList, "buyer")
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
		p.gets(http.StatusOK, buyerList, id)
	}
	if !strings.Contains(string(p.ops("/metrics").body), "inquiry_gateway_auth_requests_total{result=\"limited\"} 1\n") {
		t.Error("the metric does not count one refusal for guessing")
	}
}

// pipeline sends guesses over one connection without waiting for answers, and
// returns the number of answers by status.
func (p *program) pipeline(n int) map[int]int {
	p.t.Helper()
	address := strings.TrimPrefix(p.app.URL(), "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	written := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(conn)
		for i := range n {
			fmt.Fprintf(w, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer guess-%d\r\n\r\n", buyerList, address, i)
		}
		written <- w.Flush()
	}()
	answers, r := map[int]int{}, bufio.NewReader(conn)
	for range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			p.t.Fatal(err)
		}
		answers[resp.StatusCode]++
	}
	if err := <-written; err != nil {
		p.t.Fatal(err)
	}
	return answers
}

// A flood of guesses does not fill the log, hides nobody else in it, and is
// there with its number.
func TestGuessesDoNotFloodTheLog(t *testing.T) {
	const guesses, most = 20_000, 128 << 10
	p := start(t, setup{yaml: "gateway: {trusted_proxies: [127.0.0.1]}"})
	begun := len(p.logs.String())
	answers := p.pipeline(guesses)
	if answers[http.StatusUnauthorized]+answers[http.StatusTooManyRequests] != guesses {
		t.Errorf("answers by status: %v", answers)
	}
	r := p.request(http.MethodGet, buyerList, "", "X-Forwarded-For", "192.0.2.7", "Authorization", "Bearer one-mistake")
	if a := p.do(r); a.status != http.StatusUnauthorized {
		t.Errorf("another address: %d", a.status)
	}
	p.gets(http.StatusOK, buyerList, "buyer")
	metrics := string(p.ops("/metrics").body)
	p.stop() // the end of the program ends the window
	logs := p.logs.String()[begun:]
	if len(logs) > most {
		t.Errorf("%d guesses wrote %d bytes, want at most %d", guesses, len(logs), most)
	}
	t.Logf("%d guesses wrote %d bytes", guesses, len(logs))
	records, suppressed := 0, 0
	for line := range strings.Lines(logs) {
		var r struct {
			Msg, Endpoint string
			Client        string `json:"client_address"`
			Status        int
			Security      struct{ Suppressed int }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		suppressed += r.Security.Suppressed
		if r.Client == "127.0.0.1" && r.Status >= 400 {
			records++
		}
	}
	if records == 0 || records+suppressed != guesses {
		t.Errorf("%d records and summaries of %d do not make %d", records, suppressed, guesses)
	}
	if want := fmt.Sprintf("\ninquiry_gateway_log_suppressed_total %d\n", suppressed); !strings.Contains(metrics, want) {
		t.Errorf("the metric is not %s", strings.TrimSpace(want))
	}
	for _, want := range []string{`"client_address":"192.0.2.7"`, `"key_id":"buyer"`} {
		if !strings.Contains(logs, want) {
			t.Errorf("no record has %s", want)
		}
	}
}
