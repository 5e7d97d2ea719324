package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets pages
var files embed.FS

// policy lets the page load its own files, ask its own host, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

const assetRoot = "console/assets/"

// site holds the files that pages refer to: the name in the URL, which holds a
// hash of the content, and the embedded file.
type site map[string]string

func newSite() (site, error) {
	s := site{}
	err := fs.WalkDir(files, "assets", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(files, file)
		sum := sha256.Sum256(body)
		s[assetRoot+hex.EncodeToString(sum[:6])+"-"+path.Base(file)] = file
		return err
	})
	return s, err
}

// url gives where a page finds a file.
func (s site) url(file string) string {
	for url, embedded := range s {
		if path.Base(embedded) == file {
			return url
		}
	}
	return ""
}

// serve reports whether r asks for a file of the site, which anybody may have:
// there is nothing in them but what the source shows.
func (s site) serve(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/"+assetRoot) {
		return false
	}
	file, ok := s[r.URL.Path[1:]]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return true
	}
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	http.ServeFileFS(w, r, files, file)
	return true
}

func (s site) templates() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{"asset": s.url}).ParseFS(files, "pages/*.html")
}
