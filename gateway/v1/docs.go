package v1

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"inquiry-gateway/internal/theme"
)

// docsPolicy lets the page load its own files and ask its own host, and
// nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

//go:embed docs
var docFiles embed.FS

// docsSite is all there is under /docs/, by path, made once. What it is made of is
// embedded and tested: an error means a broken binary.
var docsSite = sync.OnceValue(func() map[string]theme.Asset {
	docs, err1 := fs.Sub(docFiles, "docs")
	page, err2 := fs.ReadFile(docs, "index.html")
	assets, err3 := theme.Assets(docs)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(fmt.Sprintf("v1: embedded files: %v", err))
	}
	site, values := map[string]theme.Asset{}, pageValues()
	for file, a := range assets {
		site["/docs/"+a.Name] = a
		values = append(values, "{{"+file+"}}", a.Name)
	}
	site["/docs/"] = theme.NewAsset("index.html", []byte(strings.NewReplacer(values...).Replace(string(page))))
	return site
})

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
	return documentation(map[string]theme.Asset{
		"/openapi.json": theme.NewAsset("openapi.json", openAPIJSON()),
		"/openapi.yaml": theme.NewAsset("openapi.yaml", OpenAPIYAML()),
	})
}

// documentation serves files by their paths.
func documentation(files map[string]theme.Asset) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theme.Secure(w.Header(), docsPolicy)
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
			a.ServeHTTP(w, r)
		default:
			writeProblem(w, r, NotFound.Problem())
		}
	})
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
