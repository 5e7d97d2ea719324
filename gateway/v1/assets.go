package v1

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Swagger UI is embedded compressed, which is how nearly every browser takes
// it: a third of the bytes in the binary.
//
//go:embed docs swagger-ui
var docFiles embed.FS

// asset is one file of the documentation as it is served. It never changes.
type asset struct {
	contentType  string
	cacheControl string
	etag         string        // without quotes
	identity     func() []byte // the file itself
	gzipped      []byte        // nil: only kept as it is
}

// newAsset makes the asset of an embedded file; one that ends in .gz stands for
// the file without that ending.
func newAsset(file string, stored []byte) asset {
	sum := sha256.Sum256(stored)
	a := asset{etag: hex.EncodeToString(sum[:8])}
	a.identity = func() []byte { return stored }
	if plainName, ok := strings.CutSuffix(file, ".gz"); ok {
		file = plainName
		a.gzipped = stored
		a.identity = sync.OnceValue(func() []byte { return decompress(stored) })
	}
	a.contentType = contentType(file)
	return a
}

// decompress is for what is embedded, which a test reads whole: an error means a
// broken binary.
func decompress(stored []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		panic(fmt.Sprintf("v1: embedded file: %v", err))
	}
	out, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("v1: embedded file: %v", err))
	}
	return out
}

// contentType does not ask the mime package, whose table depends on the machine.
func contentType(file string) string {
	switch path.Ext(file) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".json":
		return "application/json; charset=utf-8"
	case ".png":
		return "image/png"
	case ".yaml":
		return "application/yaml"
	}
	return "text/plain; charset=utf-8"
}

// serve answers GET and HEAD, conditional and range requests included. The ETag
// differs between the encodings because it is a strong one.
func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h, etag, body := w.Header(), a.etag, a.gzipped
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", a.cacheControl)
	if body != nil {
		h.Set("Vary", "Accept-Encoding")
	}
	if body != nil && acceptsGzip(r.Header.Values("Accept-Encoding")) {
		etag += "-gzip"
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", fmt.Sprint(len(body))) // http.ServeContent leaves it out beside an encoding
	} else {
		body = a.identity()
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3): gzip by name
// counts for more than *.
func acceptsGzip(values []string) bool {
	star := false
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		coding, weight, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return !zeroWeight(weight)
		case "*":
			star = !zeroWeight(weight)
		}
	}
	return star
}

// zeroWeight tells whether the parameters of a coding say q=0, which refuses it.
func zeroWeight(weight string) bool {
	q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
	return ok && strings.Trim(q, "0.") == "" && q != ""
}

// mustRead returns an embedded file by a name that is known to be there.
func mustRead(name string) []byte {
	b, err := fs.ReadFile(docFiles, name)
	if err != nil {
		panic(fmt.Sprintf("v1: embedded file: %v", err))
	}
	return b
}
