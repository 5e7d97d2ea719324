package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// BenchmarkFetch is a whole fetch over loopback: the client's and the fixture
// server's work together, so the client's part is less.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{20, 1000, 5000} {
		body := []byte(testkit.SampleTickets(n))
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body)
		}))
		b.Cleanup(srv.Close)
		cfg := configFrom(b, testkit.SampleYAML)
		cfg.BaseURL = srv.URL
		c, err := New(cfg, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				list, err := c.Fetch(b.Context(), Request{Kind: "buyer", Account: "acme"})
				if err != nil || len(list.Inquiries) != n {
					b.Fatal(len(list.Inquiries), err)
				}
			}
		})
	}
}
