package v1

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"inquiry-gateway/internal/theme"
)

// DocsPolicy is the Content-Security-Policy of the page: it may load its own files and
// ask its own host, and nothing else.
const DocsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
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

// Docs is the page at /docs/ and its files, by path. It is made from the document at
// /openapi.json beside it. All its files are embedded; they are served with DocsPolicy.
func Docs() map[string]theme.Asset { return docsSite() }

// OpenAPI is the document at /openapi.json and /openapi.yaml, by path.
func OpenAPI() map[string]theme.Asset {
	return map[string]theme.Asset{
		"/openapi.json": theme.NewAsset("openapi.json", openAPIJSON()),
		"/openapi.yaml": theme.NewAsset("openapi.yaml", OpenAPIYAML()),
	}
}
