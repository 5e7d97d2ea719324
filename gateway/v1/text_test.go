package v1

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// repaired is what a reader must get back: each byte outside valid UTF-8 is one
// U+FFFD.
func repaired(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

func checkString(t *testing.T, s string) {
	t.Helper()
	out := AppendString(nil, s)
	if !utf8.Valid(out) || !json.Valid(out) {
		t.Fatalf("%q became %q: not valid", s, out)
	}
	if i := strings.IndexFunc(string(out), func(r rune) bool { return r < 0x20 || r == '\u2028' || r == '\u2029' }); i >= 0 {
		t.Fatalf("%q became %q: unescaped character at %d", s, out, i)
	}
	var back string
	if err := json.Unmarshal(out, &back); err != nil || back != repaired(s) {
		t.Fatalf("%q became %q and came back as %q, %v", s, out, back, err)
	}
}

// Every byte stands once in every place of the eight that are looked at
// together, beside neighbours that could disturb the comparison.
func TestEveryByteInEveryPlace(t *testing.T) {
	for _, around := range []string{"a", "\x00", "!", "#", "[", "]", "\x1f", "\x7f", "\u2027", "\xe1", "\xff"} {
		for c := range 256 {
			for place := range 17 {
				checkString(t, strings.Repeat(around, place)+string([]byte{byte(c)})+strings.Repeat(around, 17-place))
			}
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f", "\u2028\u2029\ufffd", "\xff\xfe", "\xe2\x80", "12345678\xe2", "한글 텍스트 “quotes”", "\xed\xa0\x80 \xf4\x90\x80\x80", "<script>&amp;</script>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := string(b)
		checkString(t, s)
		wantJSON(t, AppendString(nil, s), s)
	})
}
