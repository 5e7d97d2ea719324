package v1

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/theme"
)

// get asks h for target with headers given as pairs.
func get(h http.Handler, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// both are the two lists, of whose words nothing is known.
func both() map[string]Words { return map[string]Words{"buyer": {}, "seller": {}} }

// site is the page with its files.
func site() map[string]theme.Asset {
	_, page := Pages(both())
	return page
}

// served answers with files by their path, as the gateway does.
func served(files map[string]theme.Asset) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theme.Secure(w.Header(), DocsPolicy)
		files[r.URL.Path].ServeHTTP(w, r)
	})
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
	page := string(body(t, get(served(site()), "GET", "/docs/")))
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
			plain := get(served(site()), "GET", target)
			want := body(t, plain)
			if plain.StatusCode != 200 || len(want) == 0 || plain.Header.Get("X-Content-Type-Options") != "nosniff" ||
				plain.Header.Get("Content-Security-Policy") != DocsPolicy || plain.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%d with %v and %d bytes", plain.StatusCode, plain.Header, len(want))
			}
			wantCache := "max-age=31536000, immutable"
			if target == "/docs/" {
				wantCache = "no-cache"
			}
			if got := plain.Header.Get("Cache-Control"); got != wantCache {
				t.Errorf("Cache-Control is %q, want %q", got, wantCache)
			}
			head := get(served(site()), "HEAD", target)
			if len(body(t, head)) != 0 || head.ContentLength != int64(len(want)) {
				t.Errorf("HEAD: length %d, want %d", head.ContentLength, len(want))
			}
			again := get(served(site()), "GET", target, "If-None-Match", plain.Header.Get("ETag"))
			if again.StatusCode != 304 || len(body(t, again)) != 0 {
				t.Errorf("If-None-Match: %d", again.StatusCode)
			}
		})
	}
}

func TestOpenAPIDocuments(t *testing.T) {
	for target, want := range map[string]struct {
		contentType string
		body        []byte
	}{
		"/openapi.json": {"application/json; charset=utf-8", openAPIJSON(openAPIYAML)},
		"/openapi.yaml": {"application/yaml", OpenAPIYAML()},
	} {
		document, _ := Pages(both())
		res := get(served(document), "GET", target)
		if got := body(t, res); !bytes.Equal(got, want.body) || res.Header.Get("Content-Type") != want.contentType || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v and %d bytes", target, res.Header, len(got))
		}
		if again := get(served(document), "GET", target, "If-None-Match", res.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s: If-None-Match gives %d", target, again.StatusCode)
		}
	}
}
