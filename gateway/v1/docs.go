package v1

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"inquiry-gateway/internal/theme"
)

//go:embed docs
var docFiles embed.FS

// Pages are the documentation of the lists that a gateway serves: files by their paths. The
// document is at /openapi.json and /openapi.yaml, and the page, which is made from it and
// served with theme.Policy, at /docs/. All is made of what is embedded.
func Pages(lists map[string]Words) (document, page map[string]theme.Asset) {
	docs, err1 := fs.Sub(docFiles, "docs")
	index, err2 := fs.ReadFile(docs, "index.html")
	assets, err3 := theme.Assets(docs)
	if err := errors.Join(err1, err2, err3); err != nil { // a broken binary
		panic(fmt.Sprintf("v1: embedded files: %v", err))
	}
	inYAML := openAPI(lists)
	inJSON := openAPIJSON(inYAML)
	page = map[string]theme.Asset{}
	values := pageValues(inJSON)
	for file, a := range assets {
		page["/docs/"+file] = a
	}
	page["/docs/"] = theme.NewAsset("index.html", []byte(strings.NewReplacer(values...).Replace(string(index))))
	return map[string]theme.Asset{
		"/openapi.json": theme.NewAsset("openapi.json", inJSON),
		"/openapi.yaml": theme.NewAsset("openapi.yaml", []byte(inYAML)),
	}, page
}
