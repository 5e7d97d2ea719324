package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"inquiry-gateway/cache"
)

// nowhere takes an answer and keeps nothing of it, so that what is measured is
// the gateway's own work.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkHit is all that a hit costs in this package, log record and metrics
// included, for the decision what may stand between look-up and write.
func BenchmarkHit(b *testing.B) {
	benchHits(b, Options{})
}

// benchHits measures hits of a gateway with these options.
func benchHits(b *testing.B, opts Options) {
	opts.Auth, opts.Lists, opts.RequestLog = authFunc(buyer), warm{entryOf("acme")}, io.Discard
	g := New(opts)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries?status=pending", nil)
	r.Header.Set("Authorization", "Bearer k")
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		g.ServeHTTP(w, r)
	}
}

// warm has every list.
type warm struct{ found cache.Result }

func (w warm) Lookup(cache.Key) (cache.Result, bool)           { return w.found, true }
func (w warm) Served(cache.Key, cache.Result)                  {}
func (w warm) Coded(*cache.Entry, cache.Coding) *cache.Variant { return nil }
func (w warm) Get(context.Context, cache.Key) (cache.Result, error) {
	return w.found, nil
}

// BenchmarkFront is all of a hit of the front but the system calls, with real parts and
// a limit, for the decision what is worth to be done by hand.
func BenchmarkFront(b *testing.B) {
	for name, fields := range map[string][]string{"hit": nil, "304": {"If-None-Match: *"}, "gzip": {"Accept-Encoding: gzip"}} {
		b.Run(name, func(b *testing.B) {
			in := newMemoryListener()
			s := newStand(b, in, func(o *Options) { o.RequestLog = io.Discard }).serve(b)
			caller := in.connect(peers[0])
			two := [2][]byte{[]byte(hitOf("acme", buyersList, fields...)), []byte(hitOf("globex", buyersList, fields...))}
			answers := make([]byte, 64<<10)
			var sizes [2]int
			for i := range 4 { // the first two are fills
				_, _ = caller.Write(two[i%2])
				time.Sleep(20 * time.Millisecond)
				sizes[i%2], _ = caller.Read(answers)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := caller.Write(two[i%2]); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(caller, answers[:sizes[i%2]]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.inLane(b))/float64(b.N), "front/op")
			_ = caller.Close()
		})
	}
}
