package gateway

import (
	"net/http"
	"path"

	"inquiry-gateway/internal/theme"
)

// findPage finds a document, which knows no caller. The path under a folder that has a page
// leads to that page.
func (req *request) findPage(files map[string]theme.Asset) error {
	file, found := files[req.http.URL.Path]
	if _, folder := files[req.http.URL.Path+"/"]; folder {
		req.page = http.HandlerFunc(redirectToFolder)
	} else if found {
		req.page = file
	} else {
		return errNotFound
	}
	return nil
}

// redirectToFolder is relative, so that it also fits behind a proxy's path prefix.
func redirectToFolder(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.Header().Set("Location", path.Base(r.URL.Path)+"/")
	w.WriteHeader(http.StatusFound)
}
