package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"bytes"
)

//go:embed assets
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

// site holds the files that pages refer to, by the name in the URL, which holds
// a hash of the content.
type site struct {
	byName map[string]asset
	names  map[string]string // of the file -> in the URL
}

type asset struct {
	contentType string
	body        []byte
}

const assetRoot = "console/assets/"

func newSite() site {
	s := site{map[string]asset{}, map[string]string{}}
	for file, contentType := range map[string]string{
		"uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8",
		"uplot/uPlot.min.css":     "text/css; charset=utf-8",
		"uplot/LICENSE":           "text/plain; charset=utf-8",
		"console.js":              "text/javascript; charset=utf-8",
		"charts.js":               "text/javascript; charset=utf-8",
		"console.css":             "text/css; charset=utf-8",
		"icon.svg":                "image/svg+xml",
	} {
		body := mustRead(file)
		sum := sha256.Sum256(body)
		name := hex.EncodeToString(sum[:6]) + "-" + path.Base(file)
		s.byName[name] = asset{contentType, body}
		s.names[path.Base(file)] = assetRoot + name
	}
	return s
}

// serve reports whether r asks for a file of the site, which anybody may have:
// there is nothing in them but what the source shows.
func (s site) serve(w http.ResponseWriter, r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.Path, "/"+assetRoot)
	if !ok {
		return false
	}
	a, ok := s.byName[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return true
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	return true
}

func (s site) templates() (*template.Template, error) {
	t := template.New("").Funcs(template.FuncMap{
		"asset":  func(name string) string { return s.names[name] },
		"format": func(n number, unit string) string { return format(float64(n), unit) },
		"moment": moment,
	})
	return t.ParseFS(files, "assets/*.html")
}

// mustRead returns an embedded file by a name that is known to be there.
func mustRead(name string) []byte {
	b, err := fs.ReadFile(files, "assets/"+name)
	if err != nil {
		panic(fmt.Sprintf("console: embedded file: %v", err))
	}
	return b
}
