package gateway

import (
	"strconv"
	"strings"

	"inquiry-gateway/cache"
)

// weights are those of codings in Accept-Encoding (RFC 9110, section 12.5.3), 0 to 1000;
// -1: not named.
type weights struct{ gzip, zstd, identity, star int }

// weightsOf reads Accept-Encoding.
func weightsOf(acceptEncoding []string) weights {
	w := weights{-1, -1, -1, -1}
	for _, rest := range acceptEncoding {
		for rest != "" {
			var item string
			item, rest, _ = strings.Cut(rest, ",")
			name, weight := codingWeight(item)
			switch {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				w.gzip = weight
			case strings.EqualFold(name, "zstd"):
				w.zstd = weight
			case strings.EqualFold(name, "identity"):
				w.identity = weight
			case name == "*":
				w.star = weight
			}
		}
	}
	return w
}

// codingWeight splits `gzip;q=0.8` into its name and its weight in thousandths.
// A weight that cannot be read counts as 0: a coding the caller did not clearly
// ask for must not be sent.
func codingWeight(item string) (name string, weight int) {
	name, params, found := strings.Cut(item, ";")
	name = strings.Trim(name, " \t")
	if !found {
		return name, 1000
	}
	q, value, _ := strings.Cut(strings.Trim(params, " \t"), "=")
	f, err := strconv.ParseFloat(value, 64)
	if !strings.EqualFold(q, "q") || err != nil || !(f >= 0 && f <= 1) {
		return name, 0
	}
	return name, int(f * 1000)
}

// chooseVariant picks the body to send and its Content-Encoding, nil for none: the
// coding with the greater weight that the list has, unless identity weighs more. Where
// both codings weigh the same it is zstd, which is cheaper to read, if the caller
// named it: who only says * may not know it. Identity is always acceptable here, since
// refusing to answer helps no caller.
func (g *Gateway) chooseVariant(e *cache.Entry, acceptEncoding []string) (*cache.Variant, []string) {
	if len(acceptEncoding) == 0 {
		return &e.Identity, nil
	}
	w := weightsOf(acceptEncoding)
	zstdNamed, others := w.zstd >= 0, max(w.star, 0)
	if w.zstd < 0 {
		w.zstd = others
	}
	if w.gzip < 0 {
		w.gzip = others
	}
	zstdFirst := w.zstd > w.gzip || w.zstd == w.gzip && zstdNamed
	for _, zstd := range [...]bool{zstdFirst, !zstdFirst} {
		weight, coding, name := w.gzip, cache.Gzip, g.headers.gzip
		if zstd {
			weight, coding, name = w.zstd, cache.Zstd, g.headers.zstd
		}
		if weight == 0 || weight < w.identity {
			break
		}
		if v := g.opts.Lists.Coded(e, coding); v != nil {
			return v, name
		}
	}
	return &e.Identity, nil
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
