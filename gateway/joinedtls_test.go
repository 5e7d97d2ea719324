package gateway

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"inquiry-gateway/gateway/httpwire"
)

// With TLS the connection's reader writes too: the alert about a record that
// cannot be read, for one, while an answer is on its way.
func TestAlertDuringAnAnswer(t *testing.T) {
	g := New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return []byte(strings.Repeat("x", 5000)) })})
	l := listenHere(t)
	s := httptest.NewUnstartedServer(g)
	_ = s.Listener.Close()
	s.Listener, s.Config.ConnContext = httpwire.NewListener(l, httpwire.Options{}), httpwire.ConnContext
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	for range 100 {
		raw, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
		for range 2 {
			if _, err := io.WriteString(conn, "HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := raw.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		for {
			resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodHead})
			if err != nil {
				break
			}
			if resp.StatusCode != http.StatusNotFound {
				t.Fatalf("status %d", resp.StatusCode)
			}
		}
		_ = raw.Close()
	}
}
