package v1

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/internal/theme"
)

const (
	// docsPolicy lets the page load its own files and ask its own host, and
	// nothing else.
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
		"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

	cacheForever = "max-age=31536000, immutable" // the name holds the hash of the content
	cacheChecked = "no-cache"
)

//go:embed docs
var docFiles embed.FS

// docsSite is all there is under /docs/, by path, made once. What it is made of is
// embedded and tested: an error means a broken binary.
var docsSite = sync.OnceValue(func() map[string]asset {
	site := map[string]asset{}
	values := pageValues()
	docs, err := fs.Sub(docFiles, "docs")
	for _, from := range []fs.FS{docs, theme.Files()} {
		files, _ := fs.Glob(from, "assets/*")
		for _, file := range files {
			a := newAsset(file, mustRead(from, file))
			a.cacheControl = cacheForever
			ext := path.Ext(file)
			hashed := strings.TrimSuffix(path.Base(file), ext) + "." + a.etag + ext
			site["/docs/"+hashed] = a
			values = append(values, "{{"+path.Base(file)+"}}", hashed)
		}
	}
	if err != nil {
		panic(fmt.Sprintf("v1: embedded files: %v", err))
	}
	page := newAsset("index.html", []byte(strings.NewReplacer(values...).Replace(string(mustRead(docs, "index.html")))))
	site["/docs/"] = page
	return site
})

// mustRead returns an embedded file that is known to be there.
func mustRead(from fs.FS, name string) []byte {
	b, err := fs.ReadFile(from, name)
	if err != nil {
		panic(fmt.Sprintf("v1: embedded file: %v", err))
	}
	return b
}

// asset is one file of the documentation as it is served. It never changes.
type asset struct {
	contentType  string
	cacheControl string
	etag         string // without quotes
	body         []byte
}

func newAsset(file string, body []byte) asset {
	sum := sha256.Sum256(body)
	// The table of package mime depends on the machine.
	types := map[string]string{".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml"}
	contentType := "application/yaml"
	if known, ok := types[path.Ext(file)]; ok {
		contentType = known + "; charset=utf-8"
	}
	return asset{contentType, cacheChecked, hex.EncodeToString(sum[:8]), body}
}

// serve answers GET and HEAD, conditional and range requests included.
func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", a.cacheControl)
	h.Set("ETag", `"`+a.etag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}

// Docs returns the handler of /docs and everything under /docs/: a page made from
// the document at /openapi.json beside it. All its files are embedded, and its
// Content-Security-Policy lets it load nothing from elsewhere. Errors are the
// envelope, with the X-Request-Id that w has already. It expects the path as it
// was asked for, without a prefix stripped.
func Docs() http.Handler {
	return documentation(docsSite())
}

// OpenAPI returns the handler of /openapi.json and /openapi.yaml. Errors are as
// those of Docs.
func OpenAPI() http.Handler {
	return documentation(map[string]asset{
		"/openapi.json": newAsset("openapi.json", OpenAPIJSON()),
		"/openapi.yaml": newAsset("openapi.yaml", OpenAPIYAML()),
	})
}

// documentation serves files by their paths.
func documentation(files map[string]asset) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		a, found := files[r.URL.Path]
		_, folder := files[r.URL.Path+"/"]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			writeProblem(w, r, MethodNotAllowed.Problem())
		case folder:
			// Relative, so that it also fits behind a proxy's path prefix.
			w.Header().Set("Location", path.Base(r.URL.Path)+"/")
			w.WriteHeader(http.StatusFound)
		case found:
			a.serve(w, r)
		default:
			writeProblem(w, r, NotFound.Problem())
		}
	})
}

// secure sets the headers of every answer of the documentation.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// writeProblem answers with the error envelope, as the lists do.
func writeProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		// The caller may be gone; there is nobody left to tell.
		_, _ = w.Write(AppendErrors(nil, p.Occurrence(h.Get("X-Request-Id"))))
	}
}
