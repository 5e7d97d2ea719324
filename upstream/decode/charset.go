package decode

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// utf8Encoding stands for a text that is left as it is.
var utf8Encoding = encoding.Nop

// Charset finds the charset of a name as it stands in media types and XML
// declarations: a name of the WHATWG Encoding Standard, or one of the names that
// Java gives to Korean text. An empty name is UTF-8.
func Charset(name string) (encoding.Encoding, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return utf8Encoding, nil
	case "utf-16": // with a mark, or as RFC 2781 says
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM), nil
	case "cp949", "ms949", "x-windows-949":
		name = "euc-kr"
	}
	found, err := htmlindex.Get(name)
	if err != nil || name == "replacement" || name == "x-user-defined" {
		return nil, fmt.Errorf("%q is no known charset; use a name such as utf-8, euc-kr, shift_jis or windows-1252", name)
	}
	return found, nil
}

// isUTF8 tells whether a declared charset leaves a text as it is.
func isUTF8(declared string) bool {
	if declared == "" {
		return true
	}
	found, err := Charset(declared)
	return err == nil && found == utf8Encoding
}

// markOf names the charset of a byte order mark.
func markOf(body string) string {
	switch {
	case strings.HasPrefix(body, "\xef\xbb\xbf"):
		return "utf-8"
	case strings.HasPrefix(body, "\xfe\xff"), strings.HasPrefix(body, "\xff\xfe"):
		return "utf-16"
	}
	return ""
}

// declaration matches the encoding of an XML declaration.
var declaration = regexp.MustCompile(`^<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']`)

// declaredIn gives the charset that an XML declaration names.
func declaredIn(body string) string {
	if found := declaration.FindStringSubmatch(body[:min(len(body), 200)]); found != nil {
		return found[1]
	}
	return ""
}
