package gateway

import (
	"context"
	"encoding/json"
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

func TestFillRendersWhatTheLegacyAnswered(t *testing.T) {
	answered := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var asked upstream.Request
	fill := NewFill(func(_ context.Context, r upstream.Request) (upstream.List, error) {
		asked = r
		inquiries := []upstream.Inquiry{{Title: "t", CompanyName: "c", CreatedAt: answered}}
		return upstream.List{AnsweredAt: answered, Unasked: true, Inquiries: inquiries}, nil
	}, nil)
	content, err := fill(withRequestID(t.Context(), "id-1"), cache.Key{Kind: "seller", Account: "a", Status: "s", InquiryType: "i"}, cache.FillInfo{Background: true, Changes: "1"})
	if err != nil || asked != (upstream.Request{Kind: "seller", Account: "a", Status: "s", InquiryType: "i", RequestID: "id-1", Background: true, Changes: "1"}) {
		t.Errorf("asked for %+v, %v", asked, err)
	}
	want := `{"data":[{"title":"t","status":"","inquiry_type":null,"company_name":"c","created_at":"2026-01-02T03:04:05.000Z"}],` +
		`"meta":{},"errors":[]}`
	if string(content.Body) != want || !content.AnsweredAt.Equal(answered) || !content.NoStore {
		t.Errorf("got %s, %+v", content.Body, content)
	}
}

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
			Code  string            `json:"code"`
			Total float64           `json:"total"`
			Items []json.RawMessage `json:"items"`
		} `json:"result"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || len(reply.Result.Items) < n {
		t.Fatal(len(reply.Result.Items), err)
	}
	reply.Result.Items, reply.Result.Total = reply.Result.Items[:n], float64(n)
	body, err := json.Marshal(reply)
	if err != nil {
		t.Fatal(err)
	}
	return body
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
				if _, err := fill(b.Context(), cache.Key{Kind: legacy.KindBuyer, Account: legacy.BuyerBusy}, cache.FillInfo{}); err != nil {
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
