// Package theme holds what the gateway's pages have in common: colours, light
// and dark, the rules of plain elements, the icon, and how their files are served.
package theme

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets
var files embed.FS

// Asset is a file as it is served. It never changes, and browsers ask each time whether it has.
type Asset struct {
	contentType string
	etag        string // with quotes
	body        []byte
}

// NewAsset makes what is served for a file.
func NewAsset(file string, body []byte) Asset {
	sum := sha256.Sum256(body)
	// The table of package mime depends on the machine.
	types := map[string]string{
		".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".json": "application/json; charset=utf-8", ".svg": "image/svg+xml; charset=utf-8", ".yaml": "application/yaml",
	}
	contentType := cmp.Or(types[path.Ext(file)], "text/plain; charset=utf-8")
	return Asset{contentType, `"` + hex.EncodeToString(sum[:8]) + `"`, body}
}

// ServeHTTP answers GET and HEAD, conditional requests included. It writes the bytes as they
// are, as http.ServeContent would hold 32 KiB more for each caller that reads slowly.
func (a Asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.etag)
	for _, tags := range r.Header["If-None-Match"] {
		if tags == "*" || strings.Contains(tags, a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // the caller has left; nobody to tell
	}
}

// Assets are theme.css, icon.svg and all files in the folder assets of more, by their
// names without folders.
func Assets(more fs.FS) (map[string]Asset, error) {
	all := map[string]Asset{}
	for _, from := range []fs.FS{files, more} {
		err := fs.WalkDir(from, "assets", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			body, err := fs.ReadFile(from, file)
			all[path.Base(file)] = NewAsset(file, body)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Policy is the Content-Security-Policy of the pages: they may load their own files and ask their own host, and
// nothing else.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// Secure sets the header fields of every response of a page's site.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
