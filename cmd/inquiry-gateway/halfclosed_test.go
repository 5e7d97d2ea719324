package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// A caller may send its requests and at once the end of what it sends, and waits: it
// gets all answers, those that are fetched first too, and those to what it sent behind.
func TestHalfClosedCallersGetTheirAnswers(t *testing.T) {
	t.Parallel() // it waits
	secure := "tls: {cert_file: cert.pem, key_file: key.pem}\n"
	for name, yaml := range map[string]string{"clear": "", "TLS": secure, "without the hit lane": "gateway: {hit_lane: off}\n", "TLS without it": secure + "gateway: {hit_lane: off}\n"} {
		p := start(t, setup{yaml: yaml, legacy: legacy.Options{Latency: 50 * time.Millisecond}, prepare: func(p *program) { testkit.Certificate(t, p.dir, "gateway") }})
		c := p.dial()
		var requests strings.Builder
		targets := []string{buyerList, buyerList + "?status=pending", sellerList, buyerList} // the last one is a hit
		for _, target := range targets {
			key := "buyer"
			if target == sellerList {
				key = "seller"
			}
			fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n\r\n", target, p.keys[key])
		}
		if _, err := io.WriteString(c, requests.String()); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			if status := c.answer(http.MethodGet); status != http.StatusOK {
				t.Errorf("%s: answer %d, of %s, is %d", name, i+1, target, status)
			}
		}
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Errorf("%s: after the last answer: %v", name, err)
		}
		if n := p.system.Requests().Lists(); n != 3 {
			t.Errorf("%s: the legacy got %d requests", name, n)
		}
	}
}

// A caller whose connection is reset has left, and is told from one that waits.
func TestResetCallersHaveLeft(t *testing.T) {
	t.Parallel()                                                           // it waits
	p := start(t, setup{upstream: []string{"timeout: 2s", "timeout: 1s"}}) // then the request is over, and is logged
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultDelay, Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	c := p.dial()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n\r\n", buyerList, p.keys["buyer"])
	p.eventually("the legacy is asked", func() bool { return p.system.Requests().Buyer == 1 })
	_ = c.Conn.(*net.TCPConn).SetLinger(0) // close is a reset then
	_ = c.Close()
	p.eventually("the caller has left", func() bool { return strings.Contains(p.logs.String(), `"status":499`) })
}
