package v1

import (
	"strings"
	"testing"
)

// Every byte stands once in every place of the eight that are looked at
// together, beside neighbours that could disturb the comparison.
func TestEveryByteInEveryPlace(t *testing.T) {
	for _, around := range []string{"a", "\x00", "!", "#", "[", "]", "\x1f", "\x7f", "\u2027", "\xe1", "\xff"} {
		for c := range 256 {
			for place := range 17 {
				text := strings.Repeat(around, place) + string([]byte{byte(c)}) + strings.Repeat(around, 17-place)
				wantJSON(t, AppendString(nil, text), text)
			}
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f", "\u2028\u2029\ufffd", "\xff\xfe", "\xe2\x80", "12345678\xe2", "한글 텍스트 “quotes”", "\xed\xa0\x80 \xf4\x90\x80\x80", "<script>&amp;</script>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		wantJSON(t, AppendString(nil, string(b)), string(b))
	})
}
