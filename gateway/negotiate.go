package gateway

import (
	"strconv"
	"strings"

	"inquiry-gateway/cache"
)

// accepted are the weights of Accept-Encoding (RFC 9110, section 12.5.3), 0 to 1000.
type accepted struct {
	gzip, zstd int
	identity   int // -1: not named; then every coding that is accepted comes before it
	zstdNamed  bool
}

// acceptedCodings reads Accept-Encoding. Identity is always acceptable here, since
// refusing to answer helps no caller.
func acceptedCodings(values []string) accepted {
	star, gz, zs, identity := -1, -1, -1, -1
	for _, value := range values {
		for value != "" {
			var item string
			item, value, _ = strings.Cut(value, ",")
			name, weight := codingWeight(item)
			switch {
			case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
				gz = weight
			case strings.EqualFold(name, "zstd"):
				zs = weight
			case strings.EqualFold(name, "identity"):
				identity = weight
			case name == "*":
				star = weight
			}
		}
	}
	return accepted{orStar(gz, star), orStar(zs, star), identity, zs >= 0}
}

// orStar is the weight of a coding that was not named: that of *, or 0.
func orStar(weight, star int) int {
	if weight >= 0 {
		return weight
	}
	return max(star, 0)
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
	if !strings.EqualFold(q, "q") {
		return name, 0
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return name, 0
	}
	return name, int(f * 1000)
}

// chooseVariant picks the body to send and its Content-Encoding, nil for none: the
// coding with the greater weight that the list has, unless identity weighs more. Where
// both codings weigh the same it is zstd, which is cheaper to read, if the caller
// named it: who only says * may not know it.
func (g *Gateway) chooseVariant(e *cache.Entry, acceptEncoding []string) (*cache.Variant, []string) {
	if len(acceptEncoding) == 0 {
		return &e.Identity, nil
	}
	a := acceptedCodings(acceptEncoding)
	wanted := [...]struct {
		weight int
		coding cache.Coding
		header []string
	}{{a.zstd, cache.Zstd, g.headers.zstd}, {a.gzip, cache.Gzip, g.headers.gzip}}
	if a.gzip > a.zstd || a.gzip == a.zstd && !a.zstdNamed {
		wanted[0], wanted[1] = wanted[1], wanted[0]
	}
	for _, w := range wanted {
		if w.weight == 0 || w.weight < a.identity {
			break
		}
		if v := g.opts.Lists.Coded(e, w.coding); v != nil {
			return v, w.header
		}
	}
	return &e.Identity, nil
}

// notModified says whether If-None-Match (RFC 9110, section 13.1.2) names the
// entity tag, by weak comparison. etag is of the form W/"...". `*` matches
// every list that exists, and here each does. A part that is not an entity tag
// ends its header line: what follows it cannot be trusted to be one.
func notModified(ifNoneMatch []string, etag string) bool {
	opaque := strings.TrimPrefix(etag, "W/")
	for _, line := range ifNoneMatch {
		if matchesAny(line, opaque) {
			return true
		}
	}
	return false
}

// matchesAny tells whether a line of If-None-Match names the entity tag, or * for any. Of a
// line that cannot be read no tag after the mistake counts.
func matchesAny(line, opaque string) bool {
	line = strings.Trim(line, " \t")
	if line == "*" {
		return true
	}
	for line != "" {
		tag, rest, ok := nextEntityTag(line)
		if !ok {
			return false
		}
		if tag == opaque {
			return true
		}
		line = rest
	}
	return false
}

// nextEntityTag reads one entity tag, without its weakness, from the front of
// an If-None-Match list. It reads by quotes, since an entity tag may hold commas.
func nextEntityTag(line string) (tag, rest string, ok bool) {
	line = strings.TrimPrefix(strings.TrimLeft(line, " \t,"), "W/")
	if line == "" || line[0] != '"' {
		return "", "", false
	}
	end := strings.IndexByte(line[1:], '"')
	if end < 0 {
		return "", "", false
	}
	return line[:end+2], line[end+2:], true
}
