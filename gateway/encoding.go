package gateway

import (
	"strconv"
	"strings"

	"inquiry-gateway/cache"
)

// chooseRepresentation picks the body to send and its Content-Encoding, nil for none: zstd, which is cheaper
// to decode, else gzip, if Accept-Encoding (RFC 9110, section 12.5.3) allows it. Weights above zero
// are ignored. `*` allows gzip only: not every client that sends it can decode zstd.
func (g *Gateway) chooseRepresentation(e *cache.Entry, acceptEncoding []string) (*cache.Representation, []string) {
	if len(acceptEncoding) == 0 {
		return &e.Identity, nil
	}
	zstd, gzip := accepts(acceptEncoding)
	if zstd {
		if v := g.opts.Lists.Encoded(e, cache.Zstd); v != nil {
			return v, g.headers.zstd
		}
	}
	if gzip {
		if v := g.opts.Lists.Encoded(e, cache.Gzip); v != nil {
			return v, g.headers.gzip
		}
	}
	return &e.Identity, nil
}

// accepts reports which codings Accept-Encoding allows.
func accepts(acceptEncoding []string) (zstd, gzip bool) {
	any, noGzip := false, false
	for _, line := range acceptEncoding {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			allowed := allowed(params)
			switch name = strings.ToLower(strings.Trim(name, " \t")); name {
			case "zstd":
				zstd = allowed
			case "gzip", "x-gzip":
				gzip, noGzip = allowed, !allowed
			case "*":
				any = allowed
			}
		}
	}
	return zstd, gzip || any && !noGzip
}

// allowed is false for a weight of zero, and for one that cannot be parsed: a coding that the client
// did not clearly ask for must not be sent.
func allowed(params string) bool {
	if params == "" {
		return true
	}
	q, value, _ := strings.Cut(strings.Trim(params, " \t"), "=")
	f, err := strconv.ParseFloat(value, 64)
	return strings.EqualFold(q, "q") && err == nil && f > 0 && f <= 1
}

// notModified says whether If-None-Match (RFC 9110, section 13.1.2) names the
// entity tag, by weak comparison. `*` matches every list that exists, and here each does.
// etag is W/ and base64 in quotes: nothing inside another tag can be taken for it.
func notModified(ifNoneMatch []string, etag string) bool {
	opaque := strings.TrimPrefix(etag, "W/")
	for _, line := range ifNoneMatch {
		before, _, named := strings.Cut(line, opaque)
		before = strings.TrimSuffix(before, "W/")
		if named && (before == "" || strings.ContainsAny(before[len(before)-1:], " \t,")) || strings.Trim(line, " \t") == "*" {
			return true
		}
	}
	return false
}
