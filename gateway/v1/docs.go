package v1

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"inquiry-gateway/internal/theme"
)

// DocsPolicy is the Content-Security-Policy of the page: it may load its own files and
// ask its own host, and nothing else.
const DocsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

//go:embed docs
var docFiles embed.FS

// Docs are the document at /openapi.json and /openapi.yaml, for the lists that are served,
// and the page at /docs/ with its files, which is made from it, by path. The page and its
// files are to be served with DocsPolicy. All is embedded and tested: an error means a
// broken binary.
func Docs(served []Kind) map[string]theme.Asset {
	asYAML, asJSON := document(served)
	site := map[string]theme.Asset{
		"/openapi.json": theme.NewAsset("openapi.json", asJSON),
		"/openapi.yaml": theme.NewAsset("openapi.yaml", asYAML),
	}
	docs, err1 := fs.Sub(docFiles, "docs")
	page, err2 := fs.ReadFile(docs, "index.html")
	assets, err3 := theme.Assets(docs)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(fmt.Sprintf("v1: embedded files: %v", err))
	}
	values := pageValues(asJSON)
	for file, a := range assets {
		site["/docs/"+a.Name] = a
		values = append(values, "{{"+file+"}}", a.Name)
	}
	site["/docs/"] = theme.NewAsset("index.html", []byte(strings.NewReplacer(values...).Replace(string(page))))
	return site
}
