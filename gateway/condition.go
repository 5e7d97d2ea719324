package gateway

import "strings"

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
