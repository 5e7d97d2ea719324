package v1

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// get asks h for target with headers given as pairs.
func get(h http.Handler, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "req-1")
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// loaded lists what the page loads or links to under /docs/.
func loaded(t *testing.T) []string {
	t.Helper()
	page := string(body(t, get(Docs(), "GET", "/docs/")))
	var names []string
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "../openapi.") && !strings.HasPrefix(m[1], "#") && m[1] != "./" {
			names = append(names, "/docs/"+m[1])
		}
	}
	if len(names) != 4 {
		t.Fatalf("the page names %q", names)
	}
	return names
}

func TestDocsFiles(t *testing.T) {
	for _, target := range append(loaded(t), "/docs/") {
		t.Run(target, func(t *testing.T) {
			plain := get(Docs(), "GET", target)
			want := body(t, plain)
			if plain.StatusCode != 200 || len(want) == 0 || plain.Header.Get("X-Content-Type-Options") != "nosniff" ||
				plain.Header.Get("Content-Security-Policy") != docsPolicy || plain.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%d with %v and %d bytes", plain.StatusCode, plain.Header, len(want))
			}
			wantCache := "max-age=31536000, immutable"
			if target == "/docs/" {
				wantCache = "no-cache"
			}
			if got := plain.Header.Get("Cache-Control"); got != wantCache {
				t.Errorf("Cache-Control is %q, want %q", got, wantCache)
			}
			head := get(Docs(), "HEAD", target)
			if len(body(t, head)) != 0 || head.ContentLength != int64(len(want)) {
				t.Errorf("HEAD: length %d, want %d", head.ContentLength, len(want))
			}
			again := get(Docs(), "GET", target, "If-None-Match", plain.Header.Get("ETag"))
			if again.StatusCode != 304 || len(body(t, again)) != 0 {
				t.Errorf("If-None-Match: %d", again.StatusCode)
			}
		})
	}
}

func TestDocsRedirectsToItsFolder(t *testing.T) {
	res := get(Docs(), "GET", "/docs")
	if res.StatusCode != http.StatusFound || res.Header.Get("Location") != "docs/" {
		t.Errorf("got %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
}

func TestDocsErrorsAreTheEnvelope(t *testing.T) {
	for _, c := range []struct {
		handler        http.Handler
		method, target string
		want           Problem
	}{
		{Docs(), "GET", "/docs/nothing", NotFound.Problem()},
		{Docs(), "GET", "/docs/index.html", NotFound.Problem()},
		{Docs(), "GET", "/docs/..%2fopenapi.yaml", NotFound.Problem()},
		{Docs(), "GET", "/docsx", NotFound.Problem()},
		{Docs(), "POST", "/docs/", MethodNotAllowed.Problem()},
		{OpenAPI(), "GET", "/openapi.xml", NotFound.Problem()},
		{OpenAPI(), "DELETE", "/openapi.json", MethodNotAllowed.Problem()},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			res := get(c.handler, c.method, c.target)
			want := AppendErrors(nil, c.want.Occurrence("req-1"))
			if got := body(t, res); res.StatusCode != c.want.Status || !bytes.Equal(got, want) {
				t.Errorf("got %d %s, want %s", res.StatusCode, got, want)
			}
			if res.Header.Get("Cache-Control") != "no-store" || (res.Header.Get("Allow") == "GET, HEAD") != (c.want.Status == 405) {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
	if head := get(Docs(), "HEAD", "/docs/nothing"); head.StatusCode != 404 || len(body(t, head)) != 0 {
		t.Errorf("HEAD: %d", head.StatusCode)
	}
}

func TestOpenAPIDocuments(t *testing.T) {
	for target, want := range map[string]struct {
		contentType string
		body        []byte
	}{
		"/openapi.json": {"application/json; charset=utf-8", openAPIJSON()},
		"/openapi.yaml": {"application/yaml", OpenAPIYAML()},
	} {
		res := get(OpenAPI(), "GET", target)
		if got := body(t, res); !bytes.Equal(got, want.body) || res.Header.Get("Content-Type") != want.contentType || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v and %d bytes", target, res.Header, len(got))
		}
		if again := get(OpenAPI(), "GET", target, "If-None-Match", res.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s: If-None-Match gives %d", target, again.StatusCode)
		}
	}
}
