package contract

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
)

// A mistake in the document is found.
func TestNew(t *testing.T) {
	for _, tt := range []struct{ old, new string }{
		{"operationId: listBuyerInquiries", "operatonId: listBuyerInquiries"},
		{"in: query", "in: cookie"},
		{`"504": {$ref: "#/components/responses/GatewayTimeout"}`, `"504": {$ref: "#/components/responses/Timeout"}`},
		{`"504": {$ref`, `"604": {$ref`},
		{"title: {type: string,", "title: {type: text,"},
		{"title: {type: string,", "title: {typ: string,"},
		{"example: 4", "example: four"},
		{"example: gzip", "example: br"},
		{"title: Bulk price", "titel: Bulk price"},
		{`status: "504"`, "status: 504"},
		{"      x-headers:", "      x-header:"},
		{"'^GET, HEAD$'", "'^(GET, HEAD$'"},
	} {
		text := strings.Replace(string(v1.OpenAPIYAML()), tt.old, tt.new, 1)
		if _, err := New([]byte(text)); err == nil || text == string(v1.OpenAPIYAML()) {
			t.Errorf("%s instead of %s is not found", tt.new, tt.old)
		}
	}
}

// What is not as documented is noticed, in each part of a reply.
func TestCheck(t *testing.T) {
	c, err := New(v1.OpenAPIYAML())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Unseen()) != len(v1.Problems()) {
		t.Errorf("the document shows the errors %v", c.Unseen())
	}
	at := time.Date(2026, 3, 2, 1, 2, 3, 0, time.UTC)
	body, err := v1.Render("buyer", []upstream.Inquiry{{Title: "t", Content: "c", Status: "s", CreatedAt: at, Responses: []upstream.Response{{Content: "r", CreatedAt: at}}}})
	if err != nil {
		t.Fatal(err)
	}
	list := "Age: 3\nCache-Control: private, no-cache\nCache-Status: inquiry-gateway; hit; ttl=-2; detail=stale-error\nContent-Type: application/json; charset=utf-8\n" +
		"Etag: W/\"abc_-1\"\nVary: Authorization, Accept-Encoding\nX-Content-Type-Options: nosniff\nX-Request-Id: r\n\n" + string(body)
	failed := "Cache-Control: no-store\nContent-Type: application/json; charset=utf-8\nVary: Authorization\nX-Content-Type-Options: nosniff\nX-Request-Id: r\nRetry-After: 5\n\n" +
		string(v1.UpstreamUnavailable.Render("r"))
	for _, tt := range []struct {
		request  string
		status   int
		reply    string
		old, new string
		good     bool
	}{
		{"GET /api/v1/buyer/inquiries?status=pending", 200, list, "", "", true},
		{"GET /api/v1/buyer/inquiries", 503, failed, "", "", true},
		{"GET /api/v1/buyer/inquiries", 200, list, `"title":"t"`, `"title":"t","uuid":"x"`, false},
		{"GET /api/v1/buyer/inquiries", 200, list, `"content":"c",`, ``, false},
		{"GET /api/v1/buyer/inquiries", 200, list, `"title":"t"`, `"title":null`, false},
		{"GET /api/v1/buyer/inquiries", 200, list, `:03.000Z`, `:03Z`, false},
		{"GET /api/v1/buyer/inquiries", 200, list, `"title":"t"`, `"title":"t","title":"u"`, false},
		{"GET /api/v1/buyer/inquiries", 200, list, `"t"`, "\"\xff\"", false},
		{"GET /api/v1/buyer/inquiries", 200, list, `"errors":[]}`, `"errors":[]}{}`, false},
		{"GET /api/v1/buyer/inquiries", 200, list, "Etag: W/\"abc_-1\"\n", "", false},
		{"GET /api/v1/buyer/inquiries", 200, list, "W/", "", false},
		{"GET /api/v1/buyer/inquiries", 200, list, "private, no-cache", "public", false},
		{"GET /api/v1/buyer/inquiries", 200, list, "Age: 3", "Age: -1", false},
		{"GET /api/v1/buyer/inquiries", 200, list, "Age: 3", "Age: 3\nSet-Cookie: a=b", false},
		{"GET /api/v1/buyer/inquiries", 200, list, "Age: 3", "Age: 3\nContent-Encoding: gzip", false},
		{"GET /api/v1/buyer/inquiries", 503, failed, "Retry-After: 5\n", "", false},
		{"GET /api/v1/buyer/inquiries", 503, failed, "Retry-After: 5", "Retry-After: 5\nAllow: GET", false},
		{"GET /api/v1/buyer/inquiries", 503, failed, `"upstream_unavailable"`, `"upstream_timeout"`, false},
		{"GET /api/v1/buyer/inquiries", 503, failed, `"id":"r"`, `"id":"q"`, false},
		{"GET /api/v1/buyer/inquiries", 502, failed, "", "", false},
		{"GET /api/v1/buyer/inquiries", 206, list, "", "", false},
		{"GET /api/v1/buyer/inquiries?status=a&status=b", 200, list, "", "", false},
		{"GET /api/v1/buyer/inquiries?other=a", 200, list, "", "", false},
		{"GET /api/v1/seller/inquiries", 200, list, "", "", false},
		{"GET /api/v1/inquiries", 200, list, "", "", false},
		{"POST /api/v1/buyer/inquiries", 200, list, "", "", false},
		{"HEAD /api/v1/buyer/inquiries", 200, list, "", "", false},
	} {
		text := strings.Replace(tt.reply, tt.old, tt.new, 1)
		if tt.old != "" && text == tt.reply {
			t.Fatalf("no %s in %s", tt.old, tt.reply)
		}
		method, target, _ := strings.Cut(tt.request, " ")
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("Authorization", "Bearer k")
		w := httptest.NewRecorder()
		head, body, _ := strings.Cut(text, "\n\n")
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			w.Header()[name] = append(w.Header()[name], value)
		}
		w.WriteHeader(tt.status)
		_, _ = w.WriteString(body)
		if err := c.Check(r, w.Result()); (err == nil) != tt.good {
			t.Errorf("%s, %d, %q for %q: %v", tt.request, tt.status, tt.new, tt.old, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries", nil)
	w := httptest.NewRecorder()
	_, _ = w.WriteString(string(body))
	if err := c.Check(r, w.Result()); err == nil {
		t.Error("a list was answered without a key")
	}
	if len(c.Unseen()) != len(v1.Problems())-1 {
		t.Errorf("still unseen: %v", c.Unseen())
	}
}
