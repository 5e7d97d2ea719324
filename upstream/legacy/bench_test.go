package legacy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// BenchmarkCachedList decides whether this system can be the upstream of a load
// test: it has to cost little beside the gateway.
func BenchmarkCachedList(b *testing.B) {
	s := legacy.New(legacy.Options{})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/v2/tickets?customer=acme", nil)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(w, r)
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
