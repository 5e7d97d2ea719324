package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// BenchmarkFetch is a list over loopback, the test's server included. It guards what a miss
// costs: see "what a request costs" in docs/developing.md.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{20, 1000, 5000} {
		body := []byte(testkit.SampleTickets(n))
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body)
		}))
		b.Cleanup(web.Close)
		cfg := configFrom(b, testkit.SampleYAML)
		cfg.BaseURL = web.URL
		c, err := New(cfg, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				list, err := c.Fetch(b.Context(), acme)
				if err != nil || len(list.Inquiries) != n {
					b.Fatal(len(list.Inquiries), err)
				}
			}
		})
	}
}
