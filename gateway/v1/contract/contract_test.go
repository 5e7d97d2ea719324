package contract

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"

	"github.com/klauspost/compress/zstd"
)

func newChecker(t testing.TB) *Checker {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCodesAreTheCatalogue(t *testing.T) {
	got := newChecker(t).Codes()
	var want []Code
	for _, p := range v1.Problems() {
		want = append(want, Code{p.Status, p.Code})
	}
	slices.SortFunc(want, compareCodes)
	if !slices.Equal(got, want) {
		t.Errorf("documented %v, want %v", got, want)
	}
}

// reply is what a test sends through Check: a good reply, then one thing about
// it changed.
type reply struct {
	method, target string
	auth           []string
	status         int
	header         http.Header
	body           string
}

func (r reply) check(c *Checker) error {
	req := httptest.NewRequest(r.method, r.target, nil)
	req.Header["Authorization"] = r.auth
	w := httptest.NewRecorder()
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	_, _ = w.WriteString(r.body)
	return c.Check(req, w.Result())
}

func inquiries() []upstream.Inquiry {
	at := time.Date(2026, 3, 2, 1, 2, 3, 0, time.UTC)
	return []upstream.Inquiry{{
		Title: "t", Content: "c", Status: "s", InquiryType: upstream.NullString{String: "i", Valid: true}, CompanyName: "n", CreatedAt: at,
		Responses: []upstream.Response{{Content: "r", CreatedAt: at}},
	}}
}

func list() reply {
	return reply{
		method: "GET", target: "/api/v1/buyer/inquiries?status=pending", auth: []string{"Bearer k"}, status: 200,
		header: http.Header{
			"Age": {"3"}, "Cache-Control": {"private, no-cache"}, "Cache-Status": {"inquiry-gateway; hit; ttl=-2; detail=stale-error"},
			"Content-Type": {"application/json; charset=utf-8"}, "Etag": {`W/"abc_-1"`}, "Vary": {"Authorization, Accept-Encoding"},
			"X-Content-Type-Options": {"nosniff"}, "X-Request-Id": {"req-1"},
		},
		body: string(v1.AppendBuyer(nil, inquiries())),
	}
}

// failure is the reply for a problem with the headers that go with it.
func failure(p v1.Problem) reply {
	r := list()
	r.status = p.Status
	r.header = http.Header{
		"Cache-Control": {"no-store"}, "Content-Type": {"application/json; charset=utf-8"},
		"X-Content-Type-Options": {"nosniff"}, "X-Request-Id": {"req-1"},
	}
	r.body = string(v1.AppendErrors(nil, p.Occurrence("req-1")))
	const realm = `Bearer realm="inquiries"`
	switch p {
	case v1.MissingAPIKey.Problem():
		r.header.Set("WWW-Authenticate", realm)
	case v1.InvalidAPIKey.Problem():
		r.header.Set("WWW-Authenticate", realm+`, error="invalid_token"`)
	case v1.InvalidRequest.Problem():
		r.header.Set("WWW-Authenticate", realm+`, error="invalid_request"`)
	case v1.InsufficientScope.Problem():
		r.header.Set("WWW-Authenticate", realm+`, error="insufficient_scope", scope="inquiries:read"`)
	case v1.NotFound.Problem():
		r.target = "/api/v2"
	case v1.MethodNotAllowed.Problem():
		r.method = "POST"
		r.header.Set("Allow", "GET, HEAD")
	case v1.RateLimited.Problem():
		r.header.Set("RateLimit", `"default";r=0;t=3`)
		r.header.Set("RateLimit-Policy", `"default";q=100;w=60`)
	}
	if p.Status == 429 || p.Status == 503 {
		r.header.Set("Retry-After", "5")
	}
	return r
}

func TestGoodReplies(t *testing.T) {
	c := newChecker(t)
	for _, p := range v1.Problems() {
		if err := failure(p).check(c); err != nil {
			t.Error(err)
		}
	}
	if unseen := c.Unseen(); len(unseen) > 0 {
		t.Errorf("still unseen: %v", unseen)
	}
	seller := list()
	seller.target, seller.body = "/api/v1/seller/inquiries", string(v1.AppendSeller(nil, inquiries()))
	empty := list()
	empty.body = string(v1.AppendBuyer(nil, nil))
	head := list()
	head.method, head.body = "HEAD", ""
	headError := failure(v1.AuthUnavailable.Problem())
	headError.method, headError.body = "HEAD", ""
	unchanged := list()
	unchanged.status, unchanged.body = 304, ""
	unchanged.header.Del("Content-Type")
	for name, r := range map[string]reply{
		"buyer": list(), "seller": seller, "empty": empty, "head": head, "head of an error": headError, "not modified": unchanged,
		"gzip": compressed(t, "gzip"), "zstd": compressed(t, "zstd"),
	} {
		if err := r.check(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func compressed(t *testing.T, encoding string) reply {
	t.Helper()
	r := list()
	var buf bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&buf)
	if encoding == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(w, r.body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.header.Set("Content-Encoding", encoding)
	r.body = buf.String()
	return r
}

func TestCheckPutsTheBodyBack(t *testing.T) {
	w := httptest.NewRecorder()
	_, _ = w.WriteString("x")
	res := w.Result()
	if err := newChecker(t).Check(httptest.NewRequest("GET", "/api/v1/buyer/inquiries", nil), res); err == nil {
		t.Error("x is not a list")
	}
	if b, err := io.ReadAll(res.Body); string(b) != "x" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestUnseenShrinks(t *testing.T) {
	c := newChecker(t)
	before := len(c.Unseen())
	if err := failure(v1.InternalError.Problem()).check(c); err != nil {
		t.Fatal(err)
	}
	if after := c.Unseen(); len(after) != before-1 || slices.Contains(after, Code{500, "internal_error"}) {
		t.Errorf("%d before, then %v", before, after)
	}
}

// replaced is a body with one text replaced; the text must be there.
func replaced(t *testing.T, r reply, old, replacement string) reply {
	t.Helper()
	if !strings.Contains(r.body, old) {
		t.Fatalf("no %s in %s", old, r.body)
	}
	r.body = strings.Replace(r.body, old, replacement, 1)
	return r
}

// BenchmarkCheck tells how many replies a property test can afford to hold
// against the contract.
func BenchmarkCheck(b *testing.B) {
	c, r := newChecker(b), list()
	for b.Loop() {
		if err := r.check(c); err != nil {
			b.Fatal(err)
		}
	}
}
