package v1

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
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
		if m[1] != "../openapi.json" {
			names = append(names, "/docs/"+m[1])
		}
	}
	if len(names) != 7 {
		t.Fatalf("the page names %q", names)
	}
	return names
}

func TestDocsFiles(t *testing.T) {
	for _, target := range append(loaded(t), "/docs/") {
		t.Run(target, func(t *testing.T) {
			plain := get(Docs(), "GET", target)
			want := body(t, plain)
			if plain.StatusCode != 200 || len(want) == 0 || plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("X-Content-Type-Options") != "nosniff" ||
				plain.Header.Get("Content-Security-Policy") != docsPolicy || plain.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%d with %v and %d bytes", plain.StatusCode, plain.Header, len(want))
			}
			wantCache := cacheForever
			if target == "/docs/" {
				wantCache = cacheChecked
			}
			if got := plain.Header.Get("Cache-Control"); got != wantCache {
				t.Errorf("Cache-Control is %q, want %q", got, wantCache)
			}
			checkEncoded(t, target, want)
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

// checkEncoded asks for target as a browser does and wants the same content.
func checkEncoded(t *testing.T, target string, want []byte) {
	t.Helper()
	res := get(Docs(), "GET", target, "Accept-Encoding", "gzip, deflate, br")
	got := body(t, res)
	if res.ContentLength != int64(len(got)) {
		t.Errorf("Content-Length %d for %d bytes", res.ContentLength, len(got))
	}
	large := strings.Contains(target, "swagger-ui.") || strings.Contains(target, "bundle.") && strings.HasSuffix(target, ".js")
	if (res.Header.Get("Content-Encoding") == "gzip") != large {
		t.Errorf("Content-Encoding is %q", res.Header.Get("Content-Encoding"))
	}
	if large {
		if res.Header.Get("Vary") != "Accept-Encoding" || res.Header.Get("ETag") == get(Docs(), "GET", target).Header.Get("ETag") {
			t.Errorf("the encodings cannot be told apart: %v", res.Header)
		}
		r, err := gzip.NewReader(bytes.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		if got, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("the content differs between encodings")
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
		{Docs(), "GET", "/docs/docs/index.html", NotFound.Problem()},
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
		"/openapi.json": {"application/json; charset=utf-8", OpenAPIJSON()},
		"/openapi.yaml": {"application/yaml", OpenAPIYAML()},
	} {
		res := get(OpenAPI(), "GET", target)
		if got := body(t, res); !bytes.Equal(got, want.body) || res.Header.Get("Content-Type") != want.contentType || res.Header.Get("Cache-Control") != cacheChecked {
			t.Errorf("%s: %v and %d bytes", target, res.Header, len(got))
		}
		if again := get(OpenAPI(), "GET", target, "If-None-Match", res.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s: If-None-Match gives %d", target, again.StatusCode)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"gzip"}, true},
		{[]string{"br, GZIP;q=0.5"}, true},
		{[]string{"br", "x-gzip"}, true},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip; q=0.000, *"}, false},
		{[]string{"*"}, true},
		{[]string{"*;q=0"}, false},
		{[]string{"*;q=0, gzip"}, true},
		{[]string{"gzipped, identity"}, false},
	} {
		if got := acceptsGzip(c.values); got != c.want {
			t.Errorf("%q: got %v", c.values, got)
		}
	}
}

// What is embedded is what the npm package holds.
func TestSwaggerUIIsUnchanged(t *testing.T) {
	for line := range strings.Lines(string(mustRead("swagger-ui/SHA256SUMS"))) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		var got []byte
		if _, err := docFiles.ReadFile("swagger-ui/" + name + ".gz"); err == nil {
			got = decompress(mustRead("swagger-ui/" + name + ".gz"))
		} else {
			got = mustRead("swagger-ui/" + name)
		}
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file of the package", name)
		}
	}
}
