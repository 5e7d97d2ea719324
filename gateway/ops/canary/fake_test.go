package canary

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers as the contract has it, written down a second time; change then
// corrupts the answer. It is a RoundTripper, so that its time may be a test's own.
type fake struct {
	mu      sync.Mutex
	lists   map[string]string // the records, by key
	age     int
	status  string                   // Cache-Status
	corrupt func(body string) string // of a list
	change  func(r *http.Request, a *fakeAnswer)
	err     error
	answers int
	agents  map[string]bool
}

type fakeAnswer struct {
	code   int
	header http.Header
	body   string // before it is packed
}

const (
	buyerRecord  = `{"title":"%s","content":"c","status":"pending","inquiry_type":null,"created_at":"2026-10-31T15:02:11.000Z","responses":[{"content":"r","responder_type":"staff","created_at":"2026-11-01T00:00:00.123Z"}]}`
	sellerRecord = `{"title":"%s","status":"pending","inquiry_type":"delivery","company_name":"n","created_at":"2026-10-31T15:02:11.000Z"}`
)

func newFake() *fake {
	two := func(record, a, b string) string { return fmt.Sprintf(record+","+record, a, b) }
	return &fake{
		lists: map[string]string{
			"b1": two(buyerRecord, "of b1", "also of b1"), "b2": two(buyerRecord, "of b2", "also of b2"),
			"s1": two(sellerRecord, "of s1", "also of s1"), "s2": two(sellerRecord, "of s2", "also of s2"),
		},
		age: 3, status: "inquiry-gateway; hit; ttl=26", agents: map[string]bool{},
	}
}

// RoundTrip answers as the gateway would.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if f.err != nil {
		return nil, f.err
	}
	f.answers++
	f.agents[r.UserAgent()] = true
	a := f.answer(r)
	a.header.Set("X-Request-Id", fmt.Sprintf("request-%d", f.answers))
	a.header.Set("X-Content-Type-Options", "nosniff")
	a.body = strings.ReplaceAll(a.body, "REQUEST", a.header.Get("X-Request-Id"))
	if f.change != nil {
		f.change(r, &a)
	}
	body := []byte(a.body)
	if a.header.Get("Content-Encoding") == "gzip" {
		body = packed(body)
	}
	return &http.Response{StatusCode: a.code, Header: a.header, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func packed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

func (f *fake) answer(r *http.Request) fakeAnswer {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	records, known := f.lists[key]
	kind := strings.Split(r.URL.Path, "/")[3]
	switch {
	case key == "":
		return refused(401, "missing_api_key", `Bearer realm="inquiries"`)
	case !known:
		return refused(401, "invalid_api_key", `Bearer realm="inquiries", error="invalid_token"`)
	case key[0] != kind[0]:
		return refused(403, "wrong_key_kind", "")
	}
	body := `{"data":[` + records + `],"meta":{},"errors":[]}`
	if f.corrupt != nil {
		body = f.corrupt(body)
	}
	sum := sha256.Sum256([]byte(body))
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	h := http.Header{
		"Cache-Control": {"private, no-cache"}, "Vary": {"Authorization, Accept-Encoding"}, "Etag": {tag},
		"Age": {fmt.Sprint(f.age)}, "Cache-Status": {f.status},
	}
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		return fakeAnswer{http.StatusNotModified, h, ""}
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	if r.Header.Get("Accept-Encoding") == "gzip" {
		h.Set("Content-Encoding", "gzip")
	}
	return fakeAnswer{http.StatusOK, h, body}
}

// becomes puts another answer in the place of one that has its id.
func (a *fakeAnswer) becomes(other fakeAnswer) {
	id := a.header["X-Request-Id"]
	*a = other
	a.body = strings.ReplaceAll(a.body, "REQUEST", id[0])
	a.header["X-Request-Id"], a.header["X-Content-Type-Options"] = id, []string{"nosniff"}
}

// refused is an error of the contract; challenge may be empty.
func refused(code int, name, challenge string) fakeAnswer {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-store"}}
	if challenge != "" {
		h.Set("WWW-Authenticate", challenge)
	}
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		h.Set("Retry-After", "5")
	}
	return fakeAnswer{code, h, fmt.Sprintf(`{"data":[],"meta":{},"errors":[{"id":"REQUEST","status":"%d","code":"%s","title":"t","detail":"d"}]}`, code, name)}
}

// stand is a canary of both kinds in front of a fake.
type stand struct {
	*Canary
	fake     *fake
	registry *prometheus.Registry
	log      *bytes.Buffer
}

func policy() Policy {
	return Policy{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * time.Minute, Jitter: 0.1}
}

func newStand(t *testing.T, change func(*Options)) *stand {
	t.Helper()
	s := &stand{fake: newFake(), registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	kind := func(name, a, b string) Kind {
		return Kind{Name: name, Keys: []Key{{"canary." + name + "_keys[0]", Secret(a)}, {"canary." + name + "_keys[1]", Secret(b)}}, Policy: policy(), NoUUIDs: func() bool { return true }}
	}
	opts := Options{
		Kinds: []Kind{kind("buyer", "b1", "b2"), kind("seller", "s1", "s2")},
		Every: 30 * time.Second, Timeout: 6 * time.Second, Version: "v1",
		Owner: func(_ context.Context, _ string, key Secret) (Owner, error) {
			return Owner{"account of " + string(key), "id-" + string(key)}, nil
		},
		Logger: slog.New(slog.NewJSONHandler(s.log, nil)), Registerer: s.registry,
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if s.Canary, err = New(opts); err != nil {
		t.Fatal(err)
	}
	return s
}

// round runs one round of a kind and gives what it found out.
func (s *stand) round(t *testing.T, kind int) *round {
	t.Helper()
	r := s.newRound(&s.opts.Kinds[kind], caller{client: &http.Client{Transport: s.fake}, url: "http://gateway.test", agent: s.agent, timeout: s.opts.Timeout})
	r.run(t.Context())
	s.settle(r)
	s.rounds++
	return r
}

// results are how the checks ended, in their order.
func (r *round) results() (all [checkCount]string) {
	for c := range checkCount {
		all[c] = resultNames[r.tally[c].result]
	}
	return all
}

// reasons is all that was said of a check.
func (r *round) reasons(c check) string { return strings.Join(r.tally[c].reasons, "\n") }

// counted is how often a check ended so.
func (s *stand) counted(kind, check, result string) float64 {
	return testutil.ToFloat64(s.checks.WithLabelValues(kind, check, result))
}

// lastRound is when a round of a kind ended last.
func (s *stand) lastRound(kind string) time.Time {
	return time.UnixMilli(int64(1000 * testutil.ToFloat64(s.ended.WithLabelValues(kind))))
}
