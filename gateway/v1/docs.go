package v1

import (
	"net/http"
	"path"
	"strings"
	"sync"
)

const (
	// docsPolicy lets the page load its own files and ask its own host, and
	// nothing else. data: is for the icons inside Swagger UI's style sheet.
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

	cacheForever = "max-age=31536000, immutable" // the name holds the hash of the content
	cacheChecked = "no-cache"
)

// docsSite is all there is under /docs/, by name, made once.
var docsSite = sync.OnceValue(newDocsSite)

func newDocsSite() map[string]asset {
	site := map[string]asset{}
	var names []string // pairs of the name in the page and the name in the URL
	for _, file := range []string{
		"docs/init.js", "docs/page.css", "swagger-ui/LICENSE", "swagger-ui/favicon-32x32.png",
		"swagger-ui/swagger-ui-bundle.js.LICENSE.txt", "swagger-ui/swagger-ui-bundle.js.gz", "swagger-ui/swagger-ui.css.gz",
	} {
		a := newAsset(file, mustRead(file))
		a.cacheControl = cacheForever
		name := strings.TrimSuffix(path.Base(file), ".gz")
		hashed := hashedName(name, a.etag)
		site[hashed] = a
		names = append(names, "{"+name+"}", hashed)
	}
	page := newAsset("index.html", []byte(strings.NewReplacer(names...).Replace(string(mustRead("docs/index.html")))))
	page.cacheControl = cacheChecked
	site[""] = page
	return site
}

// hashedName puts the hash before the extension: init.js becomes init.1f2e.js.
func hashedName(name, hash string) string {
	ext := path.Ext(name)
	return strings.TrimSuffix(name, ext) + "." + hash + ext
}

// Docs returns the handler of /docs and everything under /docs/: Swagger UI
// over the document at /openapi.json beside it. All its files are embedded, and
// its Content-Security-Policy lets it load nothing from elsewhere. Errors are
// the envelope, with the X-Request-Id that w has already. It expects the path
// as it was asked for, without a prefix stripped.
func Docs() http.Handler {
	site := docsSite()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if !readOnly(w, r) {
			return
		}
		if r.URL.Path == "/docs" {
			// Relative, so that it also fits behind a proxy's path prefix.
			w.Header().Set("Location", "docs/")
			w.WriteHeader(http.StatusFound)
			return
		}
		name, _ := strings.CutPrefix(r.URL.Path, "/docs/")
		a, ok := site[name]
		if !ok {
			writeProblem(w, r, NotFound.Problem())
			return
		}
		a.serve(w, r)
	})
}

// OpenAPI returns the handler of /openapi.json and /openapi.yaml. Errors are as
// those of Docs.
func OpenAPI() http.Handler {
	documents := map[string]asset{
		"/openapi.json": newAsset("openapi.json", OpenAPIJSON()),
		"/openapi.yaml": newAsset("openapi.yaml", OpenAPIYAML()),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if !readOnly(w, r) {
			return
		}
		a, ok := documents[r.URL.Path]
		if !ok {
			writeProblem(w, r, NotFound.Problem())
			return
		}
		a.cacheControl = cacheChecked
		a.serve(w, r)
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

// readOnly tells whether r may be answered, and answers it where not.
func readOnly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	writeProblem(w, r, MethodNotAllowed.Problem())
	return false
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
