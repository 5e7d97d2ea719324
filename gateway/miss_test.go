package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// legacyFill gives what the cache calls on a miss, with the delivered mapping of
// the legacy system that serve stands for.
func legacyFill(t testing.TB, serve http.Handler) cache.Fill {
	t.Helper()
	srv := httptest.NewServer(serve)
	t.Cleanup(srv.Close)
	file := struct {
		Upstream upstream.Config `yaml:"upstream"`
	}{upstream.DefaultConfig()}
	if err := yamlfile.Decode(string(legacy.Mapping()), &file); err != nil {
		t.Fatal(err)
	}
	file.Upstream.BaseURL, file.Upstream.Timeout = srv.URL, 10*time.Second
	client, err := upstream.New(file.Upstream, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return NewFill(client.Fetch, nil)
}

// busyReply is the legacy's own reply of n records.
func busyReply(t testing.TB, n int) []byte {
	t.Helper()
	system := legacy.New(legacy.Options{Seed: 1, Buyers: 4, Inquiries: n + n/8 + 100})
	w := httptest.NewRecorder()
	system.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2/tickets?customer="+legacy.BuyerBusy, nil))
	var reply struct {
		Result struct {
			Items []json.RawMessage `json:"items"`
		} `json:"result"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || len(reply.Result.Items) < n {
		t.Fatal(len(reply.Result.Items), err)
	}
	items := bytes.Join(asBytes(reply.Result.Items[:n]), []byte(","))
	return fmt.Appendf(nil, `{"result":{"code":"OK","total":%d,"items":[%s]},"took_ms":3}`, n, items)
}

func asBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// What a fill has rendered stays as it is, whatever lists are read after it into
// the memory that it was rendered from.
func TestFillRendersACopy(t *testing.T) {
	fill := legacyFill(t, legacy.New(legacy.Options{Seed: 1, Buyers: 4, Inquiries: 400}))
	var kept, first [][]byte
	for range 4 {
		for _, status := range []string{"", "pending", "answered", "closed"} {
			for _, kind := range []struct{ name, account string }{{legacy.KindBuyer, legacy.BuyerBusy}, {legacy.KindSeller, legacy.SellerTypical}} {
				c, err := fill(t.Context(), cache.Key{Kind: kind.name, Account: kind.account, Status: status})
				if err != nil {
					t.Fatal(err)
				}
				kept, first = append(kept, c.Body), append(first, bytes.Clone(c.Body))
			}
		}
	}
	for i := range kept {
		if !bytes.Equal(kept[i], first[i]) {
			t.Fatalf("the body of fill %d has changed", i)
		}
		if !bytes.Equal(kept[i], kept[i%8]) {
			t.Fatalf("fill %d has another body than the same one before", i)
		}
	}
}

// BenchmarkMiss is a whole fill over loopback: request, mapping and projection,
// without compression and the cache. The legacy's side, which only writes bytes
// that are there, is part of the figure. It decides what is worth making faster.
func BenchmarkMiss(b *testing.B) {
	for _, n := range []int{20, 200, 1000, 5000} {
		body := busyReply(b, n)
		fill := legacyFill(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body)
		}))
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			start := processTime(b)
			for b.Loop() {
				if _, err := fill(b.Context(), cache.Key{Kind: legacy.KindBuyer, Account: legacy.BuyerBusy}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processTime is the processor time of this process, which a busy machine does
// not change.
func processTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
